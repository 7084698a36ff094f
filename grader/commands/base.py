"""What every command shares: the way to stop with one clear line, and the way to print."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NoReturn

from grader.exit_codes import USAGE
from grader.text import Text


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


def print_json(document: Any) -> None:
    json.dump(document, sys.stdout, ensure_ascii=False, indent=1, allow_nan=False)
    sys.stdout.write("\n")


def short(path: Path) -> str:
    """The path as a person here would type it."""
    path = Path(path)
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
