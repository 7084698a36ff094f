"""The engine of FlashDojo. In a notebook: ``from grader import check``, then ``check("s2-forward")``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grader.live.check import check

__all__ = ["check"]


def __getattr__(name: str) -> Any:  # lazy: most of the command line needs neither torch nor the checks
    if name == "check":
        from grader.live.check import check

        return check
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
