"""How well learner code was shut in, and what every report says when that was not well."""

from __future__ import annotations

from collections.abc import Collection

from grader.text import Text, say

SURE = {"landlock": "Landlock", "seccomp": "seccomp"}  # with less than these a grade is only as good as its author


def missing(in_force: Collection[str]) -> Text | None:
    """Which of :data:`SURE` are not among these layers, by name; None when all are."""
    names = [name for layer, name in SURE.items() if layer not in in_force]
    return Text("、".join(names), " or ".join(names)) if names else None


def notice(in_force: Collection[str]) -> Text | None:
    """For the result document: None when enough layers of :data:`grader.worker.confine.LAYERS` were in force."""
    absent = missing(in_force)
    if absent is None:
        return None
    return say(
        "评分时没有启用 {missing}：提交的代码没有被完全隔离，这份成绩只在信任代码作者时才可靠。",
        "Graded without {missing}: the code was not fully confined, so trust this grade only as far as you trust its "
        "author.",
        missing=absent,
    )
