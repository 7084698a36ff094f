"""Wrong ideas of the online softmax and of tiles, inside the multi-head module."""

from __future__ import annotations

from functools import cache

from grader.checking.diagnose import Suspect
from grader.checking.modules import Module, compute
from grader.checking.wrong_attention import Changes

from .mistakes import ONLINE, TAILS


@cache
def tiled_module_suspects() -> list[Suspect]:
    return [
        Suspect(id, lambda case, changes=changes: _tiled(case, changes), loose=2 * loose)
        for id, changes, loose in [*ONLINE, *TAILS]
    ]


def _tiled(case: Module, changes: Changes) -> dict[str, object]:
    return compute(case, inner=changes)
