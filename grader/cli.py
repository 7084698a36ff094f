"""``flashdojo``: the command line. Parses, calls :mod:`grader.commands`, and turns every error into one line."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from grader.commands.base import Stop, command, note, trouble
from grader.exit_codes import BROKEN, USAGE
from grader.text import LANGUAGES, Text, answer_in, say


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Exit codes: 0 every check passed, 1 some failed, 2 usage or unreadable, 3 the grader failed."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 still gets the words
    answer_in(None)
    try:
        with contextlib.redirect_stdout(_Output(sys.stdout)):
            code = _run(_choose_language(list(sys.argv[1:] if argv is None else argv)))
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if os.environ.get("FLASHDOJO_DEBUG"):
            raise
        message, code = explain(error)
        note(f"flashdojo: {message}")
        if getattr(error, "errno", None) == errno.ENOSPC:
            with contextlib.suppress(OSError):
                _let_go(sys.stdout)  # the rest of the buffer cannot go out
        return code


def _let_go(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Output:
    """Standard output that may lose its reader (``flashdojo ... | head``): the command goes on to its end and to its
    exit code, unheard."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            _let_go(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            _let_go(self._stream)


def _run(arguments: list[str]) -> int:
    from grader.commands.app import app

    result = app(args=arguments or ["--help"], prog_name=command(), standalone_mode=False)
    return result if isinstance(result, int) else 0


def _choose_language(arguments: list[str]) -> list[str]:
    """``--lang`` is understood everywhere, before any text is made."""
    rest: list[str] = []
    chosen = None
    stream = iter(arguments)
    for argument in stream:
        if argument == "--lang":
            chosen = next(stream, "")
        elif argument.startswith("--lang="):
            chosen = argument.split("=", 1)[1]
        elif argument == "--":
            rest += [argument, *stream]
        else:
            rest.append(argument)
    if chosen is not None:
        if chosen not in LANGUAGES:
            raise Stop(say("--lang 只能是 zh 或 en", "--lang takes zh or en"))
        os.environ["FLASHDOJO_LANG"] = chosen
    return rest


def explain(error: Exception) -> tuple[Text, int]:
    """The line a person reads about an error, and the exit code."""
    from grader.course.catalog import CatalogError

    if isinstance(error, Stop):
        return error.message, error.code
    if hasattr(error, "format_message"):
        return _usage(error), USAGE
    if isinstance(error, ModuleNotFoundError):
        return say(
            "缺少 Python 包 {name}。请改用 ./dojo 运行，它会补齐环境（或自行 pip install -e . -c constraints.txt）。",
            "the Python package {name} is missing. Run ./dojo, which completes the set-up "
            "(or pip install -e . -c constraints.txt here).",
            name=error.name or "?",
        ), BROKEN
    if isinstance(error, OSError):
        return trouble(error)
    if isinstance(error, CatalogError):
        return say(
            "课程文件有 {n} 处错误，例如：{first}。课程作者可运行 ./dojo dev check。",
            "the course has {n} mistakes, such as: {first}. Its author finds them with ./dojo dev check.",
            n=len(error.problems),
            first=error.problems[0],
        ), BROKEN
    message = getattr(error, "message", None)
    if isinstance(message, Text):  # an unknown stage or exercise, an unreadable submission
        return message, USAGE
    return say(
        "内部错误：{kind}: {text}（设 FLASHDOJO_DEBUG=1 可看到完整经过，请据此报告）",
        "internal error: {kind}: {text} (FLASHDOJO_DEBUG=1 shows the whole story; please report it)",
        kind=type(error).__name__,
        text=" ".join(str(error).split())[:300],
    ), BROKEN


def _usage(error: Any) -> Text:
    """The option parser's complaints, in the two languages."""
    english = error.format_message().rstrip(".?")
    kind = type(error).__name__
    param = getattr(error, "param", None)
    hint = param and (param.opts[0] if param.opts[0].startswith("-") else param.metavar or param.name)
    if kind == "MissingParameter":
        chinese, english = f"缺少参数 {hint}", f"{hint} is missing"
    elif kind == "NoSuchOption":
        chinese = f"没有选项 {error.option_name}"
    elif english.startswith("No such command"):
        chinese = english.replace("No such command ", "没有这个命令：").replace(". Did you mean ", "；你要的是不是 ")
        chinese += "？" if "是不是" in chinese else ""
    elif hint:
        chinese = f"{hint} 的值不对"
    else:
        chinese = f"用法不对：{english}"
    context = getattr(error, "ctx", None)
    return say(
        "{what}{stop_zh}用法：{command} --help",
        "{what_en}{stop_en} See {command} --help",
        what=chinese,
        what_en=english,
        stop_zh="" if chinese.endswith("？") else "。",
        stop_en="?" if "Did you mean" in english else ".",
        command=getattr(context, "command_path", command()),
    )


if __name__ == "__main__":
    sys.exit(main())
