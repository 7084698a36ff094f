"""Checks of s4-tiles."""

from __future__ import annotations

from grader.vocabulary import Context, check, say


@check("s4-tiles.values", points=10, concept="buffers")
def tiles_values(ctx: Context) -> None:
    ctx.fail(say("这项检查还没有写好。", "This check is not written yet."))
