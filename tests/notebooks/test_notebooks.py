"""The notebooks as they are built from this course."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from grader import paths
from grader.course import catalog, notebooks
from grader.course.catalog import Stage
from grader.text import LANGUAGES

STAGES = catalog.load(checks=False).stages
EVERY = [pytest.param(stage, lang, id=f"{stage.id}-{lang}") for stage in STAGES for lang in LANGUAGES]
TRAINING = ("s3",)  # stages whose notebook takes half a minute
ONE_LANGUAGE = [  # the other one is the same program, by another test, and takes as long again
    pytest.param(
        stage,
        lang,
        id=f"{stage.id}-{lang}",
        marks=() if lang == LANGUAGES[n % 2] and stage.id not in TRAINING else pytest.mark.slow,
    )
    for n, stage in enumerate(STAGES)
    for lang in LANGUAGES
]
CHINESE = re.compile("[\u4e00-\u9fff]")


def roles(notebook: nbformat.NotebookNode, role: str) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.metadata.flashdojo.role == role]


@pytest.mark.parametrize(("stage", "lang"), EVERY)
def test_a_notebook_is_valid_small_and_empty(stage: Stage, lang: str) -> None:
    notebook = notebooks.build(stage, lang)
    nbformat.validate(notebook)
    assert len(notebooks.text_of(notebook).encode()) < notebooks.MAX_BYTES
    assert notebook.metadata.flashdojo == {"stage": stage.id, "lang": lang, "version": notebooks.VERSION}
    assert notebook.metadata.kernelspec.name == "python3"
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    for cell in notebook.cells:
        assert "nbgrader" not in cell.metadata
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


@pytest.mark.parametrize(("stage", "lang"), EVERY)
def test_every_exercise_has_lesson_picture_answer_and_check(stage: Stage, lang: str) -> None:
    notebook = notebooks.build(stage, lang)
    ids = [exercise.id for exercise in stage.exercises]
    for role in ("picture", "answer", "check"):
        assert [cell.metadata.flashdojo.exercise for cell in roles(notebook, role)] == ids
    assert [cell.source for cell in roles(notebook, "check")] == [f'check("{id}")' for id in ids]
    prose = "\n".join(cell.source for cell in roles(notebook, "lesson"))
    assert "{" + "table}" not in prose
    assert "{" + "weeks}" not in prose
    for exercise in stage.exercises:
        assert f"`{exercise.id}` · `{exercise.name}`" in prose
        for item in exercise.reading:
            assert item.url in prose


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.id)
def test_english_holds_no_chinese_outside_labels_that_have_both(stage: Stage) -> None:
    for cell in notebooks.build(stage, "en").cells:
        if cell.metadata.flashdojo.role != "picture":
            assert not CHINESE.search(cell.source), cell.id
        comments = [line for line in cell.source.splitlines() if line.lstrip().startswith("#")]
        assert not CHINESE.search("\n".join(comments)), cell.id


@pytest.mark.parametrize(("stage", "lang"), EVERY)
def test_skeletons_compile_and_hold_no_answer(stage: Stage, lang: str) -> None:
    for exercise in stage.exercises:
        text = notebooks.skeleton(exercise, lang)
        compile(text, exercise.id, "exec")
        assert f'raise NotImplementedError("{exercise.id}")' in text
        assert "SOLUTION" not in text
        hidden = set(notebooks.solution(exercise, lang).splitlines()) - set(text.splitlines())
        assert len(hidden) >= 2, "the solution adds nothing to the skeleton"


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.id)
def test_both_languages_are_the_same_program(stage: Stage) -> None:
    zh, en = (notebooks.build(stage, lang) for lang in LANGUAGES)
    assert notebooks.same_program(zh, en)
    assert notebooks.same_program(notebooks.solve(zh), notebooks.solve(en))
    roles(en, "answer")[0].source += "\nextra = 1"
    assert not notebooks.same_program(zh, en)


def test_solving_fills_the_answers_asked_for_and_leaves_the_notebook_alone() -> None:
    built = notebooks.build(STAGES[1], "en")
    before = json.dumps(built)
    some = notebooks.solve(built, {"s2-merge"})
    assert json.dumps(built) == before
    for cell in roles(some, "answer"):
        assert ("NotImplementedError" in cell.source) == (cell.metadata.flashdojo.exercise != "s2-merge")
    assert not any("NotImplementedError" in cell.source for cell in roles(notebooks.solve(built), "answer"))


def test_the_repository_holds_what_is_built() -> None:
    assert notebooks.stale() == [], "run ./dojo dev build"


def test_stale_notebooks_are_found_and_rebuilt(tmp_path: Path) -> None:
    root = tmp_path / "notebooks"
    shutil.copytree(paths.NOTEBOOKS, root)
    assert notebooks.stale(root) == []
    edited, gone, stray = (
        notebooks.path_of(STAGES[0], "zh", root),
        notebooks.path_of(STAGES[1], "en", root),
        root / "en" / "s9_stray.ipynb",
    )
    edited.write_text(edited.read_text(encoding="utf-8").replace("softmax", "softmin", 1), encoding="utf-8")
    stray.write_text(gone.read_text(encoding="utf-8"), encoding="utf-8")
    gone.unlink()
    assert set(notebooks.stale(root)) == {edited, gone, stray}
    assert set(notebooks.write_all(root)) == {edited, gone, stray}
    assert notebooks.stale(root) == []
    assert not stray.exists()


@pytest.mark.timeout(170)
@pytest.mark.parametrize(("stage", "lang"), ONE_LANGUAGE)
def test_a_solved_notebook_runs_from_top_to_bottom(
    stage: Stage, lang: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    monkeypatch.setenv("PYTHONPATH", str(paths.ROOT))
    monkeypatch.delenv("FLASHDOJO_LANG", raising=False)
    notebook = notebooks.solve(notebooks.build(stage, lang))
    NotebookClient(
        notebook, kernel_name="python3", timeout=120, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    for cell in roles(notebook, "picture"):
        assert any("image/png" in output.get("data", {}) for output in cell.outputs), cell.id
        assert not any(output.output_type == "stream" for output in cell.outputs), cell.outputs
    points = {exercise.id: exercise.points for exercise in stage.exercises}
    for cell in roles(notebook, "check"):
        assert float(cell.outputs[0].data["text/plain"]) == points[cell.metadata.flashdojo.exercise], cell.id


@pytest.mark.timeout(120)
def test_pictures_need_no_answer_and_labels_follow_the_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an unsolved notebook every picture is drawn; the setup cell, not the locale, chooses the language."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("PYTHONPATH", str(paths.ROOT))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.delenv("FLASHDOJO_LANG", raising=False)
    notebook = notebooks.build(STAGES[1], "zh")
    kept = [cell for cell in notebook.cells if cell.metadata.flashdojo.role in ("setup", "picture")]
    ask = nbformat.v4.new_code_cell("from grader.text import language\nprint(language())")
    notebook.cells = [*kept, ask]
    NotebookClient(
        notebook, kernel_name="python3", timeout=60, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    assert notebook.cells[-1].outputs[0].text.strip() == "zh"
