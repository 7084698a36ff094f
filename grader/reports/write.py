"""The files of a report in a folder, each written whole or not at all."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.files import write_whole
from grader.reports import class_page, learner
from grader.reports.junit import junit
from grader.reports.tables import plain

CLASS = "class.html"
SCORES, JUNIT = "scores.csv", "junit.xml"
BOM = "\ufeff"  # without it spreadsheets take Chinese for something else
PAGES = "submissions"  # the folder of the learners' pages
LONGEST_NAME = 50  # characters of a student's name in a file name: 4 bytes each still fit


@dataclass
class Written:
    """Where everything is. ``pages`` are in the order of the document's submissions."""

    folder: Path
    class_page: Path | None  # of more than one submission
    scores: Path
    junit: Path
    pages: list[Path] = field(default_factory=list)


def write_reports(
    document: Mapping[str, Any], folder: Path, *, lang: str | None = None, sources: Iterable[Path] = ()
) -> Written:
    """Everything that can be made of a result document, below ``folder`` (created when it is not there). ``sources``:
    folders that the document's paths may be relative to, besides the current one. Raises OSError."""
    folder = Path(folder)
    sources = list(sources)
    names = page_names(document)
    links = [f"{PAGES}/{name}" for name in names]
    overview = None
    if len(names) > 1:
        overview = save(folder / CLASS, class_page.page(document, links=links, lang=lang))
    written = Written(
        folder,
        class_page=overview,
        scores=save(folder / SCORES, BOM + plain(document, lang=lang)),
        junit=save(folder / JUNIT, junit(document, lang=lang)),
    )
    for entry, name in zip(document["submissions"], names):
        written.pages.append(save(folder / PAGES / name, learner.page(document, entry, lang=lang, folders=sources)))
    return written


def page_names(document: Mapping[str, Any]) -> list[str]:
    """A file name for each submission: the student and the stage, and a number where that is taken."""
    taken: set[str] = set()
    names = []
    for entry in document["submissions"]:
        stem = "-".join([_safe(entry["student"]), *([_safe(entry["stage"])] if entry["stage"] else [])])
        name, copy = stem, 1
        while name.casefold() in taken:  # of folders that do not tell upper from lower case, too
            copy += 1
            name = f"{stem}-{copy}"
        taken.add(name.casefold())
        names.append(f"{name}.html")
    return names


def _safe(text: str) -> str:
    return re.sub(r"[^\w.-]+", "_", text).strip(".")[:LONGEST_NAME] or "_"


def save(file: Path, text: str) -> Path:
    """Whoever reads the file meets the old one or the new one, never half of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    write_whole(file, text, mode=0o644)
    return file
