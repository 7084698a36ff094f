"""What an examination of this machine found."""

from __future__ import annotations

from dataclasses import dataclass

from grader.text import Text


@dataclass(frozen=True)
class Finding:
    """``level``: ok, note (something is not there and need not be), problem, or fatal (the course cannot run)."""

    level: str
    subject: Text
    found: Text
    fix: Text | None = None
