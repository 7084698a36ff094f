"""Notebooks, built from lesson + solutions + stage.toml. The same sources give the same bytes.

Cell metadata ``flashdojo`` = {exercise, role}; roles: lesson, setup, picture, given, answer, check, given-check.
Only setup, given and answer cells are part of the program that is graded. The exercise's id is its grade id.
"""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from grader import paths
from grader.course import catalog
from grader.course.catalog import Exercise, Stage
from grader.course.lesson import (
    LessonError,
    Piece,
    in_language,
    join_headers,
    read_cells,
    read_lesson,
    skeletonise,
    solved,
    split_header,
)
from grader.syntax import tree_of
from grader.text import LANGUAGES, Text, say

VERSION = 1  # of the metadata above
MAX_BYTES = 100_000  # of one notebook, which has to stay below
FOLDED = "# zh: 图：选中这一格，按 Shift+Enter\n# en: a picture: select this cell and press Shift+Enter\n"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def skeleton(exercise: Exercise, lang: str) -> str:
    """What the exercise's answer cell holds at first (imports are in the setup cell)."""
    return skeletonise(_body(exercise), lang, exercise.id)


def solution(exercise: Exercise, lang: str) -> str:
    """What the exercise's answer cell may hold in the end."""
    return solved(_body(exercise), lang)


def marked(exercise: Exercise, lang: str) -> str:
    """The worked solution between the marks that nbgrader knows too."""
    return in_language(_body(exercise), lang)


def build(stage: Stage, lang: str) -> NotebookNode:
    """The notebook of ``stage`` in ``lang``, answers empty; raises :class:`LessonError` when a source is wrong."""
    intro, sections = read_lesson(stage.path / f"lesson.{lang}.md")
    given = {key: cell for file in sorted(stage.path.glob("cells*.py")) for key, cell in read_cells(file).items()}
    ids = [exercise.id for exercise in stage.exercises]
    if list(sections) != ids:
        raise LessonError(f"{stage.folder}/lesson.{lang}.md: sections {list(sections)}, but stage.toml has {ids}")
    placed = {(exercise, piece.role) for exercise in ids for piece in sections[exercise] if piece.role != "lesson"}
    after = {key for key in given if key[1] == "given-check"}
    if placed != given.keys() - after or not {exercise for exercise, _ in after} <= set(ids):
        odd = sorted(placed ^ (given.keys() - after)) or sorted(after)
        raise LessonError(f"{stage.folder}: lesson.{lang}.md and cells.py differ about the cells {odd}")

    cells = [
        _cell(stage, None, "lesson", f"# {stage.title.pick(lang)}\n\n{_fill(intro, stage, lang)}", lang),
        _cell(stage, None, "setup", _setup(stage), lang),
    ]
    for number, exercise in enumerate(stage.exercises, 1):
        pieces = _with_frame(exercise, number, sections[exercise.id], lang)
        lessons = 0
        for piece in pieces:
            lessons += piece.role == "lesson"
            text = piece.text if piece.role == "lesson" else given[exercise.id, piece.role]
            if piece.role == "picture":
                text = FOLDED + text
            cells.append(_cell(stage, exercise, piece.role, text, lang, lessons if piece.role == "lesson" else 1))
        cells.append(_cell(stage, exercise, "answer", skeleton(exercise, lang), lang))
        cells.append(_cell(stage, exercise, "check", f'check("{exercise.id}")\n', lang))
        if (exercise.id, "given-check") in after:
            cells.append(_cell(stage, exercise, "given-check", given[exercise.id, "given-check"], lang))
    metadata = {
        "flashdojo": {"stage": stage.id, "lang": lang, "version": VERSION},
        "kernelspec": KERNEL,
        "language_info": {"name": "python"},
    }
    return new_notebook(cells=cells, metadata=metadata)


def solve(notebook: NotebookNode, exercises: set[str] | None = None) -> NotebookNode:
    """A copy of a built notebook with the worked solutions (of ``exercises`` only, if given) in its answer cells."""
    course = catalog.load(checks=False)
    result = nbformat.from_dict(notebook)
    lang = result.metadata.flashdojo.lang
    for cell in result.cells:
        own = cell.metadata.get("flashdojo", {})
        if own.get("role") == "answer" and (exercises is None or own["exercise"] in exercises):
            cell.source = solution(course.exercise(own["exercise"]), lang).rstrip("\n")
    return result


def path_of(stage: Stage, lang: str, root: Path = paths.NOTEBOOKS) -> Path:
    return root / lang / f"{stage.folder}.ipynb"


def text_of(notebook: NotebookNode) -> str:
    return nbformat.writes(notebook, version=4) + "\n"


