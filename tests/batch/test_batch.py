"""Are whole folders graded to their end, each the same whatever the order, the company and the number of jobs?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import v4
from small_course import LIMITS, RIGHT, SUBMISSIONS, without_seconds

from grader import paths, results
from grader.batch import intake
from grader.batch.names import owner_of
from grader.batch.run import grade_paths
from grader.course import catalog
from grader.inputs import Secret
from grader.judging import desk, grade
from grader.wall.workers import Template

Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def run(course: Path) -> Iterator[Run]:
    """``grade_paths`` on the small course, with a template that stays warm."""
    with Template() as template:
        yield partial(grade_paths, course=course, template=template, limits=LIMITS)


@pytest.fixture(scope="module")
def graded(course: Path, folder: Path) -> dict[str, Any]:
    """In two processes of their own."""
    return grade_paths([folder], stage="s9", jobs=2, course=course, limits=LIMITS)


def rows(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {Path(row["path"]).name: row for row in document["submissions"]}


def test_a_class_is_graded_to_the_last(graded: dict[str, Any]) -> None:
    results.validate(graded)
    assert list(rows(graded)) == sorted(SUBMISSIONS)
    assert {name: (row["status"], row["score"]) for name, row in rows(graded).items()} == {
        "right.py": ("graded", 7), "wrong.py": ("graded", 4), "syntax.py": ("graded", 0), "empty.py": ("unreadable", 0),
        "crash.py": ("graded", 4), "nonsense.py": ("graded", 4), "cheat.py": ("graded", 4),
        "hang_at_load.py": ("graded", 0),
    }  # fmt: skip
    assert results.exit_code(graded) == 2
    assert {row["max_score"] for row in graded["submissions"]} == {7}
    assert {row["student"] for row in graded["submissions"]} == {Path(name).stem for name in SUBMISSIONS}


def test_each_is_told_its_own_trouble(graded: dict[str, Any]) -> None:
    told = rows(graded)
    assert "empty file" in told["empty.py"]["message"]["en"]
    assert told["empty.py"]["sha256"] is None
    assert "SystemExit" in told["crash.py"]["exercises"][0]["checks"][0]["message"]["en"]
    assert "cannot be accepted" in told["nonsense.py"]["exercises"][0]["checks"][0]["message"]["en"]
    cheat = told["cheat.py"]["exercises"][0]["checks"]
    assert [check["misconception"] for check in cheat] == ["forbidden-softmax"] * 2
    syntax = told["syntax.py"]["exercises"][1]["checks"][0]
    assert (syntax["misconception"], syntax["where"]) == ("missing", {"cell": None, "line": 1})
    hung = told["hang_at_load.py"]["exercises"]
    assert [check["status"] for exercise in hung for check in exercise["checks"]] == ["timeout", "blocked", "timeout"]


def test_neither_order_nor_company_nor_jobs_change_a_result(
    run: Run, folder: Path, graded: dict[str, Any]
) -> None:
    names = ["wrong.py", "cheat.py", "right.py"]
    again = run([folder / name for name in names], stage="s9")
    assert list(rows(again)) == names
    for name in names:
        assert without_seconds(rows(again)[name]) == without_seconds(rows(graded)[name])


def test_inputs_follow_student_and_secret(run: Run, folder: Path) -> None:
    def drawn(**options: Any) -> list[float]:
        row = run([folder / "wrong.py"], stage="s9", **options)["submissions"][0]
        return row["exercises"][0]["checks"][0]["evidence"]["input"]

    assert drawn() == drawn(student="wrong")
    assert drawn() != drawn(student="other")
    assert drawn() != drawn(secret=Secret(b"k"))


def test_a_notebook_knows_its_stage(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "submitted" / "ann" / "week1" / "nb.ipynb"
    path.parent.mkdir(parents=True)
    book = v4.new_notebook(cells=[v4.new_code_cell(RIGHT)], metadata={"flashdojo": {"stage": "s9"}})
    nbformat.write(book, path)
    row = run([path])["submissions"][0]
    assert (row["stage"], row["student"], row["score"]) == ("s9", "ann", 7)


def test_progress_counts_up(run: Run, folder: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    run(
        [folder / "right.py", folder / "empty.py"], stage="s9",
        on_progress=lambda done, total, row: seen.append((done, total, row["status"])),
    )  # fmt: skip
    assert [(done, total) for done, total, _ in seen] == [(1, 2), (2, 2)]
    assert {status for _, _, status in seen} == {"graded", "unreadable"}


def test_after_an_interruption_nothing_new_is_begun(run: Run, folder: Path) -> None:
    seen: list[int] = []

    def interrupt(done: int, total: int, row: dict[str, Any]) -> None:
        seen.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([folder], stage="s9", on_progress=interrupt)
    assert len(seen) < len(SUBMISSIONS)


def test_public_checks_of_one_exercise(run: Run, folder: Path) -> None:
    document = run(
        [folder / "right.py"], stage="s9", only_public=True, exercises=["s9.double"]
    )
    row = document["submissions"][0]
    assert (row["score"], row["max_score"], len(row["exercises"])) == (2, 2, 1)


def unreadable(document: dict[str, Any]) -> str:
    results.validate(document)
    row = document["submissions"][0]
    assert row["status"] == "unreadable"
    assert results.exit_code(document) == 2
    return str(row["message"]["en"])


def test_what_cannot_be_graded_is_an_entry_of_its_own(run: Run, folder: Path, tmp_path: Path) -> None:
    assert "--stage (s9)" in unreadable(run([folder / "right.py"]))
    assert "no such file" in unreadable(run([folder / "none.py"], stage="s9"))
    assert "a folder without" in unreadable(run([tmp_path], stage="s9"))
    book = v4.new_notebook(cells=[v4.new_code_cell("x = 1")], metadata={"flashdojo": {"stage": "s77"}})
    nbformat.write(book, tmp_path / "a.ipynb")
    assert "stage s77, which does not exist" in unreadable(run([tmp_path / "a.ipynb"]))


def test_a_notebook_of_another_stage_is_graded_as_told_and_says_so(run: Run, tmp_path: Path) -> None:
    book = v4.new_notebook(cells=[v4.new_code_cell(RIGHT)], metadata={"flashdojo": {"stage": "s1"}})
    nbformat.write(book, tmp_path / "a.ipynb")
    row = run([tmp_path], stage="s9")["submissions"][0]
    assert (row["status"], row["score"]) == ("graded", 7)
    assert "a notebook of stage s1, not of s9. Leave --stage out" in row["message"]["en"]


def test_a_link_out_of_a_folder_is_not_followed(run: Run, folder: Path, tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "a.py").symlink_to(folder / "right.py")
    assert "out of its own folder" in unreadable(run([inside], stage="s9"))


def test_unknown_stage_and_exercise_are_usage_errors(run: Run, folder: Path) -> None:
    with pytest.raises(catalog.UnknownStage):
        run([folder], stage="s8")
    with pytest.raises(catalog.UnknownExercise):
        run([folder], stage="s9", exercises=["s9-quadruple"])


@pytest.mark.parametrize(
    ("path", "student"),
    [
        ("ann.py", "ann"),
        ("x/submitted/ann/hw/nb.ipynb", "ann"),
        ("x/submitted/nb.ipynb", "nb"),
        ("submitted/a/submitted/b/c/nb.py", "b"),
        ("x/y.z.py", "y.z"),
    ],
)
def test_whose_work_it_is(path: str, student: str) -> None:
    assert owner_of(Path(path)).student == student


def test_a_target_named_twice_is_graded_once(folder: Path) -> None:
    entries = intake.collect([folder / "right.py", folder, os.path.relpath(folder / "right.py")])
    assert len(entries) == len(SUBMISSIONS)
    assert {entry.student for entry in intake.collect([folder], "ann")} == {"ann"}


def test_an_installation_without_a_clone_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    grade.require_clone()
    monkeypatch.setattr(grade, "__file__", os.path.join(grade.sysconfig.get_path("purelib"), "grader", "grade.py"))
    with pytest.raises(grade.Refused) as caught:
        grade.require_clone()
    assert "./dojo" in caught.value.message.en
    monkeypatch.undo()
    monkeypatch.setattr(paths, "STAGES", tmp_path / "none")
    with pytest.raises(grade.Refused):
        grade.require_clone()


def test_a_failure_of_the_machinery_is_one_entry_and_exit_code_3(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise OSError("no more processes")

    monkeypatch.setattr(desk, "subjects", broken)
    document = run([folder / "right.py", folder / "empty.py"], stage="s9")
    results.validate(document)
    assert [row["status"] for row in document["submissions"]] == ["failed", "unreadable"]
    assert "no more processes" in document["submissions"][0]["message"]["zh"]
    assert results.exit_code(document) == 3
