"""Something to look at for whoever waits: on stderr, and only when that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from grader.text import Text, say
from grader.views.terminal import console


@contextmanager
def progress_bar(title: Text, total: int | None = None) -> Iterator[Callable[[int, int, dict[str, Any]], None]]:
    """Yields ``on_progress(done, total, submission)`` of :func:`grader.batch.run.grade_entries`."""
    with _bar() as bar:
        task = bar.add_task(str(title), total=total)

        def on_progress(done: int, total: int, submission: dict[str, Any]) -> None:
            name = submission["student"] or submission["path"]
            bar.update(task, completed=done, total=total, description=f"{title}  {name[:24]}")

        yield on_progress


@contextmanager
def counting(title: Text, total: int) -> Iterator[Callable[[int], None]]:
    """Yields what is to be told how many of ``total`` are done."""
    with _bar() as bar:
        task = bar.add_task(str(title), total=total)
        yield lambda done: bar.update(task, completed=done)


def _bar() -> Progress:
    screen = console(sys.stderr)
    left = TextColumn(str(say("剩余", "left")), style="progress.remaining")
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), left,
        TimeRemainingColumn(),
    )  # fmt: skip
    return Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal)


@contextmanager
def waiting(title: Text) -> Iterator[None]:
    """A line that turns, and goes when the answer comes."""
    screen = console(sys.stderr)
    if not screen.is_terminal:
        yield
        return
    with screen.status(str(title)):
        yield
