"""What can be wrong with a profile, each in one sentence that says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PROBLEMS = {
    "missing": "there is no such file or folder",
    "empty-folder": "the folder is empty: was the profiler stopped before it wrote anything?",
    "not-a-profile": "this is no profile of an Ascend NPU: give a folder *_ascend_pt (torch_npu.profiler) or PROF_*"
    " (msprof), or its kernel_details.csv or op_summary_*.csv",
    "other-tool": "this was written by {tool}, which records other things: {instead}",
    "several": "there is more than one profile here ({names}): give one of them",
    "not-parsed": "this holds raw data that was not analysed yet: run {command} on it first",
    "database-only": "this profile was exported as a database only: export it as text ({command})",
    "half-written": "{missing} is missing: the profiler was interrupted, or is still writing",
    "empty-file": "the file is empty: the profiler was interrupted, or is still writing",
    "not-text": "the file is not UTF-8 text: {detail}",
    "separator": "the columns are separated by {separator!r}: save the file with commas again, or take the original",
    "header": "the first line is not the header of a kernel table: the columns {missing} are missing",
    "duplicate-column": "the column {column!r} is there twice: take the file as the profiler wrote it",
    "no-kernels": "there is a header and not one kernel below it: nothing ran on the NPU while it was profiled",
    "cut": "line {line} ends in the middle: the file was cut, or is still being written",
    "row": "line {line} has {found} fields where the header has {expected}: take the file as the profiler wrote it",
    "quotes": "line {line}: the quotes in it do not match: take the file as the profiler wrote it",
    "number": "line {line}, column {column!r}: {value!r} is no {wanted}",
    "not-a-trace": "this is no timeline in the Chrome Trace Event format, or a part of one",
    "too-large-file": "the file has more than {limit} MiB: profile fewer steps",
    "too-large": "there are more than {limit} kernels: profile fewer steps, or read them one by one in Python, with "
    "kernels.profiles.stream()",
}


class BadProfile(ValueError):
    """A profile that cannot be read.

    ``problem``: key of PROBLEMS. ``path``: the file or folder. ``facts``: what the sentence quotes (``line``,
    ``column``, ``names``, ``command``, ...).
    """

    def __init__(self, problem: str, path: Path | str, **facts: Any) -> None:
        self.problem, self.path, self.facts = problem, Path(path), facts
        super().__init__(f"{self.path}: {PROBLEMS[problem].format(**facts)}")
