"""How a command of ``flashdojo profile`` ends that cannot answer."""

from __future__ import annotations

from typing import Any

from grader.checking.model_errors import in_words
from grader.text import Text


class CannotAnswer(Exception):
    """Ends a command with ``message`` and exit code 2."""

    def __init__(self, message: Text):
        super().__init__(message.en)
        self.message = message


def refuse(error: ValueError, where: Any = None) -> CannotAnswer:
    """To be raised: the error as the command's last line; ``where``: the file it is about."""
    message = in_words(error)
    if where is not None:
        message = Text(f"{where}：{message.zh}", f"{where}: {message.en}")
    return CannotAnswer(message)
