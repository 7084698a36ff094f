"""No false refusal: many secrets over the solutions and over every differently written right answer."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path

import pytest
from conftest import grade, solutions

from grader import paths
from grader.course import catalog
from grader.proving import handed_in, samples
from grader.reading import submission

SECRETS = int(os.environ.get("FLASHDOJO_SECRETS", "100"))  # how many the slow tests try
ANSWERS = sorted(path for path in (paths.ROOT / "tests" / "right_answers").glob("s[1234]/*") if path.suffix != ".md")


def program(path: Path) -> str:
    return "\n\n".join(cell.source for cell in submission.read(path).cells)


@pytest.mark.parametrize("stage", ["s1", "s2", "s3", "s4"])
def test_solutions_pass_with_a_few_secrets(stage: str) -> None:
    for secret in range(1 if stage in ("s3", "s4") else 3):  # training, and timing, take seconds
        graded = grade(stage, solutions(stage), secret=f"few {secret}", student="someone")
        assert graded.failed == [], graded.messages
        assert graded.points == 100


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("path", ANSWERS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_right_answers_pass_with_every_secret(path: Path) -> None:
    stage, asked = catalog.load().stage(path.parent.name), samples.asked(path)
    writes = any(stage.exercise(id).is_artifact for id in asked)
    files = handed_in.of_sample(path, stage) if writes else None
    source = "" if writes else program(path)
    if asked:  # what it leaves out is solved
        source = f"{solutions(stage.id)}\n\n{source}"
    for secret in range(SECRETS):
        with contextlib.redirect_stdout(io.StringIO()):
            graded = grade(stage.id, source, exercises=asked, secret=f"many {secret}", files=files)
        assert graded.failed == [], (secret, graded.messages)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("stage", ["s1", "s2", "s3", "s4"])
def test_solutions_pass_with_every_secret(stage: str) -> None:
    for secret in range(2 * SECRETS):
        assert grade(stage, solutions(stage), secret=f"many {secret}").points == 100, secret


def test_every_stage_has_right_answers() -> None:
    assert {path.parent.name for path in ANSWERS} == {stage.id for stage in catalog.load().stages}
