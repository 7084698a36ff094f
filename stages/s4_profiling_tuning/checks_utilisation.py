"""Checks of s4-utilisation."""

from __future__ import annotations

from grader.vocabulary import Context, check, say


@check("s4-utilisation.values", points=8, concept="weighting")
def utilisation_values(ctx: Context) -> None:
    ctx.fail(say("这项检查还没有写好。", "This check is not written yet."))
