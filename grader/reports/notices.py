"""What a reader of a report must know about how it came about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grader.doctor import LAYERS
from grader.text import Text, listed, say

SURE = ("landlock", "seccomp")


def isolation(document: Mapping[str, Any]) -> Text:
    """The layers that were in force around learner code, by name."""
    layers = document["device"]["isolation"]
    names = [LAYERS[layer][0] if layer in LAYERS else Text(layer, layer) for layer in layers]
    if not names:
        return say("没有隔离", "no isolation")
    return Text(listed(name.zh for name in names).zh, listed(name.en for name in names).en)


def weak(document: Mapping[str, Any]) -> Text | None:
    """Said in every report when learner code ran with less than Landlock and seccomp."""
    missing = [layer for layer in SURE if layer not in document["device"]["isolation"]]
    if not missing:
        return None
    return say(
        "评分时没有启用 {missing}：提交的代码没有被完全隔离，这份成绩只在信任代码作者时才可靠。",
        "Graded without {missing}: the code was not fully confined, so trust this grade only as far as you trust its "
        "author.",
        missing=listed(LAYERS[layer][0].en for layer in missing),
    )
