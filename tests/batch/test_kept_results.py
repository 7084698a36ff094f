"""Are results found again exactly when nothing that they follow from has changed, and never in halves?"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import v4
from small_course import LIMITS, RIGHT, without_seconds

from grader.batch import cache, plan
from grader.batch.bench import Bench
from grader.batch.cache import Cache
from grader.batch.plan import Job, Plan, Record
from grader.batch.run import grade_paths
from grader.inputs import Secret
from grader.wall.workers import Template

Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def template() -> Iterator[Template]:
    with Template() as template:
        yield template


@pytest.fixture
def graded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The students whose work was really graded."""
    seen: list[str] = []
    grade = Bench.grade

    def watched(self: Bench, job: Job) -> Record:
        seen.append(job.student)
        return grade(self, job)

    monkeypatch.setattr(Bench, "grade", watched)
    return seen


@pytest.fixture
def run(course: Path, template: Template, tmp_path: Path) -> Run:
    (tmp_path / "class").mkdir()
    for name in ("ann", "bob"):
        (tmp_path / "class" / f"{name}.py").write_text(RIGHT + f"# {name}\n")
    return partial(
        grade_paths, [tmp_path / "class"], stage="s9", course=course, template=template, limits=LIMITS,
        cache=tmp_path / "kept",
    )  # fmt: skip


def test_what_is_known_is_not_graded_again(run: Run, graded: list[str], tmp_path: Path) -> None:
    first = run()
    assert graded == ["ann", "bob"]
    assert run() == first
    assert graded == ["ann", "bob"]
    (tmp_path / "class" / "bob.py").write_text(RIGHT)
    (tmp_path / "class" / "cat.py").write_text(RIGHT)
    assert [row["score"] for row in run()["submissions"]] == [7, 7, 7]
    assert graded == ["ann", "bob", "bob", "cat"]


@pytest.mark.parametrize(
    "other", [{"secret": Secret(b"k")}, {"only_public": True}, {"exercises": ["s9-double"]}, {"limits": None}]
)
def test_another_question_has_another_answer(other: dict[str, Any], run: Run, graded: list[str]) -> None:
    run()
    run(**other)
    assert graded == ["ann", "bob"] * 2
    run()
    run(**other)
    assert graded == ["ann", "bob"] * 2


def test_another_grader_another_torch_and_another_course_grade_again(
    run: Run, graded: list[str], course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run()
    shutil.copytree(course, tmp_path / "course")
    checks = tmp_path / "course" / "s9_nine" / "checks.py"
    run(course=tmp_path / "course")
    assert graded == ["ann", "bob"]  # the same course in another place
    checks.write_text(checks.read_text() + "# changed\n")
    plan._digest.cache_clear()
    run(course=tmp_path / "course")
    assert graded == ["ann", "bob"] * 2
    monkeypatch.setattr(plan.metadata, "version", lambda name: "99")
    run()
    assert graded == ["ann", "bob"] * 3


def test_a_moved_file_keeps_its_result_and_its_message_names_the_new_place(
    run: Run, graded: list[str], tmp_path: Path
) -> None:
    book = v4.new_notebook(cells=[v4.new_code_cell(RIGHT)], metadata={"flashdojo": {"stage": "s1"}})
    nbformat.write(book, tmp_path / "class" / "cat.ipynb")
    before = run()["submissions"][2]
    (tmp_path / "class").rename(tmp_path / "moved")
    after = run_at(run, tmp_path / "moved")["submissions"][2]
    assert graded == ["ann", "bob", "cat"]
    old, new = str(tmp_path / "class" / "cat.ipynb"), str(tmp_path / "moved" / "cat.ipynb")
    assert before["message"]["en"].startswith(f"{old}: a notebook of stage s1")
    assert after == {
        **before, "path": new,
        "message": {lang: text.replace(old, new) for lang, text in before["message"].items()},
    }  # fmt: skip


def run_at(run: Run, folder: Path) -> dict[str, Any]:
    return grade_paths([folder], **run.keywords)  # type: ignore[attr-defined]


def test_what_was_half_written_or_damaged_is_graded_again(run: Run, graded: list[str], tmp_path: Path) -> None:
    first = run()
    one, two = sorted((tmp_path / "kept").glob("??/*.json"))
    one.write_bytes(one.read_bytes()[:100])
    two.write_text('{"row": []}')
    assert without_seconds(run()) == without_seconds(first)
    assert graded == ["ann", "bob"] * 2


def test_who_does_not_know_the_secret_cannot_plant_a_result(run: Run, graded: list[str], tmp_path: Path) -> None:
    first = run(secret=Secret(b"k"))
    for file in (tmp_path / "kept").glob("??/*.json"):
        planted = file.read_text().replace('\\"score\\": 7', '\\"score\\": 8')
        assert planted != file.read_text()
        file.write_text(planted)
    assert without_seconds(run(secret=Secret(b"k"))) == without_seconds(first)
    assert graded == ["ann", "bob"] * 2


def test_neither_failures_of_the_grader_nor_unreadable_files_are_kept(tmp_path: Path, course: Path) -> None:
    kept = Cache(tmp_path / "kept", Plan(course=course))
    row = {"path": "a.py", "student": "a", "sha256": "0" * 64, "message": None, "exercises": []}
    for status in ("failed", "unreadable"):
        kept.keep(Path("a.py"), Record({**row, "status": status}))
    assert list((tmp_path / "kept").rglob("*.json")) == []
    kept.keep(Path("a.py"), Record({**row, "status": "graded"}))
    assert len(list((tmp_path / "kept").rglob("*.json"))) == 1


def test_a_result_made_behind_fewer_walls_than_required_does_not_count(tmp_path: Path, course: Path) -> None:
    job = Job(Path("a.py"), "a", b"x")
    row = {"path": "a.py", "student": "a", "sha256": cache.hashlib.sha256(b"x").hexdigest(), "message": None}
    loose = Plan(course=course)
    Cache(tmp_path, loose).keep(job.path, Record({**row, "status": "graded"}, ("process", "seccomp")))
    assert Cache(tmp_path, loose).find(job) is not None
    assert Cache(tmp_path, replace(loose, require=("seccomp",))).find(job) is not None
    assert Cache(tmp_path, replace(loose, require=("landlock", "seccomp"))).find(job) is None


def test_an_interrupted_run_goes_on(run: Run, graded: list[str]) -> None:
    def interrupt(done: int, total: int, row: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(on_progress=interrupt)
    assert graded == ["ann"]
    assert [row["score"] for row in run()["submissions"]] == [7, 7]
    assert graded == ["ann", "bob"]


def test_a_folder_that_cannot_be_written_costs_nothing_but_the_keeping(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told: list[OSError] = []
    document = run(cache=tmp_path / "file" / "kept", on_trouble=told.append)
    assert [row["score"] for row in document["submissions"]] == [7, 7]
    assert [type(error) for error in told] == [NotADirectoryError]


def test_results_nobody_used_for_a_month_go(run: Run, tmp_path: Path) -> None:
    run()
    old, young = (tmp_path / "kept").glob("??/*.json")
    half = old.with_name(".half-written")
    half.write_text("{")
    for file in (old, half):
        os.utime(file, (0, time.time() - cache.KEPT - 10))
    Cache(tmp_path / "kept", Plan()).tidy()
    assert (old.exists(), half.exists(), young.exists()) == (False, False, True)
