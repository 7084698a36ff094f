"""Does a learner read the cause first, and what follows from it under it?"""

from __future__ import annotations

from typing import Any

import pytest
from conftest import entry_of

from grader import results
from grader.reports.steps import Step, steps
from grader.views.content import blocks

pytestmark = pytest.mark.xdist_group("reports")  # one grading of the class serves them all


def steps_of(document: dict[str, Any], student: str) -> list[Step]:
    entry = results.for_learner(entry_of(document, student))
    return steps(entry, blocks(entry))


def test_one_wrong_idea_is_one_step_and_its_consequences_stand_under_it(graded: dict[str, Any]) -> None:
    only = steps_of(graded, "dana")
    assert [step.title.en for step in only] == ["acc is not rescaled"]
    assert only[0].block.id == "s2-update"
    assert dict(only[0].consequences) == {"s2-forward": 1, "s2-module": 1, "s2-function": 1, "s2-varlen": 1}
    assert only[0].points == entry_of(graded, "dana")["max_score"] - entry_of(graded, "dana")["score"]


def test_nothing_is_left_to_do_when_everything_passes(graded: dict[str, Any]) -> None:
    assert steps_of(graded, "ada") == []


def test_what_was_not_written_is_the_last_step(graded: dict[str, Any]) -> None:
    first, *_, last = steps_of(graded, "ivan")
    assert first.title.en == "Library attention is used"
    assert [block.id for block in last.unwritten] == ["s2-backward", "s2-function"]


def test_a_failure_without_a_known_idea_is_named_by_what_happened(graded: dict[str, Any]) -> None:
    (only,) = steps_of(graded, "jade")
    assert only.title.en == "flash_attention_varlen does not come back in time"
    assert only.title.zh == "flash_attention_varlen 没有按时返回"
    assert only.explain is None
    assert only.place
    assert only.place.en.startswith("line ")


def test_an_exception_is_named_with_its_place(graded: dict[str, Any]) -> None:
    (only,) = steps_of(graded, "ann")
    assert only.title.en == "flash_traffic ends in an error"
    assert only.place


def test_a_wrong_value_without_a_known_idea_is_named_by_its_concept(document: dict[str, Any]) -> None:
    for row in entry_of(document, "chen")["exercises"]:
        for check in row["checks"]:
            check["misconception"] = None
    first, *_ = steps_of(document, "chen")
    assert first.title.en == "Not right yet: short tiles at the end"


def test_a_hidden_check_is_a_step_of_its_own_behind_the_others(document: dict[str, Any]) -> None:
    *others, last = steps_of(document, "chen")
    assert others
    assert last.hidden
    assert last.title.en == "A hidden check of short tiles at the end failed"
    assert last.title.zh == "一项不公开的检查没有通过：不满的尾块"
    assert last.explain is None


@pytest.mark.parametrize("student", ["chen", "dana", "fumi", "ivan", "jade", "ann"])
def test_every_point_that_is_missing_belongs_to_one_step(document: dict[str, Any], student: str) -> None:
    entry = entry_of(document, student)
    assert sum(step.points for step in steps_of(document, student)) == pytest.approx(
        entry["max_score"] - entry["score"]
    )
