"""What every command shares: the way to stop with one clear line, the way to print, and how commands are spelled."""

from __future__ import annotations

import errno
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any, NoReturn

from grader import paths
from grader.exit_codes import BROKEN, USAGE
from grader.text import Text, say


class Stop(Exception):
    """Ends the command: ``message`` is the one line the person reads, ``code`` the exit code."""

    def __init__(self, message: Text, code: int = USAGE):
        super().__init__(message.en)
        self.message, self.code = message, code


def stop(message: Text, code: int = USAGE) -> NoReturn:
    raise Stop(message, code)


def tell(message: Text | str = "") -> None:
    print(message)


def note(message: Text | str) -> None:
    """For people only: stderr, so that ``--json`` keeps stdout to itself."""
    print(message, file=sys.stderr)


def as_text(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def print_json(document: Any) -> None:
    sys.stdout.write(as_text(document))


def short(path: Path) -> str:
    """The path as a person here would type it."""
    path = Path(path)
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def from_here(path: Path) -> str:
    """A path in the clone as it is typed here: relative inside the clone and above it, else in full."""
    try:
        here = Path.cwd()
    except OSError:  # the folder is gone
        return str(path)
    near = here.is_relative_to(paths.ROOT) or paths.ROOT.is_relative_to(here)
    return os.path.relpath(path, here) if near else str(path)


def command(*words: str | Path) -> str:
    """``./dojo WORDS`` so that it can be typed here, wherever that is."""
    dojo = from_here(paths.ROOT / "dojo")
    return shlex.join([dojo if os.sep in dojo else f"./{dojo}", *map(str, words)])


def trouble(error: OSError) -> tuple[Text, int]:
    """What the system refused, as a person reads it, and the exit code."""
    name = error.filename or "?"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return say("磁盘已满，无法写入。请腾出空间再试。", "the disk is full. Free some space and try again."), BROKEN
    if isinstance(error, FileNotFoundError):
        return say("路径不存在：{name}", "no such path: {name}", name=name), USAGE
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return say(
            "没有权限：{name}。请换一个有权限的位置，或修改它的权限。",
            "no permission: {name}. Choose another place, or change its permissions.",
            name=name,
        ), USAGE
    if isinstance(error, FileExistsError | NotADirectoryError | IsADirectoryError):
        return say(
            "不能用 {name}：那里已有别的文件或文件夹。请换一个位置。",
            "{name} cannot be used: another file or folder is in the way. Choose another place.",
            name=error.filename2 or name,
        ), USAGE
    text = error.strerror or str(error)
    return say("系统错误：{name}：{text}", "system error: {name}: {text}", name=name, text=text), BROKEN