def write_all(root: Path = paths.NOTEBOOKS) -> list[Path]:
    """Build every notebook and write those that changed; returns these. Removes notebooks that have no source."""
    changed = stale(root)
    texts = _built(root)
    for path in changed:
        if path not in texts:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts[path], encoding="utf-8")
    return changed


def stale(root: Path = paths.NOTEBOOKS) -> list[Path]:
    """Notebooks under ``root`` that are missing, out of date, or have no source."""
    texts = _built(root)
    old = [path for path, text in texts.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    return old + [path for path in sorted(root.rglob("*.ipynb")) if path not in texts and not _hidden(path, root)]


def same_program(first: NotebookNode, second: NotebookNode) -> bool:
    """Whether both notebooks are the same program, cell by cell: equal up to comments and prose."""
    return _programs(first) == _programs(second)


def _programs(notebook: NotebookNode) -> list[tuple[str, str]]:
    return [(cell.id, ast.dump(tree_of(cell.source))) for cell in notebook.cells if cell.cell_type == "code"]


def _built(root: Path) -> dict[Path, str]:
    stages = catalog.load(checks=False).stages
    return {path_of(stage, lang, root): text_of(build(stage, lang)) for stage in stages for lang in LANGUAGES}


def _hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)


def _body(exercise: Exercise) -> str:
    """Without the imports at its top, which go into the setup cell. A cell that writes a file keeps its own: it is no
    part of the program that is graded."""
    text = exercise.solution.read_text(encoding="utf-8")
    return text if exercise.is_artifact else split_header(text)[1]


def _cell(stage: Stage, exercise: Exercise | None, role: str, source: str, lang: str, count: int = 1) -> NotebookNode:
    name = f"{exercise.id if exercise else stage.id}-{role}" + (f"-{count}" if count > 1 else "")
    metadata: dict[str, object] = {"flashdojo": {"exercise": exercise.id if exercise else None, "role": role}}
    if role in ("setup", "answer", "check"):
        metadata["deletable"] = False
    if role == "picture":
        metadata["jupyter"] = {"source_hidden": True}  # the picture is the lesson, not how it is drawn
    if role == "lesson":
        return new_markdown_cell(source.strip("\n"), id=name, metadata=metadata)
    return new_code_cell(in_language(source, lang).rstrip("\n"), id=name, metadata=metadata)


def _setup(stage: Stage) -> str:
    """The first code cell: every import that a solution needs, and ``check``. Its first line tells the kernel which
    language the notebook speaks (see :func:`grader.text.language`)."""
    solutions = [exercise.solution for exercise in stage.exercises if not exercise.is_artifact]
    headers = [split_header(file.read_text(encoding="utf-8"))[0] for file in solutions]
    imports = join_headers(line for header in headers for line in header)
    if stage.device == "npu":  # before everything else: a real NPU, or an emulated one with the modules that go with it
        imports = f"import kernels.ascend\n\n{imports}"
    note = "".join(
        f"# {lang}: FlashDojo {stage.id} lang={lang} · {text}\n"
        for lang, text in (("zh", "先运行这一格"), ("en", "run this cell first"))
    )
    return f"{note}{imports}\n\nfrom grader import check\n"


def _with_frame(exercise: Exercise, number: int, pieces: list[Piece], lang: str) -> list[Piece]:
    """A section with its heading (title and points) and its reading list, which stage.toml holds."""
    points = say("（{points:g} 分）", " ({points:g} points)", points=exercise.points).pick(lang)
    heading = f"## {number}. {exercise.title.pick(lang)}{points}\n\n`{exercise.id}` · `{exercise.name}`\n\n"
    framed = [Piece("lesson", heading + pieces[0].text), *pieces[1:]]
    if exercise.reading:
        links = " · ".join(f"[{item.title.pick(lang)}]({item.url})" for item in exercise.reading)
        reading = f"**{Text('延伸阅读', 'Reading').pick(lang)}** {links}"
        last = framed.pop() if framed[-1].role == "lesson" else Piece("lesson")
        framed.append(Piece("lesson", f"{last.text}\n\n{reading}".strip()))
    return framed


def _fill(text: str, stage: Stage, lang: str) -> str:
    head = say("| 练习 | 内容 | 分值 |\n|---|---|---|\n", "| exercise | what | points |\n|---|---|---|\n").pick(lang)
    rows = [f"| `{x.id}` | {x.title.pick(lang)} | {x.points:g} |\n" for x in stage.exercises]
    return text.replace("{weeks}", stage.weeks.replace("-", "～" if lang == "zh" else " to ")).replace(
        "{table}", (head + "".join(rows)).rstrip()
    )
