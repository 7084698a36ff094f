"""The page of a class: what it does not understand, at a glance; then everybody, concept by concept."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from grader.reports import notices
from grader.reports.cohort import cohorts
from grader.reports.pages import render
from grader.text import Text, say

MISTAKES, HARDEST, SLOWEST = 10, 8, 5  # rows that are shown at once


def page(document: Mapping[str, Any], *, links: Sequence[str] | None = None, lang: str | None = None) -> str:
    """HTML for the instructor. ``links``: where each submission's own page lies, as a path from this one."""
    entries = document["submissions"]
    return render(
        "class.html",
        lang=lang,
        wide=True,
        title=say("班级报告 · FlashDojo", "Class report · FlashDojo"),
        entries=entries,
        cohorts=cohorts(document),
        links=[quote(link) for link in links] if links else None,
        remarks=_remarks(entries),
        seconds=[entry["seconds"] for entry in entries],
        median_seconds=statistics.median([entry["seconds"] for entry in entries] or [0.0]),
        slowest=sorted(enumerate(entries), key=lambda pair: -pair[1]["seconds"])[:SLOWEST],
        slowest_check=_slowest_check,
        timeouts=sum(any(check["status"] == "timeout" for check in _checks(entry)) for entry in entries),
        mistakes_shown=MISTAKES,
        hardest_shown=HARDEST,
        public=document["secret"] == "public",
        notice=notices.notice(document),
        isolation=notices.isolation(document),
        torch=document["device"]["torch"],
    )


def _checks(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [check for exercise in entry["exercises"] for check in exercise["checks"]]


def _slowest_check(entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return max(_checks(entry), key=lambda check: check["seconds"], default=None)


def _remarks(entries: Sequence[Mapping[str, Any]]) -> list[tuple[int, Text, bool]]:
    """What a person has to look at: place in the document, what it is, whether it needs action."""
    times = Counter((entry["student"], entry["stage"]) for entry in entries)
    found: list[tuple[int, Text, bool]] = []
    for place, entry in enumerate(entries):
        if entry["status"] != "graded":
            text = Text(**entry["message"]) if entry["message"] else say("没有结果", "no result")
            found.append((place, text, True))
        if times[entry["student"], entry["stage"]] > 1:
            text = say("同一学号有多份提交：{it}", "more than one submission for this id: {it}", it=entry["path"])
            found.append((place, text, True))
        found += [(place, Text(**repair), False) for repair in entry["repairs"]]
    return found
