"""check, watch, grade, demo: the commands that run learner code, end to end in confined workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest

from grader import results
from grader.batch import cache
from grader.batch.run import grade_paths
from grader.cli import main
from grader.commands import demo
from grader.course import catalog, notebooks
from grader.inputs import Secret
from grader.paths import ROOT
from grader.progress import Progress
from grader.wall.limits import Limits

SOFTMAX = """
import torch

def softmax(x, dim=-1):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    exps = (wide - wide.amax(dim, keepdim=True)).exp()
    return (exps / exps.sum(dim, keepdim=True)).to(x.dtype)
"""
STAGES = ", ".join(stage.id for stage in catalog.load().stages)
UNSTABLE = "def softmax(x, dim=-1):\n    return x.exp() / x.exp().sum(dim, keepdim=True)\n"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLASHDOJO_LANG", "en")
    monkeypatch.delenv("FLASHDOJO_SECRET", raising=False)


def solved_stage_1() -> str:
    stage = catalog.load().stage("s1")
    return "\n\n".join(exercise.solution.read_text("utf-8") for exercise in stage.exercises)


def test_check_of_a_right_answer_unlocks_the_solution(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text(solved_stage_1())
    assert main(["check", "mine.py", "--stage", "s1"]) == 0
    text = capsys.readouterr().out
    assert "✓ s1-attention" in text
    assert "Public checks:" in text
    assert Progress(Path()).passed("s1-module")
    assert main(["solution", "s1-module", "--dir", "."]) == 0


def test_check_of_a_work_folder_names_the_idea_and_keeps_what_passed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["start", "s1"]) == 0
    path = Path("work/s1/s1_standard_attention.ipynb")
    notebook = notebooks.solve(nbformat.read(path, as_version=4), {"s1-cost"})
    for cell in notebook.cells:
        if cell.id == "s1-softmax-answer":
            cell.source = UNSTABLE
    path.write_text(nbformat.writes(notebook))
    capsys.readouterr()
    assert main(["check", "work/s1"]) == 1
    text = capsys.readouterr().out
    assert "The maximum is not subtracted" in text
    assert "not written yet" in text
    progress = Progress(Path("work/s1"))
    assert progress.passed("s1-cost")
    assert not progress.passed("s1-softmax")
    assert 0 < progress.best("s1-softmax") < 15


def test_check_in_a_folder_that_cannot_be_written_still_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Progress) -> None:
        raise PermissionError

    Path("mine.py").write_text(SOFTMAX)
    monkeypatch.setattr(Progress, "save", refuse)
    assert main(["check", "mine.py", "--stage", "s1"]) == 1


def notebook_of(stage: str, lang: str) -> Path:
    path = notebooks.path_of(catalog.load().stage(stage), lang, Path())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(notebooks.text_of(notebooks.build(catalog.load().stage(stage), lang)), "utf-8")
    return path


@pytest.mark.parametrize("command", ["check", "grade", "hint", "solution", "reset"])
def test_a_notebook_is_answered_in_its_own_language(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(path: Path, *more: str) -> str:
        folder = ["--dir", str(path.parent)]
        arguments = {
            "hint": ["s1-softmax", *folder],
            "solution": ["s1-softmax", *folder],
            "reset": [str(path), "s1-softmax"],
        }
        main([command, *arguments.get(command, [str(path)]), *more])
        said = capsys.readouterr()
        return said.out + said.err

    def is_chinese(text: str) -> bool:
        return any("\u4e00" <= letter <= "\u9fff" for letter in text)

    monkeypatch.delenv("FLASHDOJO_LANG")
    monkeypatch.setenv("LC_ALL", "en_US.UTF-8")
    chinese, english = notebook_of("s1", "zh"), notebook_of("s1", "en")
    assert is_chinese(answer(chinese))
    assert not is_chinese(answer(english))
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert not is_chinese(answer(english))
    assert not is_chinese(answer(chinese, "--lang", "en"))
    monkeypatch.setenv("FLASHDOJO_LANG", "zh")
    assert is_chinese(answer(english))


def test_the_stage_of_a_program_is_told_by_its_names(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text(SOFTMAX)
    assert main(["check", "mine.py"]) == 1
    said = capsys.readouterr()
    assert said.err == "checked as s1, going by the names it defines (--stage says otherwise).\n"
    assert "✓ s1-softmax" in said.out
    Path("mine.py").write_text("def softmax(x:\n    pass\n")  # a syntax error takes no name away
    assert main(["check", "mine.py"]) == 1
    assert "SyntaxError" in capsys.readouterr().out
    Path("mine.py").write_text(SOFTMAX + "\n\ndef merge_states(a, b): ...\n")
    assert main(["check", "mine.py"]) == 2
    assert f"add --stage ({STAGES})" in capsys.readouterr().err


def test_grading_guesses_no_stage(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text(SOFTMAX)
    code, document = graded(capsys, "mine.py")
    assert code == 2
    assert f"add --stage ({STAGES})" in document["submissions"][0]["message"]["en"]


def test_a_notebook_of_another_stage_gets_the_same_words_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(notebook_of("s1", "en"))
    words = f"{path}: a notebook of stage s1, not of s2. Leave --stage out, or name a file of s2."
    assert main(["check", path, "--stage", "s2"]) == 2
    assert words in capsys.readouterr().err
    assert graded(capsys, path, "--stage", "s2")[1]["submissions"][0]["message"]["en"] == words


def test_what_failed_beside_the_definitions_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text(SOFTMAX + "\nprint(softmax(nothing))\n")
    for command in ("check", "grade"):
        assert main([command, "mine.py", "--stage", "s1"]) == 1
        text = " ".join(capsys.readouterr().out.split())
        assert "failed while loading and skipped, the rest counts: line 9 (NameError)" in text
        assert "✓ s1-softmax" in text


def test_check_whose_reader_goes_away_still_tells_and_keeps_what_it_found() -> None:
    Path("mine.py").write_text(SOFTMAX)
    ran = subprocess.run(
        f"{sys.executable} -m grader.cli check mine.py --stage s1 | head -n 1; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
    )
    assert (ran.returncode, ran.stderr) == (1, "")
    assert Progress(Path()).passed("s1-softmax")


def test_watch_answers_at_once_and_after_a_save(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(UNSTABLE)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "grader.cli", "watch", "mine.py", "--stage", "s1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    assert process.stdout is not None
    answers = 0
    try:
        for line in process.stdout:
            if "Public checks:" not in line:
                continue
            answers += 1
            if answers == 1:
                time.sleep(0.5)  # let the watch begin
                mine.write_text(SOFTMAX)
            elif " 15/" in line:
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert answers == 2
    finally:
        process.kill()
        process.stdout.close()


def graded(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["grade", *arguments, "--json"])
    said = capsys.readouterr()
    document = json.loads(said.out)  # one document and nothing else
    results.validate(document)
    return code, document


def test_grade_of_a_folder_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    Path("class").mkdir()
    Path("class/ada.py").write_text(solved_stage_1())
    Path("class/bob.py").write_text("def softmax(:\n")
    Path("class/eve.py").write_text("")
    code, document = graded(capsys, "class", "--stage", "s1")
    assert code == 2
    assert document["secret"] == "public"
    by_student = {row["student"]: row for row in document["submissions"]}
    assert (by_student["ada"]["score"], by_student["ada"]["status"]) == (100, "graded")
    assert (by_student["bob"]["score"], by_student["bob"]["status"]) == (0, "graded")
    assert by_student["eve"]["status"] == "unreadable"
    Path("class/eve.py").unlink()
    assert graded(capsys, "class", "--stage", "s1")[0] == 1
    Path("class/bob.py").unlink()
    assert graded(capsys, "class", "--stage", "s1")[0] == 0


def test_grade_of_a_path_that_is_not_there_is_a_document_too(capsys: pytest.CaptureFixture[str]) -> None:
    code, document = graded(capsys, "nowhere.py", "--stage", "s1")
    assert code == 2
    assert document["submissions"][0]["status"] == "unreadable"
    assert document["submissions"][0]["message"]["zh"]


def test_the_secret_comes_from_the_file_then_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def grade_nothing(*_: Any, secret: Secret, **__: Any) -> dict[str, Any]:
        return results.document([], secret=secret)

    monkeypatch.setattr("grader.batch.run.grade_entries", grade_nothing)
    Path("key").write_text("swordfish\n")
    assert graded(capsys, "mine.py")[1]["secret"] == "public"
    of_file = graded(capsys, "mine.py", "--secret-file", "key")[1]["secret"]
    monkeypatch.setenv("FLASHDOJO_SECRET", "swordfish")
    of_environment = graded(capsys, "mine.py")[1]["secret"]
    monkeypatch.setenv("FLASHDOJO_SECRET", "other")
    of_another = graded(capsys, "mine.py")[1]["secret"]
    assert graded(capsys, "mine.py", "--secret-file", "key")[1]["secret"] == of_file
    assert of_file == of_environment not in ("public", of_another)


def test_grade_for_people_and_into_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text(UNSTABLE)
    assert main(["grade", "mine.py", "--stage", "s1", "--student", "007", "--out", "deep/er"]) == 1
    text = capsys.readouterr().out
    assert "The maximum is not subtracted" in text
    assert "007" in text
    document = json.loads(Path("deep/er/results.json").read_text())
    results.validate(document)
    assert document["submissions"][0]["student"] == "007"
    made = [".cache", "junit.xml", "results.json", "scores.csv", "submissions"]
    assert sorted(entry.name for entry in Path("deep/er").iterdir()) == made
    assert "The maximum is not subtracted" in Path("deep/er/submissions/007-s1.html").read_text("utf-8")


def test_a_full_disk_leaves_no_half_document(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    Path("mine.py").write_text(SOFTMAX)
    monkeypatch.setattr(cache.os, "replace", full)
    assert main(["grade", "mine.py", "--stage", "s1", "--out", "o"]) == 3
    assert [path for path in Path("o").rglob("*") if path.is_file()] == []
    note, error = capsys.readouterr().err.splitlines()
    assert "note: results cannot be kept in o/.cache (No space left on device)" in note
    assert error == "flashdojo: the disk is full. Free some space and try again."


def test_the_demo_class_gets_what_it_deserves() -> None:
    document = grade_paths([demo.CLASS], stage=demo.STAGE, limits=Limits(call=demo.PATIENCE))
    answers = {row["student"]: row for row in document["submissions"]}
    assert [name for name, row in answers.items() if row["score"] == 100] == ["ada", "bao"]
    named = {
        name: {check["misconception"] for exercise in row["exercises"] for check in exercise["checks"]}
        for name, row in answers.items()
    }
    expected = {
        "chen": "tail-dropped",
        "dana": "acc-not-rescaled",
        "emil": "causal-top-left",
        "fumi": "gqa-interleaved",
        "gita": "quadratic-memory",
        "hugo": "d-term-missing",
        "ivan": "forbidden-library_attention",
    }
    assert {name: idea for name, idea in expected.items() if idea not in named[name]} == {}
    statuses = {check["status"] for exercise in answers["jade"]["exercises"] for check in exercise["checks"]}
    assert "timeout" in statuses


def test_the_demo_shows_the_class_and_how_to_go_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("class").mkdir()
    Path("class/ada.py").write_text((demo.CLASS / "ada.py").read_text())
    monkeypatch.setattr(demo, "CLASS", Path("class"))
    assert main(["demo", "--lang", "zh"]) == 0
    text = capsys.readouterr().out
    assert "ada" in text
    assert "dojo start s1" in text
    assert "隔离：独立进程、资源上限" in text
