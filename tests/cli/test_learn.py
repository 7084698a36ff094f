"""list, start, hint, solution, reset: what a learner does between two answers."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from grader import paths
from grader.cli import main
from grader.commands import base
from grader.course import catalog, notebooks
from grader.paths import ROOT
from grader.progress import Progress


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLASHDOJO_LANG", "en")


def test_list_and_hint_do_not_wait_for_torch(tmp_path: Path) -> None:
    script = (
        "import sys; from grader.cli import main\n"
        "assert main(['list', '--json']) == 0 and main(['hint', 's1-softmax']) == 0\n"
        "assert 'torch' not in sys.modules, 'torch was imported'"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True, capture_output=True)


def test_list_as_json_is_one_document_with_my_progress(capsys: pytest.CaptureFixture[str]) -> None:
    Progress(Path("work/s1")).record([{"id": "s1-softmax", "score": 15, "checks": [{"status": "passed"}]}])
    assert main(["list", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [stage["id"] for stage in document["stages"]] == [stage.id for stage in catalog.load().stages]
    assert [stage["points"] for stage in document["stages"]] == [100] * len(document["stages"])
    first, second = document["stages"][0]["exercises"][:2]
    assert (first["id"], first["passed"], first["best"]) == ("s1-softmax", True, 15)
    assert (second["passed"], second["best"]) == (False, 0)


def test_list_speaks_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--lang", "zh"]) == 0
    assert "s2-forward" in (shown := capsys.readouterr().out)
    assert "阶段" in shown


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_start_copies_the_notebook_of_the_language(lang: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["start", "s2", f"--lang={lang}"]) == 0
    copied = Path("work/s2/s2_flash_attention.ipynb")
    assert copied.read_bytes() == (ROOT / "notebooks" / lang / copied.name).read_bytes()
    assert f"lab {copied}" in capsys.readouterr().out


def test_start_never_overwrites_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["start", "s1", "--dir", "mine"]) == 0
    notebook = Path("mine/s1_standard_attention.ipynb")
    notebook.write_text("my work")
    capsys.readouterr()
    assert main(["start", "s1", "--dir", "mine"]) == 0
    assert notebook.read_text() == "my work"
    assert "stays as it is" in capsys.readouterr().out


def printed_commands(text: str) -> dict[str, list[str]]:
    """The ./dojo commands in a text, by their name."""
    lines = (shlex.split(line.split(":", 1)[-1]) for line in text.splitlines() if "dojo " in line)
    return {words[1]: words for words in lines}


@pytest.mark.parametrize(("folder", "option"), [(None, []), ("work/s1", []), ("my work", ["--dir", "my work"])])
def test_start_prints_commands_that_work_from_here(
    folder: str | None, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["start", "s1", *(["--dir", folder] if folder else [])]) == 0
    commands = printed_commands(capsys.readouterr().out)
    notebook = f"{folder or 'work/s1'}/s1_standard_attention.ipynb"
    assert commands["check"] == [str(ROOT / "dojo"), "check", notebook]
    assert commands["hint"] == [str(ROOT / "dojo"), "hint", "s1-softmax", *option]
    assert Path(notebook).is_file()
    for _ in range(3):
        assert main(commands["hint"][1:]) == 0
    assert f"dojo solution s1-softmax{' ' + shlex.join(option) if option else ''}." in capsys.readouterr().out
    assert Progress(Path(folder or "work/s1")).hints("s1-softmax") == 3


def test_commands_are_spelled_for_where_one_stands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    (clone / "work" / "s1").mkdir(parents=True)
    monkeypatch.setattr(paths, "ROOT", clone)
    (tmp_path / "elsewhere").mkdir()
    for here, spelled in (
        (clone, "./dojo"),
        (clone / "work" / "s1", "../../dojo"),
        (tmp_path, "clone/dojo"),
        (tmp_path / "elsewhere", f"{clone}/dojo"),
    ):
        monkeypatch.chdir(here)
        assert base.command("list") == f"{spelled} list"


def test_start_without_a_stage_takes_the_first_open_one(capsys: pytest.CaptureFixture[str]) -> None:
    exercises = catalog.load(checks=False).stage("s1").exercises
    Progress(Path("work/s1")).record([{"id": e.id, "score": e.points, "checks": []} for e in exercises])
    assert main(["start"]) == 0
    assert Path("work/s2/s2_flash_attention.ipynb").is_file()


def test_hints_climb_one_level_at_a_time_and_are_remembered(capsys: pytest.CaptureFixture[str]) -> None:
    hints = catalog.load(checks=False).exercise("s2-forward").hints
    for level in (0, 1, 2, 2):
        assert main(["hint", "s2.forward"]) == 0
        shown = capsys.readouterr().out
        assert hints[level].en in shown
        assert all(hint.en not in shown for hint in hints if hint != hints[level])
    assert Progress(Path("work/s2")).hints("s2-forward") == 3


def test_the_solution_is_shown_after_passing_or_when_forced(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solution", "s2-merge"]) == 1
    refused = capsys.readouterr()
    assert refused.out == ""
    assert "has not passed yet" in refused.err
    assert main(["solution", "s2-merge", "--force"]) == 0
    forced = capsys.readouterr().out
    assert "def merge_states" in forced
    assert "BEGIN SOLUTION" not in forced
    Progress(Path("work/s2")).record([{"id": "s2-merge", "score": 5, "checks": [{"status": "passed"}]}])
    assert main(["solution", "s2-merge"]) == 0
    assert capsys.readouterr().out == forced


def solved_notebook(path: Path) -> nbformat.NotebookNode:
    notebook = notebooks.solve(notebooks.build(catalog.load(checks=False).stage("s2"), "en"))
    path.write_text(nbformat.writes(notebook))
    return notebook


def sources(path: Path) -> dict[str, str]:
    return {cell.id: cell.source for cell in nbformat.read(path, as_version=4).cells}


def test_reset_restores_one_answer_of_a_notebook_and_keeps_the_old_file() -> None:
    target = Path("mine.ipynb")
    solved_notebook(target)
    before, old = sources(target), target.read_bytes()
    assert main(["reset", "mine.ipynb", "s2-forward"]) == 0
    after = sources(target)
    changed = [name for name in before if before[name] != after[name]]
    assert changed == ["s2-forward-answer"]
    assert 'raise NotImplementedError("s2-forward")' in after["s2-forward-answer"]
    (backup,) = Path(".flashdojo/backup").iterdir()
    assert backup.read_bytes() == old


def test_reset_brings_back_a_deleted_cell_to_its_place() -> None:
    target = Path("mine.ipynb")
    notebook = solved_notebook(target)
    order = [cell.id for cell in notebook.cells]
    notebook.cells = [cell for cell in notebook.cells if cell.id != "s2-forward-answer"]
    target.write_text(nbformat.writes(notebook))
    assert main(["reset", "mine.ipynb", "s2-forward"]) == 0
    assert list(sources(target)) == order


def test_reset_of_a_python_file_replaces_one_function() -> None:
    Path("mine.py").write_text("import torch\n\n@torch.no_grad()\ndef softmax(x):\n    return x\n\n\nother = 1\n")
    assert main(["reset", "mine.py", "s1-softmax"]) == 0
    text = Path("mine.py").read_text()
    assert text.count("def softmax") == 1
    assert "no_grad" not in text
    assert 'raise NotImplementedError("s1-softmax")' in text
    assert text.startswith("import torch\n")
    assert text.endswith("other = 1\n")


def test_reset_of_a_python_file_without_the_function_adds_it() -> None:
    Path("mine.py").write_text("import torch\n")
    assert main(["reset", "mine.py", "s1-softmax"]) == 0
    assert "def softmax" in Path("mine.py").read_text()


def test_reset_twice_keeps_both_old_files() -> None:
    Path("mine.py").write_text("import torch\n")
    assert main(["reset", "mine.py", "s1-softmax"]) == 0
    assert main(["reset", "mine.py", "s1-softmax"]) == 0
    assert len(list(Path(".flashdojo/backup").iterdir())) == 2


def test_progress_that_is_no_json_counts_as_none(capsys: pytest.CaptureFixture[str]) -> None:
    Path("work/s1/.flashdojo").mkdir(parents=True)
    Path("work/s1/.flashdojo/progress.json").write_text("{ broken")
    assert main(["list"]) == 0
    assert "0/100" in capsys.readouterr().out
