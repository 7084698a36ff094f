"""Checks of s4-read."""

from __future__ import annotations

from grader.vocabulary import Context, check, say


@check("s4-read.values", points=10, concept="profile-files")
def read_values(ctx: Context) -> None:
    ctx.fail(say("这项检查还没有写好。", "This check is not written yet."))
