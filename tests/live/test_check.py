"""``check(...)`` as a learner meets it: a number, a page, a text; from a kernel or a plain interpreter."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from nbclient import NotebookClient

import kernels.ascend  # noqa: F401  the solutions of stage 3 import what comes with it
from grader.course import catalog
from grader.live import check as live
from grader.paths import ROOT
from grader.progress import Progress
from grader.proving import handed_in


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLASHDOJO_LANG", "en")


@pytest.fixture(scope="module")
def solved() -> dict[str, dict[str, Any]]:
    """The worked solutions of each stage in one namespace each."""
    namespaces = {}
    for stage in catalog.load().stages:
        names: dict[str, Any] = {}
        for exercise in stage.exercises:
            if not exercise.is_artifact:
                exec(compile(exercise.solution.read_text("utf-8"), exercise.solution.name, "exec"), names)
        namespaces[stage.id] = names
    return namespaces


def public_points(exercise_id: str) -> float:
    return sum(check.points for check in catalog.load().exercise(exercise_id).checks if check.public)


@pytest.mark.parametrize("exercise", [e.id for s in catalog.load(strict=False).stages for e in s.exercises])
def test_the_solutions_earn_every_public_point(solved: dict[str, Any], exercise: str) -> None:
    for name, data in handed_in.of_solutions(catalog.load().stage(exercise[:2])).items():  # beside the notebook
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(data)
    view = live.check(exercise, solved[exercise[:2]])
    assert float(view) == public_points(exercise)
    assert repr(view) == f"{public_points(exercise):g}"


def test_a_dot_does_for_a_dash_and_a_stage_for_all_its_exercises(solved: dict[str, Any]) -> None:
    assert float(live.check("s1.softmax", solved["s1"])) == public_points("s1-softmax")
    whole = live.check("s1", solved["s1"])
    assert [row["id"] for row in whole.submission["exercises"]] == [e.id for e in catalog.load().stage("s1").exercises]
    assert float(whole) == sum(row["max_score"] for row in whole.submission["exercises"])


def test_outside_jupyter_the_text_is_printed_and_names_the_idea(capsys: pytest.CaptureFixture[str]) -> None:
    def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
        exps = x.exp()
        return exps / exps.sum(dim, keepdim=True)

    view = live.check("s1-softmax", {"softmax": softmax})
    text = capsys.readouterr().out
    assert 0 < float(view) < 15
    (named,) = {row["misconception"] for row in view.submission["exercises"][0]["checks"]} - {None}
    assert catalog.load().stage("s1").misconceptions[named].title.en in text
    assert "Hint 1" in view._repr_html_()


def test_the_namespace_is_the_callers(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"softmax": lambda x, dim=-1: torch.softmax(x, dim)}
    exec("from grader import check\nresult = check('s1-softmax')", names)
    assert repr(names["result"]) == "0"
    assert "softmax is to be written by hand" in capsys.readouterr().out


def test_a_name_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert repr(live.check("s1-softmax", {})) == "0"
    assert "softmax is not defined" in capsys.readouterr().out


def test_an_unknown_exercise_is_told_with_what_is_close(capsys: pytest.CaptureFixture[str]) -> None:
    view = live.check("s2-foward", {})
    assert repr(view) == "0"
    assert "did you mean s2-forward" in capsys.readouterr().out
    assert "did you mean s2-forward" in view._repr_html_()


def test_progress_is_kept_in_a_work_folder_only(solved: dict[str, Any]) -> None:
    live.check("s1-softmax", solved["s1"])
    assert not Path(".flashdojo").exists()
    Progress(Path()).save()
    live.check("s1-softmax", solved["s1"])
    assert Progress(Path()).passed("s1-softmax")


def test_the_source_that_was_run_is_read_for_what_is_forbidden(capsys: pytest.CaptureFixture[str]) -> None:
    """As in the official grading; and of a function that was written anew only the new text counts."""
    cheat = "def softmax(x, dim=-1):\n    return getattr(x, 'soft' + 'max')(dim)\n"
    honest = (
        "def softmax(x, dim=-1):\n    w = x.to(torch.promote_types(x.dtype, torch.float32))\n"
        "    e = (w - w.amax(dim, keepdim=True)).exp()\n    return (e / e.sum(dim, keepdim=True)).to(x.dtype)\n"
    )
    names: dict[str, Any] = {"torch": torch, "In": ["", "import torch", cheat]}
    exec(cheat, names)
    assert repr(live.check("s1-softmax", names)) == "0"
    names["In"].append(honest)
    exec(honest, names)
    assert float(live.check("s1-softmax", names)) == public_points("s1-softmax")


def test_in_a_kernel_the_answer_is_a_page_and_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    wrong = "def softmax(x, dim=-1):\n    return undefined_name\n"
    cells = ["from grader import check", wrong, 'check("s1-softmax")', 'print("after")']
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    (output,) = notebook.cells[2].outputs
    assert output.output_type == "execute_result"
    assert output.data["text/plain"] == "0"
    page = output.data["text/html"]
    assert "NameError" in page
    assert "In [2], line 2" in page
    assert notebook.cells[3].outputs[0].text == "after\n"


@pytest.mark.parametrize("exercise", ["s1-attention", "s2-forward"])
def test_the_answer_is_instant(solved: dict[str, Any], exercise: str) -> None:
    """A generous bound for busy machines; the number itself is measured in the benchmarks."""
    live.check(exercise, solved[exercise[:2]])
    start = time.perf_counter()
    live.check(exercise, solved[exercise[:2]])
    assert time.perf_counter() - start < 3
