"""``flashdojo instructor init``."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.cli import main


def init(*words: object) -> int:
    return main(["instructor", "init", *map(str, words), "--lang", "zh"])


def test_a_course_in_chinese_with_one_stage(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "我的 课程"
    assert init(folder, "--stages", "s1") == 0
    assert [file.name for file in (folder / "source" / "s1").iterdir()] == ["s1_standard_attention.ipynb"]
    notebook = (folder / "source" / "s1" / "s1_standard_attention.ipynb").read_text("utf-8")
    assert "### BEGIN SOLUTION" in notebook
    assert "阶段一" in notebook
    assert (folder / "secret.key").stat().st_mode & 0o077 == 0
    assert "secret.key" in (folder / ".gitignore").read_text()
    assert "nbgrader" in capsys.readouterr().out


def test_once_more_completes_and_overwrites_nothing(tmp_path: Path):
    init(tmp_path / "course")
    key = (tmp_path / "course" / "secret.key").read_text()
    notebook = tmp_path / "course" / "source" / "s2" / "s2_flash_attention.ipynb"
    notebook.write_text("mine")
    (tmp_path / "course" / "nbgrader_config.py").unlink()
    assert init(tmp_path / "course") == 0
    assert (tmp_path / "course" / "secret.key").read_text() == key
    assert notebook.read_text() == "mine"
    assert (tmp_path / "course" / "nbgrader_config.py").is_file()


@pytest.mark.parametrize("words", [("{file}",), ("{tmp}/course", "--stages", "s9"), ("{file}/below",)])
def test_what_cannot_be_is_one_line(tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "a file"
    file.write_text("here first")
    assert init(*(word.format(file=file, tmp=tmp_path) for word in words)) in (2, 3)
    error = capsys.readouterr().err
    assert len(error.strip().splitlines()) == 1
    assert "Traceback" not in error
    assert file.read_text() == "here first"
