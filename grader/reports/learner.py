"""The page of one submission: what went wrong, where, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader import results
from grader.course import catalog
from grader.reading.submission import Program
from grader.reports import notices
from grader.reports.code import Excerpt, excerpt, program_of
from grader.reports.pages import render
from grader.reports.steps import Step, steps
from grader.text import Text, say
from grader.views.content import Block, blocks, number


@dataclass(frozen=True)
class Shown:
    """A step with what the page puts beside it."""

    step: Step
    code: Excerpt | None
    reading: Sequence[catalog.Reading]
    anchor: str


def page(
    document: Mapping[str, Any], entry: Mapping[str, Any], *, lang: str | None = None, folders: Iterable[Path] = ()
) -> str:
    """HTML for its author: of a hidden check nothing but the idea, the result and the points. ``folders`` are tried
    for the submission's file, besides the current one."""
    seen = results.for_learner(entry)
    shown = blocks(seen)
    program = program_of(entry, folders) if shown else None
    hidden = {check["id"] for row in seen["exercises"] for check in row["checks"] if check["visibility"] == "hidden"}
    return render(
        "submission.html",
        lang=lang,
        title=Text(f"{entry['student']} · FlashDojo", f"{entry['student']} · FlashDojo"),
        entry=seen,
        stage=_stage(entry["stage"]),
        file=Path(entry["path"]).name,
        blocks=shown,
        steps=[_shown(step, program, place) for place, step in enumerate(steps(seen, shown), 1)],
        hidden=hidden,
        verdict=_verdict(entry, shown),
        public=document["secret"] == "public",
        notice=notices.notice(document),
        isolation=notices.isolation(document),
    )


def _shown(step: Step, program: Program | None, place: int) -> Shown:
    code = None
    if program and not step.hidden and not step.unwritten:
        where = next((line.place for line in step.lines if line.place), None)
        code = excerpt(program, step.block.name, where) or excerpt(program, step.block.name, None)
    known = catalog.load(strict=False, checks=False)
    return Shown(step, code, known.exercise(step.block.id).reading, f"step-{place}")


def _stage(id: str | None) -> Text:
    """The stage's title; an id that this course does not have stands for itself."""
    if id is None:
        return say("FlashDojo", "FlashDojo")
    try:
        return catalog.load(strict=False, checks=False).stage(id).title
    except catalog.UnknownStage:
        return Text(id, id)


def _verdict(entry: Mapping[str, Any], shown: Sequence[Block]) -> Text:
    """The result in one sentence."""
    if entry["status"] == "unreadable":
        return say("这份提交无法读取，所以还没有成绩", "This submission could not be read, so there is no score yet")
    if entry["status"] == "failed":
        return say("评分程序出错了，这不是你的问题", "The grader failed; this is not your mistake")
    done = sum(block.passed for block in shown)
    if done == len(shown):
        return say("全部通过", "Everything passes")
    missing = entry["max_score"] - entry["score"]
    return say(
        "{n} 道练习中通过了 {done} 道，还差 {missing} 分",
        "{done} of {n} exercises pass; {missing} points to go",
        done=done,
        n=len(shown),
        missing=number(missing),
    )
