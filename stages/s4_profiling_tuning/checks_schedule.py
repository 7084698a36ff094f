"""Checks of s4-schedule."""

from __future__ import annotations

from grader.vocabulary import Context, check, say


@check("s4-schedule.values", points=10, concept="schedule")
def schedule_values(ctx: Context) -> None:
    ctx.fail(say("这项检查还没有写好。", "This check is not written yet."))
