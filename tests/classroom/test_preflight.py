"""What would end an nbgrader command halfway is said before it begins."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from grader.classroom import preflight


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "source" / "s2").mkdir(parents=True)
    with sqlite3.connect(tmp_path / "gradebook.db") as connection:
        connection.execute("create table grade (id integer)")
    connection.close()
    return tmp_path


def said(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        preflight.require_ready(folder, ["/somewhere/nbgrader", *words])
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_a_ready_course_is_left_alone(folder: Path):
    preflight.require_ready(folder, ["nbgrader", "autograde", "s2"])
    preflight.require_ready(folder, ["nbgrader", "export"])
    preflight.require_ready(folder, ["pytest", "autograde", "s9"])


def test_the_value_of_an_option_is_no_assignment(folder: Path, capsys: pytest.CaptureFixture[str]):
    preflight.require_ready(folder, ["nbgrader", "autograde", "--student", "bob", "s2"])
    preflight.require_ready(folder, ["nbgrader", "autograde", "s2", "--student", "bob"])
    preflight.require_ready(folder, ["nbgrader", "autograde", "--student=bob", "s2"])
    assert "s9" in said(folder, capsys, "autograde", "--student", "bob", "s9")
    assert "s9" in said(folder, capsys, "autograde", "--student=bob", "s9")


def test_an_unknown_assignment(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert "s9" in said(folder, capsys, "autograde", "s9")


def test_a_gradebook_in_use(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(preflight, "PATIENCE", 0.2)
    writer = sqlite3.connect(folder / "gradebook.db", isolation_level=None)
    writer.execute("begin exclusive")
    try:
        assert "gradebook.db" in said(folder, capsys, "autograde", "s2")
    finally:
        writer.close()


def test_a_damaged_gradebook(folder: Path, capsys: pytest.CaptureFixture[str]):
    (folder / "gradebook.db").write_bytes(b"no database " * 100)
    assert "gradebook.db" in said(folder, capsys, "autograde", "s2")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_course_that_cannot_be_written(folder: Path, capsys: pytest.CaptureFixture[str]):
    folder.chmod(0o500)
    try:
        assert str(folder) in said(folder, capsys, "autograde", "s2")
    finally:
        folder.chmod(0o700)
