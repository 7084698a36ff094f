"""Where in a file a line of a cell stands, so that an annotation lands on it."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from grader.subject import Where

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder(strict=False)


class Places:
    """Of one submission. A place that cannot be told is the file's first line."""

    def __init__(self, file: Path):
        self._cells: list[_Source] | None = None  # None: not a notebook
        if file.suffix.lower() == ".ipynb":
            try:
                self._cells = list(_cells(file.read_bytes().decode("utf-8-sig")))
            except (OSError, ValueError, IndexError, RecursionError):
                self._cells = []

    def line(self, place: Where | None) -> int:
        """The line in the file, counted from 1."""
        if place is None:
            return 1
        if self._cells is None:
            return max(place.line, 1)
        if place.cell is None or not 0 < place.cell <= len(self._cells):
            return 1
        return self._cells[place.cell - 1].line(place.line)


class _Source:
    """A cell's source: the strings that it is made of, each with the line it stands on."""

    def __init__(self, parts: list[tuple[int, str]]):
        self._lines = [line for line, _ in parts]
        self._first = [1]  # the first line of the source that stands in each of them
        for _, text in parts:
            self._first.append(self._first[-1] + text.count("\n"))

    def line(self, wanted: int) -> int:
        if not self._lines:
            return 1
        found = self._first[bisect_right(self._first[:-1], max(wanted, 1)) - 1]
        return self._lines[self._first.index(found)]


def _cells(text: str) -> Iterator[_Source]:
    starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def line_at(position: int) -> int:
        return bisect_right(starts, position)

    for key, at in _members(text, _skip(text, 0)):
        for cell in _items(text, at) if key == "cells" else ():
            parts: list[tuple[int, str]] = []
            for name, source in _members(text, cell):
                if name == "source":
                    places = _items(text, source) if text[source] == "[" else (source,)
                    parts = [(line_at(place), str(_DECODER.raw_decode(text, place)[0])) for place in places]
            yield _Source(parts or [(line_at(cell), "")])


def _members(text: str, at: int) -> Iterator[tuple[str, int]]:
    """The keys of the object at ``at``, and where their values begin."""
    if text[at] != "{":
        raise ValueError("no object")
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)  # the colon
        yield key, at
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        if text[at] == ",":
            at = _skip(text, at + 1)


def _items(text: str, at: int) -> Iterator[int]:
    """Where the elements of the array at ``at`` begin."""
    if text[at] != "[":
        raise ValueError("no array")
    at = _skip(text, at + 1)
    while text[at] != "]":
        yield at
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        if text[at] == ",":
            at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()
