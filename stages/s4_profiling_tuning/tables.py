"""Tables of profiles for the reading exercise: rows whose values are known, written in every way that real files are.

The columns and their order are those of CANN's own files (kernel_details.csv of torch_npu, op_summary_*.csv of msprof).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Row = dict[str, Any]  # by the keys of ``read_profile``

RATIOS = {
    "aicore_us": {"mac": "aic_mac", "scalar": "aic_scalar", "mte1": "aic_mte1", "mte2": "aic_mte2",
                  "fixpipe": "aic_fixpipe"},
    "aiv_us": {"vec": "aiv_vec", "aiv_scalar": "aiv_scalar", "aiv_mte2": "aiv_mte2", "mte3": "aiv_mte3"},
}  # fmt: skip
PYTORCH = {
    "name": "Name", "type": "Type", "core": "Accelerator Core", "start_us": "Start Time(us)",
    "duration_us": "Duration(us)", "wait_us": "Wait Time(us)",
}  # fmt: skip
MSPROF = {
    "name": "Op Name", "type": "OP Type", "core": "Task Type", "start_us": "Task Start Time(us)",
    "duration_us": "Task Duration(us)", "wait_us": "Task Wait Time(us)",
}  # fmt: skip
KEYS = (
    "name", "type", "core", "start_us", "duration_us", "block_num", "input_shapes",
    "aicore_us", *RATIOS["aicore_us"], "aiv_us", *RATIOS["aiv_us"], "cube_utilization",
)  # fmt: skip

# type -> accelerator core, number of inputs
KINDS = {
    "FlashAttentionScore": ("MIX_AIC", 8),
    "FlashAttentionScoreGrad": ("MIX_AIC", 12),
    "MatMulV3": ("AI_CORE", 2),
    "LayerNormV4": ("AI_VECTOR_CORE", 3),
    "Cast": ("AI_VECTOR_CORE", 1),
    "SoftmaxCrossEntropyWithLogits": ("AI_VECTOR_CORE", 2),
}


def draw_rows(rng: np.random.Generator, count: int) -> list[Row]:
    """Kernels with all of their columns; numbers have the three decimals that the files have. Attention is among them,
    and kernels of one kind of core only."""
    rows, start = [], 1.7e15 + float(rng.integers(10**9))
    kinds = [*list(KINDS)[:1], *list(KINDS)[2:4], *map(str, rng.choice(list(KINDS), count))]
    for n, kind in enumerate(kinds[i] for i in rng.permutation(count)):
        core, inputs = KINDS[kind]
        duration = _digits(rng.uniform(5, 900))
        row: Row = dict.fromkeys(KEYS) | {
            "name": f"{kind}_{n}", "type": kind, "core": core, "start_us": _digits(start), "duration_us": duration,
            "wait_us": _digits(rng.uniform(0, 9)), "block_num": int(rng.integers(1, 49)),
            "input_shapes": _draw_shapes(rng, inputs),
        }  # fmt: skip
        for time, ratios in RATIOS.items():
            if (time == "aicore_us" and core == "AI_VECTOR_CORE") or (time == "aiv_us" and core == "AI_CORE"):
                continue
            row[time] = _digits(duration * rng.uniform(0.5, 0.99))
            row |= {key: _digits(rng.uniform(0.011, 0.99)) for key in ratios}
        if row["aicore_us"] is not None:
            row["cube_utilization"] = _digits(100 * row["aicore_us"] / duration)
        rows.append(row)
        start += duration + 12.0
    return rows


def _digits(value: float) -> float:
    return float(f"{value:.3f}")


def _draw_shapes(rng: np.random.Generator, inputs: int) -> list[list[int]]:
    """The optional inputs of attention are mostly absent; their slots stay."""
    absent = {3, 4, 5} if inputs >= 8 else set()
    return [
        [] if i in absent else [int(size) for size in rng.integers(2, 4097, int(rng.integers(1, 5)))]
        for i in range(inputs)
    ]


def header(kind: str, *, blocks: str = "Block Num", level: int = 1) -> list[str]:
    """The columns of one kind of table. ``blocks``: "Block Num", or "Block Dim" up to CANN 8.3."""
    names = PYTORCH if kind == "pytorch" else MSPROF
    times = [names["start_us"], names["duration_us"], names["wait_us"]]
    before = ["Device_id", "Model ID", "Task ID", "Stream ID"]
    columns = [*(["Step Id"] if kind == "pytorch" else []), *before, names["name"], names["type"], "OP State",
               names["core"], *times, blocks, f"Mix {blocks}"]  # fmt: skip
    if level == 0:
        return columns
    columns += ["HF32 Eligible", "Input Shapes", "Input Data Types", "Input Formats", "Output Shapes",
                "Output Data Types", "Output Formats", "Context ID"]  # fmt: skip
    for prefix, (time, ratios) in zip(("aicore", "aiv"), RATIOS.items(), strict=True):
        columns += [f"{prefix}_time(us)", f"{'aic' if time == 'aicore_us' else 'aiv'}_total_cycles"]
        for name in ratios.values():
            columns += [f"{name}_time(us)", f"{name}_ratio"]
        columns.append(f"{'aic' if time == 'aicore_us' else 'aiv'}_icache_miss_rate")
    return [*columns, "cube_utilization(%)"]


def column_of(key: str, kind: str, blocks: str = "Block Num") -> str:
    """The column that holds ``key``."""
    names = PYTORCH if kind == "pytorch" else MSPROF
    for ratios in RATIOS.values():
        if key in ratios:
            return f"{ratios[key]}_ratio"
    fixed = {"block_num": blocks, "input_shapes": "Input Shapes", "aicore_us": "aicore_time(us)",
             "aiv_us": "aiv_time(us)", "cube_utilization": "cube_utilization(%)"}  # fmt: skip
    return fixed.get(key) or names[key]


def cells_of(row: Row, kind: str, blocks: str = "Block Num") -> dict[str, str]:
    """Column -> text, of every column that the full header has."""
    cells = dict.fromkeys(header(kind, blocks=blocks), "N/A")
    cells |= {"Step Id": "1", "Device_id": "0", "Model ID": "4294967295", "Task ID": "7", "Stream ID": "2",
              "OP State": "dynamic", "HF32 Eligible": "NO", f"Mix {blocks}": "0"}  # fmt: skip
    for time, ratios in RATIOS.items():
        for key, name in ratios.items():
            if row[key] is not None:
                cells[f"{name}_time(us)"] = f"{row[key] * row[time]:.3f}"
    for key in (*KEYS, "wait_us"):
        value = row[key]
        if value is None:
            continue
        column = column_of(key, kind, blocks)
        if key == "input_shapes":
            cells[column] = '"' + ";".join(",".join(map(str, shape)) for shape in value) + '"'
        elif isinstance(value, float):
            cells[column] = f"{value:.3f}" + ("\t" if key == "start_us" else "")
        else:
            cells[column] = str(value)
    return {name: text for name, text in cells.items() if kind == "pytorch" or name != "Step Id"}


def table(columns: Sequence[str], rows: Iterable[dict[str, str]], *, newline: str = "\n", bom: bool = False) -> str:
    """The text of a csv file; a column that a row lacks is left empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator=newline)
    writer.writerow(columns)
    writer.writerows([row.get(name, "") for name in columns] for row in rows)
    return ("\ufeff" if bom else "") + out.getvalue()


def expected(rows: Iterable[Row], lost: Iterable[str] = ()) -> list[Row]:
    """What ``read_profile`` must say of these rows when the columns of ``lost`` are not there."""
    gone = set(lost)
    return [{key: None if key in gone else row[key] for key in KEYS} for row in rows]
