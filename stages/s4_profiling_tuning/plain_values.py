"""Answers that are plain values (numbers, words, lists, dicts): are two the same, which wrong idea explains some."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from grader.checking.compare import returned
from grader.vocabulary import Context, say

Case = TypeVar("Case")
CLOSE = 1e-6  # relative: an answer computed in another order of operations is the same answer


def same(got: Any, want: Any) -> bool:
    """Equal in kind and value. Numbers may differ by rounding, a list may come as a tuple; True is no number."""
    if want is None or isinstance(want, (str, bool)):
        return type(got) is type(want) and bool(got == want)
    if isinstance(want, (int, float)):
        if isinstance(got, bool) or not isinstance(got, (int, float)):
            return False
        return got == want or math.isclose(got, want, rel_tol=CLOSE, abs_tol=1e-12)
    if isinstance(want, Mapping):
        return isinstance(got, Mapping) and got.keys() == want.keys() and all(same(got[key], want[key]) for key in want)
    return (
        isinstance(got, (list, tuple))
        and len(got) == len(want)
        and all(same(a, b) for a, b in zip(got, want, strict=True))
    )


def require_dict(ctx: Context, value: Any, keys: Sequence[str], *, exactly: bool = False) -> Mapping[str, Any]:
    """``value`` if it is a dict that has ``keys`` (and, with ``exactly``, no others)."""
    if not isinstance(value, Mapping):
        ctx.fail(
            say("应返回字典，得到 {got}。", "It must return a dict, it returned {got}.", got=returned(value)),
            misconception="wrong-return",
            evidence={"got": returned(value)},
        )
    lost = [key for key in keys if key not in value]
    added = [str(key) for key in value if key not in keys] if exactly else []
    if lost or added:
        ctx.fail(
            say(
                "字典的键不对：少了 {lost}，多了 {added}。",
                "The dict's keys are wrong: missing {lost}, not asked for {added}.",
                lost=", ".join(lost) or "-",
                added=", ".join(added) or "-",
            ),
            misconception="wrong-return",
            evidence={"got": returned(value), "expected": list(keys)},
        )
    return value


def idea_behind(
    seen: Sequence[tuple[Case, Any]],
    right: Callable[[Case], Any],
    ideas: Sequence[tuple[str, Callable[[Case], Any]]],
    alike: Callable[[Any, Any], bool] = same,
) -> str | None:
    """The one idea that gives every answer in ``seen``, two of them wrong ones; None where that is not certain."""
    wrong = [(case, got) for case, got in seen if not alike(got, right(case))]
    if len(wrong) < 2:
        return None
    fitting = {id for id, give in ideas if all(alike(got, give(case)) for case, got in seen)}
    return fitting.pop() if len(fitting) == 1 else None


def shown(value: Any) -> str:
    """A value as a message shows it: numbers with six digits, long lists cut."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        items = [shown(item) for item in value[:6]] + ["..."] * (len(value) > 6)
        return f"[{', '.join(items)}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {shown(item)}" for key, item in list(value.items())[:8]) + "}"
    return returned(value) if not isinstance(value, str) else value[:80]
