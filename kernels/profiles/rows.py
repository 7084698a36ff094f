"""A kernel table line by line: csv text in, Kernel out, with a complaint or a note for everything that is odd."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TextIO

from . import columns
from .kernel import AIC_PIPES, AIV_PIPES, Device, Kernel, Note, Shapes
from .problems import BadProfile

NOTHING = ("", "n/a", "na", "nan", "none", "null", "-")
RATIO_LIMIT = 1.05  # the counters of a pipe and of its core are not read in the same cycle
# a ratio has three decimals, a time of a pipe too: more than this apart, one of them was not written by the profiler
DISAGREE = 0.02
ROUNDING = 0.001  # us: what is left out of two times with three decimals


class KernelTable:
    """The kernels of one csv file, streamed. ``notes`` is complete when the iteration is."""

    def __init__(self, path: Path, device: Device | None = None) -> None:
        self.path, self.device = path, device
        self.notes: dict[str, Note] = {}
        self.header: list[str] = []
        self.index: dict[str, int] = {}  # key -> position
        self.block_header = "none"

    def __iter__(self) -> Iterator[Kernel]:
        with _open_text(self.path) as text:
            lines = csv.reader(_checked_lines(text, self.path, self._note_open_end), strict=True)
            try:
                self._read_header(lines)
                for row in lines:
                    if any(cell.strip() for cell in row):
                        self._check_width(row, lines)
                        yield self._kernel(row, lines.line_num)
            except csv.Error as error:
                if "field limit" in str(error):
                    raise BadProfile("not-text", self.path, detail="a cell of more than 128 KiB") from None
                problem = "cut" if "end of data" in str(error) else "quotes"
                raise BadProfile(problem, self.path, line=lines.line_num) from None
            except UnicodeDecodeError as error:
                raise BadProfile("not-text", self.path, detail=f"byte {error.start} cannot be decoded") from None

    # ------------------------------------------------------------------------------------------------------- header
    def _read_header(self, lines: Iterator[list[str]]) -> None:
        try:
            self.header = [cell.strip() for cell in next(lines)]
        except StopIteration:
            raise BadProfile("empty-file", self.path) from None
        if len(self.header) == 1:
            for separator in (";", "\t", "|"):
                if separator in self.header[0]:
                    raise BadProfile("separator", self.path, separator=separator)
        ranks: dict[str, int] = {}
        seen: set[str] = set()
        for position, name in enumerate(self.header):
            key, rank = columns.KNOWN.get(columns.plain(name), ("", 0))
            if not key:
                continue
            if columns.plain(name) in seen:
                raise BadProfile("duplicate-column", self.path, column=name)
            seen.add(columns.plain(name))
            if rank < ranks.get(key, 99):
                ranks[key], self.index[key] = rank, position
        missing = [columns.RENAMED[key][1] for key in columns.NEEDED if key not in ranks]
        if missing:
            raise BadProfile("header", self.path, missing=", ".join(missing))
        if "block_num" in self.index:
            found = columns.plain(self.header[self.index["block_num"]])
            self.block_header = next(
                header for header, names in columns.BLOCK.items() if columns.plain(names["block_num"]) == found
            )

    @property
    def level(self) -> int:
        """0 when the file has no columns of the cores at all."""
        return int(any(key.startswith(("aic", "aiv")) for key in self.index))

    @property
    def has_pipes(self) -> bool:
        """False when another set of metrics than PipeUtilization was collected."""
        return any(key.endswith(("_ratio", "_time")) for key in self.index)

    # --------------------------------------------------------------------------------------------------------- rows
    def _check_width(self, row: list[str], lines: Iterator[list[str]]) -> None:
        if len(row) == len(self.header):
            return
        line = lines.line_num  # type: ignore[attr-defined]
        short = len(row) < len(self.header)
        if short and next(lines, None) is None:
            raise BadProfile("cut", self.path, line=line)
        raise BadProfile("row", self.path, line=line, found=len(row), expected=len(self.header))

    def _kernel(self, row: list[str], line: int) -> Kernel:
        def text(key: str) -> str | None:
            value = row[self.index[key]].strip() if key in self.index else ""
            return None if value.casefold() in NOTHING else value

        def number(key: str) -> float | None:
            value = text(key)
            if value is None:
                return None
            try:
                result = float(value)
                if result >= 0 and result != float("inf"):
                    return result
            except ValueError:
                pass
            self._note("not-a-number", f"{value!r} is no number that can stand there", line, key)
            return None

        def whole(key: str) -> int | None:
            value = number(key)
            return None if value is None else int(value)

        def ratio(kind: str, pipe: str, core_us: float | None) -> float | None:
            value, time = number(f"{kind}_{pipe}_ratio"), number(f"{kind}_{pipe}_time")
            if value is not None and value > RATIO_LIMIT:
                self._note("out-of-range", f"a ratio of {value:g}: it is at most 1", line, f"{kind}_{pipe}_ratio")
                value = None
            from_time = time / core_us if time is not None and core_us else None
            if value is None:
                return from_time if from_time is None or from_time <= RATIO_LIMIT else None
            if from_time is not None and core_us and abs(from_time - value) > DISAGREE + ROUNDING / core_us:
                told = f"the ratio is {value:g}, its time over the core's time {from_time:.3f}"
                self._note("ratio-disagrees", told, line, f"{kind}_{pipe}_ratio")
            return value

        name, duration = text("name"), text("duration")
        if name is None:
            raise BadProfile("number", self.path, line=line, column=self._column("name"), value="", wanted="name")
        duration_us = number("duration")
        if duration_us is None:
            value = duration or row[self.index["duration"]]
            raise BadProfile(
                "number", self.path, line=line, column=self._column("duration"), value=value, wanted="duration"
            )
        aicore, aiv = number("aicore"), number("aiv")
        aic = (*AIC_PIPES, "mte3") if "aic_mte3_ratio" in self.index else AIC_PIPES
        return Kernel(
            name=name,
            type=text("type") or name,
            core=text("core"),
            start_ns=self._start(text("start"), line),
            duration_us=duration_us,
            wait_us=number("wait"),
            step=whole("step"),
            device_id=whole("device_id"),
            stream=whole("stream"),
            task=whole("task"),
            state=text("state"),
            block_num=whole("block_num"),
            mix_block_num=whole("mix_block_num"),
            input_shapes=shapes(text("input_shapes")),
            input_dtypes=_list(text("input_dtypes")),
            input_formats=_list(text("input_formats")),
            output_shapes=shapes(text("output_shapes")),
            output_dtypes=_list(text("output_dtypes")),
            output_formats=_list(text("output_formats")),
            aicore_us=aicore,
            aic_cycles=number("aic_total_cycles"),
            ratios={pipe: ratio("aic", pipe, aicore) for pipe in aic},
            aiv_us=aiv,
            aiv_cycles=number("aiv_total_cycles"),
            aiv_ratios={pipe: ratio("aiv", pipe, aiv) for pipe in AIV_PIPES},
            cube_utilization=number("cube_utilization"),
            device=self.device,
        )

    def _start(self, value: str | None, line: int) -> int | None:
        if value is None:
            return None
        try:
            return int(Decimal(value) * 1000)
        except (InvalidOperation, OverflowError, ValueError):
            self._note("not-a-number", f"{value!r} is no time", line, "start")
            return None

    # -------------------------------------------------------------------------------------------------------- notes
    def _column(self, key: str) -> str:
        return self.header[self.index[key]] if key in self.index else key

    def _note(self, kind: str, text: str, line: int, key: str) -> None:
        before = self.notes.get(kind)
        if before is None:
            self.notes[kind] = Note(kind, text, f"{self.path.name}, line {line}, column {self._column(key)!r}")
        else:
            self.notes[kind] = Note(kind, before.text, before.where, before.count + 1)

    def _note_open_end(self) -> None:
        told = "the last line does not end: it may be cut within its last number"
        self.notes["last-line-open"] = Note("last-line-open", told, self.path.name)


def _checked_lines(text: TextIO, path: Path, open_end: Callable[[], None]) -> Iterator[str]:
    line = "\n"
    for number, line in enumerate(text, 1):
        if "\0" in line:
            raise BadProfile("not-text", path, detail=f"there are zero bytes in line {number}")
        yield line
    if not line.endswith(("\n", "\r")):
        open_end()


def _open_text(path: Path) -> TextIO:
    """utf-8-sig: a spreadsheet puts a byte order mark in front. The csv module wants line ends as they are."""
    raw = path.open("rb")
    start = raw.read(4)
    raw.seek(0)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raw.close()
        raise BadProfile("not-text", path, detail="it is UTF-16, as a spreadsheet saves 'Unicode text'")
    if start.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\x1f\x8b", b"SQLi")):
        raw.close()
        raise BadProfile("not-text", path, detail="it is a workbook, an archive or a database")
    return io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")


def _list(value: str | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(part.strip() for part in value.strip('"').split(";"))


def shapes(value: str | None) -> Shapes | None:
    """``"4096,2,512;;8"`` -> ((4096, 2, 512), None, (8,)); an empty slot is an absent tensor (or a scalar)."""
    if value is None:
        return None
    result: list[tuple[int, ...] | None] = []
    for part in value.strip().strip('"').split(";"):
        try:
            result.append(tuple(int(size) for size in part.strip(" []()").split(",")) if part.strip() else None)
        except ValueError:
            result.append(None)
    return tuple(result)
