"""What goes before the judge: neighbours that cannot be read, private checks that are wrong, where results are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from traitlets.config import Config

from grader.batch.plan import Plan, Record, ungraded
from grader.classroom.judge_cells import keep
from grader.classroom.marking import Marker, Submitted
from grader.course.private import PrivateChecksError
from grader.text import say


def handed_in(course: Path, student: str, data: bytes = b"") -> Submitted:
    which = Submitted(course, student, "s1", "nb")
    which.path.parent.mkdir(parents=True)
    which.path.write_bytes(data)
    return which


def test_a_neighbour_that_cannot_be_read_disturbs_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ada = handed_in(tmp_path, "ada", b"{}")
    handed_in(tmp_path, "empty")
    locked = handed_in(tmp_path, "locked", b"{}").path
    real = Path.is_file

    def is_file(path: Path) -> bool:
        if path == locked:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "is_file", is_file)
    monkeypatch.setattr(
        Marker, "_grade", lambda _, job: Record(ungraded(job, "unreadable", say("坏", "bad"), stage="s1"))
    )
    marker = Marker(Plan(stage="s1"), 2)
    try:
        assert marker.record(ada, b"{}", Config()).row["student"] == "ada"
    finally:
        marker.close()


def test_what_is_wrong_with_private_checks_is_told(tmp_path: Path):
    with pytest.raises(PrivateChecksError, match="cannot be opened"):
        Marker(Plan(stage="s1", checks=tmp_path / "nowhere"), 1)


def test_each_notebook_of_an_assignment_keeps_its_result(tmp_path: Path):
    source = tmp_path / "source" / "s1"
    source.mkdir(parents=True)
    (source / "a.ipynb").touch()
    keep(Submitted(tmp_path, "ada", "s1", "a"), {"of": "a"})
    folder = tmp_path / "results" / "s1"
    assert [file.name for file in folder.iterdir()] == ["ada.json"]
    (source / "b.ipynb").touch()
    for notebook in ("a", "b"):
        keep(Submitted(tmp_path, "ben", "s1", notebook), {"of": notebook})
    kept = {file.name: json.loads(file.read_text("utf-8"))["of"] for file in folder.glob("ben*")}
    assert kept == {"ben.a.json": "a", "ben.b.json": "b"}
