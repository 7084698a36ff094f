"""What a reader of a report must know about how it came about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grader.sandbox_report import LAYERS
from grader.text import Text, listed, say


def isolation(document: Mapping[str, Any]) -> Text:
    """The layers that were in force around learner code, by name."""
    layers = document["device"]["isolation"]
    names = [LAYERS[layer][0] if layer in LAYERS else Text(layer, layer) for layer in layers]
    if not names:
        return say("没有隔离", "no isolation")
    return Text(listed(name.zh for name in names).zh, listed(name.en for name in names).en)


def notice(document: Mapping[str, Any]) -> Text | None:
    """What every report has to say of all these grades."""
    return Text(**document["notice"]) if document.get("notice") else None
