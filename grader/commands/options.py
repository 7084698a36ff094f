"""What the tables of commands share: help in the person's language, and options that several commands take."""

from __future__ import annotations

from typing import Annotated

import typer

from grader.text import say


def in_language(zh: str, en: str) -> str:
    return str(say(zh, en))


JsonOption = Annotated[
    bool, typer.Option("--json", help=in_language("在标准输出打印一个 JSON 文档", "print one JSON document"))
]
