"""The csv files of a profile, as the profiler writes them."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from .columns import column_name, columns
from .kernel import Kernel, Shapes
from .utilisation import core_kinds

MISSING = "N/A"
MODEL_ID = "4294967295"  # 2^32 - 1: single operators, no graph


def write_kernels(
    file: Path, kernels: Sequence[Kernel], *, table: str, header: str, level: int, origin_ns: int
) -> None:
    """``table``: "kernel_details" or "op_summary". Times with three decimals.

    A tab behind the start time keeps a spreadsheet from rounding it.
    """
    arch = kernels[0].device.arch if kernels and kernels[0].device else None
    steps = table == "kernel_details" and any(kernel.step is not None for kernel in kernels)
    keys = columns(level, arch, steps)
    with file.open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([column_name(key, table, header) for key in keys])
        before: int | None = None
        for number, kernel in enumerate(kernels):
            cells = _cells(kernel, number, before, origin_ns)
            writer.writerow([cells.get(key, MISSING) for key in keys])
            before = max(before or 0, kernel.end_ns or 0)


def _cells(kernel: Kernel, number: int, before: int | None, origin_ns: int) -> dict[str, str]:
    start = kernel.start_ns or 0
    wait = 0.0 if before is None else max(0, start - before) / 1000
    cells = {
        "step": "" if kernel.step is None else str(kernel.step),
        "device_id": str(kernel.device_id or 0),
        "model": MODEL_ID,
        "task": str(number if kernel.task is None else kernel.task),
        "stream": str(2 if kernel.stream is None else kernel.stream),
        "name": kernel.name,
        "type": kernel.type,
        "state": kernel.state or MISSING,
        "core": kernel.core or MISSING,
        "start": microseconds(origin_ns + start) + "\t",
        "duration": f"{kernel.duration_us:.3f}",
        "wait": f"{wait if kernel.wait_us is None else kernel.wait_us:.3f}",
        "block_num": _whole(kernel.block_num),
        "mix_block_num": str(kernel.mix_block_num or 0),
        "hf32": "NO",
    }
    for end in ("input", "output"):
        for what in ("dtypes", "formats"):
            values = getattr(kernel, f"{end}_{what}")
            cells[f"{end}_{what}"] = MISSING if values is None else ";".join(values)
        cells[f"{end}_shapes"] = _shapes(getattr(kernel, f"{end}_shapes"))
    kinds = core_kinds(kernel.core)
    for kind, at_work, us, total, ratios in (
        ("aic", "cube" in kinds, kernel.aicore_us, kernel.aic_cycles, kernel.ratios),
        ("aiv", "vector" in kinds, kernel.aiv_us, kernel.aiv_cycles, kernel.aiv_ratios),
    ):
        if not at_work:  # no core of this kind took part: its counters stand still
            us, total, ratios = 0.0, 0.0, dict.fromkeys(ratios, 0.0)
        cells["aicore" if kind == "aic" else "aiv"] = _number(us)
        cells[f"{kind}_total_cycles"] = _whole(total)
        for pipe, ratio in ratios.items():
            cells[f"{kind}_{pipe}_ratio"] = _number(ratio)
            cells[f"{kind}_{pipe}_time"] = _number(None if ratio is None or us is None else ratio * us)
    cells["cube_utilization"] = _number(kernel.cube_utilization if "cube" in kinds else 0.0)
    return cells


def microseconds(ns: int) -> str:
    """Exact, which no float is: 1767225600000123 -> "1767225600000.123"."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def _number(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3f}"


def _whole(value: float | None) -> str:
    return MISSING if value is None else f"{value:.0f}"


def _shapes(value: Shapes | None) -> str:
    """With quotes of its own inside the csv's quotes."""
    if value is None:
        return MISSING
    return '"' + ";".join(",".join(map(str, shape)) if shape else "" for shape in value) + '"'


def write_statistic(file: Path, kernels: Iterable[Kernel]) -> None:
    """op_statistic: the kernels by type, the longest first."""
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for kernel in kernels:
        groups[kernel.type, kernel.core or MISSING].append(round(kernel.duration_us, 3))
    total = sum(map(sum, groups.values())) or 1.0
    rows: list[list[object]] = [
        [0, name, core, len(us)]
        + [f"{x:.3f}" for x in (sum(us), min(us), sum(us) / len(us), max(us), 100 * sum(us) / total)]
        for (name, core), us in sorted(groups.items(), key=lambda item: -sum(item[1]))
    ]
    titles = "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)"
    _write(file, titles.split(","), rows)


def step_spans(kernels: Iterable[Kernel]) -> dict[int | None, tuple[int, int, int]]:
    """Step -> (start, end, busy) in ns: a step lasts until the next one starts, busy is the union of its kernels."""
    spans: dict[int | None, list[tuple[int, int]]] = defaultdict(list)
    for kernel in kernels:
        if kernel.start_ns is not None and kernel.end_ns is not None:
            spans[kernel.step].append((kernel.start_ns, kernel.end_ns))
    starts = sorted(min(span)[0] for span in spans.values())
    result: dict[int | None, tuple[int, int, int]] = {}
    for step, intervals in spans.items():
        busy, reached = 0, 0
        for start, end in sorted(intervals):
            busy, reached = busy + max(0, end - max(start, reached)), max(reached, end)
        first = min(intervals)[0]
        result[step] = (first, next((start for start in starts if start > first), reached), busy)
    return result


def write_steps(file: Path, kernels: Iterable[Kernel]) -> None:
    """step_trace_time: one device, hence no communication."""
    titles = (
        "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
        "Communication(Not Overlapped and Exclude Receive),Preparing"
    )
    rows = []
    for step, (start, end, busy) in step_spans(kernels).items():
        computing, stage = busy / 1000, max(end - start, busy) / 1000
        rows.append([0, "" if step is None else step, f"{computing:.3f}", *["0.000"] * 3, f"{stage - computing:.3f}"])
        rows[-1] += [f"{stage:.3f}", *["0.000"] * 3]
    _write(file, titles.split(","), rows)


def _write(file: Path, titles: list[str], rows: Iterable[Sequence[object]]) -> None:
    with file.open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(titles)
        writer.writerows(rows)
