"""Checks of s4-diagnose."""

from __future__ import annotations

from grader.vocabulary import Context, check, say


@check("s4-diagnose.values", points=12, concept="bottleneck")
def diagnose_values(ctx: Context) -> None:
    ctx.fail(say("这项检查还没有写好。", "This check is not written yet."))
