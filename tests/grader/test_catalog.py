"""Is the course read as written, and is an author told what to fix?"""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.course import catalog

STAGE = """
id = "s9"
weeks = "1"
[title]
zh = "阶段"
en = "Stage"
[concepts]
one = { zh = "一", en = "one" }
[[exercises]]
id = "s9-first"
name = "first"
kind = "function"
points = 3
solution = "first.py"
forbid = ["numpy"]
title = { zh = "甲", en = "First" }
summary = { zh = "甲", en = "The first" }
hints = [{ zh = "一", en = "1" }, { zh = "二", en = "2" }, { zh = "三", en = "3" }]
[[exercises.reading]]
title = { zh = "论文", en = "Paper" }
url = "https://example.org"
"""
CHECKS = """
from grader.vocabulary import check
from .other import POINTS

@check("s9-first.values", points=POINTS, concept="one")
def values(ctx):
    pass

@check("s9-first.more", points=1, concept="one", needs=("s9-first.values",), public=False)
def more(ctx):
    pass
"""


@pytest.fixture
def course(tmp_path: Path) -> Path:
    folder = tmp_path / "s9_nine"
    folder.mkdir()
    (folder / "stage.toml").write_text(STAGE, "utf-8")
    (folder / "checks.py").write_text(CHECKS, "utf-8")
    (folder / "other.py").write_text("POINTS = 2\n", "utf-8")
    return tmp_path


def change(course: Path, file: str, old: str, new: str) -> list[str]:
    path = course / "s9_nine" / file
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
    with pytest.raises(catalog.CatalogError) as caught:
        catalog.load(course)
    return caught.value.problems


def test_a_stage_is_read_whole(course: Path) -> None:
    stage = catalog.load(course).stage("s9")
    exercise = stage.exercise("s9.first")
    assert (stage.folder, stage.points, exercise.points) == ("s9_nine", 3, 3)
    assert [check.id for check in exercise.checks] == ["s9-first.values", "s9-first.more"]
    assert [hint.en for hint in exercise.hints] == ["1", "2", "3"]
    assert exercise.reading[0].url == "https://example.org"
    assert exercise.solution.name == "first.py"
    assert exercise.solution.parent.name == "s9_nine"


def test_ideas_common_to_all_stages_are_known_in_each(course: Path) -> None:
    stage = catalog.load(course).stage("s9")
    for rule in (*catalog.RULES, "escape", "reference", "tampering"):
        assert stage.misconceptions[f"forbidden-{rule}"].explain.zh
    assert {"missing", "not-implemented"} <= set(stage.misconceptions)


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("stage.toml", "points = 3", "points = 4", "give 3 points, stage.toml says 4"),
        ("stage.toml", "points = 3", "points = 0", "must be positive"),
        ("stage.toml", 'kind = "function"', 'kind = "module"', "kind 'module'"),
        ("stage.toml", 'forbid = ["numpy"]', 'forbid = ["nunpy"]', "forbids 'nunpy'"),
        ("stage.toml", ', { zh = "三", en = "3" }', "", "2 hints, there must be 3"),
        ("stage.toml", 'en = "2"', 'en = " "', "empty in one language"),
        ("stage.toml", 'id = "s9-first"', 'id = "first"', "must start with s9-"),
        ("stage.toml", 'id = "s9-first"', 'id = "s9-second"', "belongs to no exercise"),
        ("stage.toml", 'name = "first"', "", "a field is missing"),
        ("stage.toml", "weeks", "weeks = =", "not valid TOML"),
        ("checks.py", 'concept="one")', 'concept="two")', "concept 'two'"),
        ("checks.py", 'needs=("s9-first.values",)', 'needs=("s9-first.more",)', "no earlier check"),
        ("checks.py", "s9-first.more", "s9-first.values", "used more than once"),
        ("checks.py", "import POINTS", "import NOTHING", "cannot be imported: ImportError"),
        ("checks.py", "    pass\n", '    ctx.fail(None, misconception="unheard")\n', "misconception 'unheard'"),
    ],
)
def test_an_author_is_told_what_to_fix(course: Path, file: str, old: str, new: str, told: str) -> None:
    problems = change(course, file, old, new)
    assert any(told in problem and file in problem for problem in problems), problems


def test_a_stage_without_checks_is_a_problem_but_can_be_read(course: Path) -> None:
    (course / "s9_nine" / "checks.py").unlink()
    with pytest.raises(catalog.CatalogError, match=r"no checks\.py"):
        catalog.load(course)
    assert catalog.load(course, strict=False).stage("s9").exercises[0].checks == []
    assert catalog.load(course, checks=False).stage("s9").exercises[0].name == "first"


def test_no_stage_at_all_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(catalog.CatalogError, match=r"no stage\.toml"):
        catalog.load(tmp_path)


def test_unknown_names_are_answered_with_close_ones(course: Path) -> None:
    loaded = catalog.load(course)
    with pytest.raises(catalog.UnknownExercise) as exercise:
        loaded.exercise("s9-frist")
    assert "s9-first" in exercise.value.message.en
    assert "s9-first" in exercise.value.message.zh
    with pytest.raises(catalog.UnknownStage) as stage:
        loaded.stage("s10")
    assert "s9" in stage.value.message.en


def test_the_course_itself_is_sound() -> None:
    course = catalog.load()
    assert [(stage.id, stage.points) for stage in course.stages] == [("s1", 100), ("s2", 100), ("s3", 100), ("s4", 100)]
    names = {exercise.id: exercise.name for stage in course.stages for exercise in stage.exercises}
    assert names["s2-forward"] == "flash_attention_forward"
    assert len(names) == 33
