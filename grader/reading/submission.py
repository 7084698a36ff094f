"""A learner's file as a program: code cells in order, plain Python, with everything known about their origin."""

from __future__ import annotations

import ast
import contextlib
import errno
import hashlib
import json
import logging
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.reading.artifacts import Artifacts, beside
from grader.reading.magics import neutralise, parse
from grader.text import LANGUAGES, Text, say

SUFFIXES = (".ipynb", ".py")
MAX_FILE = 20 * 2**20  # bytes; a notebook may carry pictures
MAX_CODE = 2**19  # characters; the code alone
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")  # what moves a terminal's cursor
SKIPPED_ROLES = {"check", "picture", "given-check"}  # cells that only look at the answers


class Unreadable(Exception):
    """There is nothing to grade in this file; ``message`` says why and what to do."""

    def __init__(self, message: Text):
        super().__init__(message.en)
        self.message = message


@dataclass(frozen=True)
class Cell:
    """``number`` counts the notebook's cells of every type from 1; it is None for a ``.py``."""

    number: int | None
    source: str
    first_line: int = 1
    grade_id: str | None = None
    tree: ast.Module | None = field(default=None, compare=False, repr=False)  # None: a syntax error
    error: SyntaxError | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Program:
    path: Path
    sha256: str
    cells: list[Cell]
    stage: str | None = None  # what the notebook says of itself
    language: str | None = None
    repairs: list[Text] = field(default_factory=list)
    artifacts: Artifacts = field(default_factory=Artifacts)  # what was handed in beside it


def read(path: Path | str) -> Program:
    """The program in a ``.ipynb`` or ``.py``, with what lies beside it in the learner's own folder; raises
    :class:`Unreadable`. Nothing of it is executed."""
    path = Path(path)
    return parsed(path, contents(path), beside(path, shared_folder=False))


def parsed(path: Path, data: bytes, artifacts: Artifacts | None = None) -> Program:
    """As :func:`read`, of what was read already; ``path`` tells what the bytes are and names them."""
    text = _decode(data, path)
    notebook = _notebook(path, text) if path.suffix.lower() == ".ipynb" else _Notebook([_Raw(None, text)])
    if not any(raw.source.strip() for raw in notebook.cells):
        raise _refuse(path, "没有代码，请交上写了答案的文件。", "no code in it; hand in the file with your answers.")
    if sum(len(raw.source) for raw in notebook.cells) > MAX_CODE:
        raise _refuse(path, "代码超过 512 KB，请只留下答案。", "larger than 512 KB of code; keep only your answers.")
    repairs = list(notebook.repairs)
    cells = _drop_repeated([_cell(raw, repairs) for raw in notebook.cells], repairs)
    sha256 = hashlib.sha256(data).hexdigest()
    return Program(path, sha256, cells, notebook.stage, notebook.language, repairs, artifacts or Artifacts())


def require_notebook(path: Path) -> None:
    """Raises :class:`Unreadable` when the file is no notebook; what is in it does not matter."""
    _notebook(path, _decode(contents(path), path))


def shown(path: Path | str) -> str:
    """A path as one line of text that can always be printed, whatever bytes its name holds."""
    return CONTROLS.sub("\ufffd", os.fsencode(path).decode("utf-8", "replace"))


def _refuse(path: Path, zh: str, en: str, **values: object) -> Unreadable:
    return Unreadable(say("{path}：" + zh, "{path}: " + en, path=shown(path), **values))


def contents(path: Path) -> bytes:
    """The bytes of a file that may be graded; raises :class:`Unreadable`."""
    if path.suffix.lower() not in SUFFIXES and path.exists() and not path.is_dir():
        raise _refuse(path, "只能批改 .ipynb 和 .py 文件。", "only .ipynb and .py files can be graded.")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise _refuse(path, "不是普通文件。", "not a regular file.")
            data = file.read(MAX_FILE + 1)
    except OSError as error:
        raise _why(error, path) from None
    return fitting(path, data)


