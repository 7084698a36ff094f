from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator

import pytest

from grader.wall.workers import Limits, Template, WorkerSubject

Make = Callable[..., WorkerSubject]


@pytest.fixture(scope="session")
def template() -> Iterator[Template]:
    with Template() as running:
        running.start()
        yield running


@pytest.fixture
def program(template: Template) -> Iterator[Make]:
    """``program(source, bans=..., limits=...)``: a subject over a script, or over a list of notebook cells."""
    made: list[WorkerSubject] = []

    def make(source: str | list[str], bans: tuple[str, ...] = (), limits: Limits | None = None) -> WorkerSubject:
        if isinstance(source, str):
            cells: list[tuple[int | None, str, str]] = [(None, textwrap.dedent(source), "answer.py")]
        else:
            cells = [(n, textwrap.dedent(text), f"<cell {n}>") for n, text in enumerate(source, start=1)]
        made.append(WorkerSubject(template, cells, bans, limits or Limits()))
        return made[-1]

    yield make
    for subject in made:
        subject.close()
