"""Whatever is wrong: one clear line in the person's language on stderr, the right exit code, no traceback."""

from __future__ import annotations

import builtins
import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from grader import cli
from grader.cli import main
from grader.commands import learn
from grader.paths import ROOT


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLASHDOJO_LANG", "en")
    monkeypatch.delenv("FLASHDOJO_DEBUG", raising=False)


@pytest.fixture
def refuses(capsys: pytest.CaptureFixture[str]):
    """Runs a command in both languages; returns the one English line."""

    def run(*arguments: str, code: int = 2) -> str:
        lines = {}
        for lang in ("zh", "en"):
            assert main([*arguments, "--lang", lang]) == code
            said = capsys.readouterr()
            assert said.out == ""
            assert "Traceback" not in said.err
            lines[lang] = said.err.strip()
            assert lines[lang].startswith("flashdojo: ")
            assert "\n" not in lines[lang]
        assert lines["zh"] != lines["en"]
        assert any("\u4e00" <= letter <= "\u9fff" for letter in lines["zh"])
        return lines["en"]

    return run


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["check", "nowhere.py", "--stage", "s1"], "nowhere.py: no such file"),
        (["check", "empty.py", "--stage", "s1"], "an empty file"),
        (["check", "latin.py", "--stage", "s1"], "not UTF-8"),
        (["check", "no.ipynb"], "not a Jupyter notebook"),
        (["check", "notes.txt", "--stage", "s1"], "only .ipynb and .py"),
        (["check", "good.py"], "add --stage"),
        (["check", "good.py", "--stage", "s9"], "there is no stage s9"),
        (["check", "."], "name the one you mean"),
        (["hint", "s2-fourward"], "did you mean s2-forward"),
        (["solution", "nonsense"], "there is no exercise nonsense"),
        (["start", "s9"], "there is no stage s9"),
        (["start", "s5"], "stage s5 is in preparation; ready are s1, s2, s3, s4"),
        (["check", "good.py", "--stage", "s5_contribution"], "is in preparation"),
        (["check", "below"], "below itself holds no .ipynb or .py file; name the one you mean: below/s1/a.py"),
        (["check", "bare"], "bare holds no .ipynb and no .py file. Make one with"),
        (["reset", "nowhere.py", "s1-softmax"], "no such file"),
        (["reset", "good.py", "s1-sofmax"], "did you mean s1-softmax"),
        (["reset", "broken.py", "s1-softmax"], "broken.py, line 2: a syntax error"),
        (["grade", "good.py", "--stage", "s9"], "there is no stage s9"),
        (["grade", "good.py", "--stage", "s1", "--secret-file", "nowhere"], "no such path: nowhere"),
        (["grade", "good.py", "--stage", "s1", "--secret-file", "empty.py"], "the secret file is empty"),
        (["grade", "good.py", "--stage", "s1", "--jobs", "0"], "--jobs"),
        (["grade", "good.py", "--scheduler", "tcp://127.0.0.1:9"], "tcp://127.0.0.1:9 cannot be reached"),
        (["dev", "check", "--only", "magic"], "no such kind of proof: magic"),
        (["wat"], "No such command 'wat'"),
        (["hint"], "EXERCISE is missing"),
        (["list", "--colour"], "--colour"),
    ],
)
def test_wrong_paths_and_names(refuses, arguments: list[str], says: str) -> None:
    Path("empty.py").write_text("")
    Path("latin.py").write_bytes("x = 'é'".encode("latin-1"))
    Path("no.ipynb").write_text("[1, 2")
    Path("notes.txt").write_text("x")
    Path("good.py").write_text("x = 1\n")
    Path("broken.py").write_text("x = 1\ndef softmax(:\n")
    Path("bare").mkdir()
    Path("below/s1").mkdir(parents=True)
    Path("below/s1/a.py").write_text("x = 1\n")
    assert says in refuses(*arguments)


def test_one_name_for_several_submissions(refuses) -> None:
    for name in ("a.py", "b.py"):
        Path(name).write_text("x = 1\n")
    said = refuses("grade", "a.py", "b.py", "--stage", "s1", "--student", "zoe")
    assert "--student" in said
    assert "submitted/<student>/" in said


def test_an_unknown_language_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--lang", "fr"]) == 2
    assert "zh or en" in capsys.readouterr().err


def test_no_permission_to_read(refuses, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "mine.py")

    Path("mine.py").write_text("x = 1")
    monkeypatch.setattr(os, "open", refuse)
    assert "no permission" in refuses("check", "mine.py", "--stage", "s1")


def test_a_work_folder_that_cannot_be_made(refuses) -> None:
    Path("file").write_text("")
    refuses("start", "s1", "--dir", "file")
    assert Path("file").read_text() == ""


def test_no_permission_to_write(refuses, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "work")

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert "no permission: work" in refuses("start", "s1")


def test_a_full_disk_leaves_no_half_notebook(refuses, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    assert "the disk is full" in refuses("start", "s1", code=3)
    assert list(Path("work/s1").iterdir()) == []


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full"),
        (PermissionError(errno.EACCES, "Permission denied", "work/s1"), "no permission: work/s1"),
        (OSError(errno.EROFS, "Read-only file system", "work/s1"), "no permission: work/s1"),
    ],
)
def test_a_hint_that_cannot_be_remembered_is_given(
    error: OSError, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert main(["hint", "s1-softmax"]) == 0
    said = capsys.readouterr()
    assert "Hint 1 of 3" in said.out
    assert said.err.startswith(f"which level you saw was not kept: {why}")
    assert said.err.count("\n") == 1
    assert "Errno" not in said.err


def test_output_to_a_full_disk() -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "grader.cli", "list", "--lang", "en"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
    assert ran.returncode == 3
    assert ran.stderr == "flashdojo: the disk is full. Free some space and try again.\n"


def test_output_that_nobody_reads_any_more() -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    ran = subprocess.run(
        f"{sys.executable} -m grader.cli list --json | head -c 1; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        env=environment,
    )
    assert ran.stdout == "{"
    assert ran.stderr == ""
    assert ran.returncode == 0


def test_no_torch(refuses, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_torch(name: str, *rest: object, **more: object) -> object:
        if name == "torch" or name == "grader.judging.desk":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return real(name, *rest, **more)  # type: ignore[arg-type]

    Path("good.py").write_text("x = 1\n")
    monkeypatch.setattr(builtins, "__import__", without_torch)
    assert "the Python package torch is missing. Run ./dojo" in refuses("check", "good.py", "--stage", "s1", code=3)


def test_our_own_mistake_is_told_apart(refuses, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> int:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(learn, "hint", broken)
    assert "internal error: RuntimeError: two lines" in refuses("hint", "s1-softmax", code=3)


def test_an_interrupt_is_no_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupt)
    assert main(["list"]) == 130
    assert capsys.readouterr().err == ""