def fitting(path: Path, data: bytes) -> bytes:
    """The same bytes; raises :class:`Unreadable` when they are none, or too many."""
    if len(data) > MAX_FILE:
        raise _refuse(path, "超过 20 MB，请清除输出后再保存。", "larger than 20 MB; clear its outputs and save.")
    if not data.strip():
        raise _refuse(path, "空文件，请交上写了答案的文件。", "an empty file; hand in the file with your answers.")
    return data


def _why(error: OSError, path: Path) -> Unreadable:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return _refuse(path, "没有这个文件，请检查路径。", "no such file; check the path.")
    if error.errno in (errno.EACCES, errno.EPERM):
        return _refuse(path, "没有读取权限，请用 chmod +r 打开。", "no permission to read it; allow it with chmod +r.")
    if error.errno == errno.ELOOP:
        return _refuse(path, "符号链接指向自己，请交上文件本身。", "a symbolic link to itself; hand in the file.")
    if error.errno == errno.EISDIR:
        return _refuse(path, "这是文件夹，不是文件。", "a folder, not a file.")
    return _refuse(path, "读取失败：{why}。", "cannot be read: {why}.", why=error.strerror or error)


def _decode(data: bytes, path: Path) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refuse(
            path,
            "不是 UTF-8 编码（第 {byte} 字节），请用 UTF-8 另存。",
            "not UTF-8 (at byte {byte}); save it with UTF-8 encoding.",
            byte=error.start,
        ) from None
    if "\0" in text:
        raise _refuse(path, "含有 NUL 字节，请重新导出。", "holds NUL bytes, so it is no text; export it again.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True)
class _Raw:
    """A code cell as it stands in the file."""

    number: int | None
    source: str
    grade_id: str | None = None


@dataclass(frozen=True)
class _Notebook:
    cells: list[_Raw]
    stage: str | None = None
    language: str | None = None
    repairs: list[Text] = field(default_factory=list)


def _notebook(path: Path, text: str) -> _Notebook:
    document = _version4(path, text)
    metadata = _dict(document.get("metadata"))
    language = _dict(metadata.get("language_info")).get("name") or _dict(metadata.get("kernelspec")).get("language")
    if isinstance(language, str) and language.lower() not in ("python", "ipython"):
        raise _refuse(path, "不是 Python 笔记本（{it}）。", "not a Python notebook ({it}).", it=language)
    own = _dict(metadata.get("flashdojo"))
    repairs: list[Text] = []
    return _Notebook(
        list(_code_cells(document["cells"], repairs)),
        stage=own.get("stage") if isinstance(own.get("stage"), str) else None,
        language=_language(own),
        repairs=repairs,
    )


def _version4(path: Path, text: str) -> dict[str, Any]:
    import nbformat

    not_a_notebook = _refuse(
        path,
        "不是 Jupyter 笔记本，请在 Jupyter 里重新保存后再交。",
        "not a Jupyter notebook; save it again from Jupyter and hand that in.",
    )
    try:
        document = json.loads(text)
    except (ValueError, RecursionError, MemoryError):
        raise not_a_notebook from None
    if not isinstance(document, dict) or not isinstance(document.get("nbformat"), int):
        raise not_a_notebook
    if document["nbformat"] < 4:
        try:
            with _quiet():
                document = nbformat.convert(nbformat.from_dict(document), 4)
        except Exception:
            raise not_a_notebook from None
    if not isinstance(document.get("cells"), list):
        raise not_a_notebook
    return document


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """nbformat logs what it thinks of a notebook; that is not the learner's concern."""
    logger = logging.getLogger("traitlets")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _code_cells(cells: list[Any], repairs: list[Text]) -> Iterator[_Raw]:
    for number, cell in enumerate(map(_dict, cells), 1):
        metadata = _dict(cell.get("metadata"))
        nbgrader, own = _dict(metadata.get("nbgrader")), _dict(metadata.get("flashdojo"))
        answer = own.get("role") == "answer"
        if cell.get("cell_type") != "code":
            if not answer and (nbgrader.get("cell_type") != "code" or not nbgrader.get("solution")):
                continue
            repairs.append(
                say(
                    "第 {n} 个单元不再是代码单元，仍按代码处理。",
                    "cell {n} is no longer a code cell; it was read as code all the same.",
                    n=number,
                )
            )
        if own.get("role") in SKIPPED_ROLES:
            continue
        source = cell.get("source", "")
        if isinstance(source, list):
            source = "".join(line for line in source if isinstance(line, str))
        source = str(source).replace("\r\n", "\n").encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
        grade_id = nbgrader.get("grade_id") or (own.get("exercise") if answer else None)
        yield _Raw(number, source, grade_id if isinstance(grade_id, str) else None)


def _cell(raw: _Raw, repairs: list[Text]) -> Cell:
    source, magic = neutralise(raw.source)
    if magic is not None:
        repairs.append(
            say(
                "第 {n} 个单元以 %%{magic} 开头，批改时不运行。",
                "cell {n} starts with %%{magic}; grading does not run it.",
                n=raw.number or 1,
                magic=magic,
            )
        )
    tree = parse(source)
    if isinstance(tree, SyntaxError):
        return Cell(raw.number, source, grade_id=raw.grade_id, error=tree)
    return Cell(raw.number, source, grade_id=raw.grade_id, tree=tree)


def language_of(path: Path) -> str | None:
    """The language that a notebook says it is written in; None when it says none or cannot be read."""
    if path.suffix.lower() != ".ipynb":
        return None
    with contextlib.suppress(Unreadable, ValueError, RecursionError):
        document = _dict(json.loads(_decode(contents(path), path)))
        return _language(_dict(_dict(document.get("metadata")).get("flashdojo")))
    return None


def _language(own: dict[str, Any]) -> str | None:
    return own["lang"] if own.get("lang") in LANGUAGES else None


def _drop_repeated(cells: list[Cell], repairs: list[Text]) -> list[Cell]:
    """Of two cells with the same grade_id the later counts, unless they are the halves of one that was split. A
    repeated definition runs again, as it does in Jupyter."""
    last = {cell.grade_id: cell for cell in cells if cell.grade_id}
    seen: dict[str, Cell] = {}
    kept = []
    for cell in cells:
        later = last[cell.grade_id] if cell.grade_id else cell
        replaced = cell.error is not None or set() < _names(cell) <= _names(later)
        if later is not cell and replaced:
            repairs.append(
                say(
                    "单元 {id} 出现了两次（第 {old} 和第 {new} 个单元），以后一个为准。",
                    "cell {id} occurs twice (cells {old} and {new}); the later one counts.",
                    id=cell.grade_id,
                    old=cell.number,
                    new=later.number,
                )
            )
            continue
        if _names(cell) and cell.source in seen:
            repairs.append(
                say(
                    "第 {new} 个单元与第 {old} 个单元相同。",
                    "cell {new} repeats cell {old}.",
                    old=seen[cell.source].number,
                    new=cell.number,
                )
            )
        seen[cell.source] = cell
        kept.append(cell)
    return kept


def _names(cell: Cell) -> set[str]:
    """The functions and classes it defines."""
    body = cell.tree.body if cell.tree else []
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def collect(folder: Path) -> list[Path]:
    """The submissions in a folder and below, sorted; hidden folders, checkpoints and caches are left out."""
    found = []
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        for name in files:
            if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES:
                found.append(Path(here, name))
    return sorted(found)


def leads_outside(path: Path, folder: Path) -> bool:
    """Whether a file found in ``folder`` is a link to something that lies elsewhere."""
    with contextlib.suppress(OSError, RuntimeError):
        return not path.resolve().is_relative_to(folder.resolve())
    return False
