"""Rows of profiles for the diagnosis exercise: eight causes, drawn on several chips and shapes from the model.

A draw is kept only if the rules say what it was meant to show and nothing is close to a threshold or a tie, so that the
model's own error changes no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernels.perf import SCHEDULES, Refused, Schedule, Shape, Soc, find_soc, predict
from kernels.profiles import Kernel, kernel_run

from .tables import KEYS, Row

PIPES = {
    "mac": "cube", "mte1": "mte1", "mte2": "mte2", "fixpipe": "fixpipe", "vec": "vector", "aiv_mte2": "aiv_mte2",
    "mte3": "mte3",
}  # fmt: skip
TIMES = ("aicore_us", "aiv_us")
FULL, LAUNCH, CORES = 0.80, 0.5, 0.5  # the thresholds of the contract
NEAR = 0.05  # kept free on both sides of them
TIE = 0.90  # the second largest ratio is at most this much of the largest
TRIES = 200

A5 = ("950PR_9579", "950PR_9589", "950PR_9599", "950DT_9571", "950DT_9581", "950DT_9591")
A2 = ("910B1", "910B2", "910B3", "910B4", "910_9391")
GM = Schedule(s_path="gm", p_path="gm", o_path="gm", l0c_slots=2, vector_code="cann", p_slots=2)


@dataclass(frozen=True)
class Drawn:
    """A row and what there is to know about it. ``cause`` is a key of CAUSES."""

    cause: str
    row: Row
    soc: Soc
    shape: Shape
    schedule: Schedule


Make = Callable[[np.random.Generator], tuple[str, Shape, Schedule]]


def _long(rng: np.random.Generator, head_dim: int) -> Shape:
    heads, length = int(rng.choice([12, 16, 24, 32])), int(rng.choice([2048, 3072, 4096, 6144]))
    return Shape(1, heads, heads, length, length, head_dim, str(rng.choice(["float16", "bfloat16"])))


def _chip(rng: np.random.Generator, names: tuple[str, ...]) -> str:
    return str(rng.choice(names))


def _cube(rng: np.random.Generator) -> tuple[str, Shape, Schedule]:
    return _chip(rng, A5), _long(rng, 256), Schedule(s_slots=1, o_slots=1, preload=int(rng.integers(1, 4)))


def _vector(rng: np.random.Generator) -> tuple[str, Shape, Schedule]:
    return _chip(rng, A5), _long(rng, int(rng.choice([64, 128]))), SCHEDULES["v8-unfused"]


def _small_tiles(rng: np.random.Generator) -> tuple[str, Shape, Schedule]:
    return _chip(rng, A5), _long(rng, 128), Schedule(block_q=int(rng.choice([48, 64])))


def _through_gm(rng: np.random.Generator) -> tuple[str, Shape, Schedule]:
    schedule = Schedule(s_path="gm", p_path="gm", o_path="gm", preload=int(rng.integers(2, 4)))
    return _chip(rng, A5), _long(rng, int(rng.choice([64, 128]))), schedule


def _fixpipe(rng: np.random.Generator) -> tuple[str, Shape, Schedule]:
    schedule = replace(GM, block_kv=int(rng.choice([128, 256])), preload=int(rng.integers(2, 5)), s_slots=8, o_slots=8)
    return _chip(rng, A2), _long(rng, int(rng.choice([64, 128]))), schedule


def _single_buffers(rng: np.random.Generator) -> tuple[str, Shape, Schedule]:
    one = Schedule(preload=0, k_slots=1, v_slots=1, p_slots=1, s_slots=1, o_slots=1, ub_p_slots=1)
    return _chip(rng, A5), _long(rng, int(rng.choice([128, 256]))), one


def _one_ahead(rng: np.random.Generator) -> tuple[str, Shape, Schedule]:
    schedule = replace(GM, block_kv=int(rng.choice([128, 256])), preload=1)
    return _chip(rng, A2), _long(rng, 128), schedule


def _few_cores(rng: np.random.Generator) -> tuple[str, Shape, Schedule]:
    heads, length = int(rng.integers(1, 4)), int(rng.choice([8192, 16384]))
    shape = Shape(1, heads, 1, int(rng.choice([256, 384])), length)
    schedule = Schedule() if rng.integers(2) else replace(GM, block_kv=512)
    return _chip(rng, A5 if schedule.s_path == "chip" else A2), shape, schedule


def _few_waiting(rng: np.random.Generator) -> tuple[str, Shape, Schedule]:
    name, shape, schedule = _few_cores(rng)
    return name, shape, replace(schedule, preload=0)


def _tiny(rng: np.random.Generator) -> tuple[str, Shape, Schedule]:
    length = int(rng.choice([128, 256, 384]))
    shape = Shape(int(rng.integers(1, 3)), int(rng.integers(4, 13)), 1, length, length, 64)
    return _chip(rng, A5), shape, Schedule()


CAUSES: dict[str, tuple[str, Make]] = {  # -> the answer, and how to draw one
    "cube": ("cube", _cube),
    "vector-code": ("vector", _vector),
    "small-tiles": ("mte2", _small_tiles),
    "through-gm": ("fixpipe", _through_gm),
    "no-wire": ("fixpipe", _fixpipe),
    "single-buffers": ("waiting", _single_buffers),
    "one-ahead": ("waiting", _one_ahead),  # likewise, on a chip whose busiest pipe is another
    "few-cores": ("cores", _few_cores),
    "few-cores-waiting": ("cores", _few_waiting),  # likewise, and no pipe is full
    "tiny": ("launch", _tiny),
}


def answer(row: Row) -> str:
    """The rules of the contract, in their order."""
    core_us = max((row[time] for time in ("aicore_us", "aiv_us") if row[time] is not None), default=None)
    if core_us is None:
        return "unknown"
    if core_us < LAUNCH * row["duration_us"]:
        return "launch"
    share = working_share(row)
    if share is not None and share < CORES:
        return "cores"
    column = busiest(row)
    if column is None:
        return "unknown"
    return PIPES[column] if row[column] >= FULL else "waiting"


def working_share(row: Row) -> float | None:
    """Cores with work over the cores of the chip, from the columns alone."""
    if not row["cube_utilization"] or not row["aicore_us"]:
        return None
    return float(row["cube_utilization"] / 100 * row["duration_us"] / row["aicore_us"])


def busiest(row: Row) -> str | None:
    ratios = {column: row[column] for column in PIPES if row[column] is not None}
    return max(ratios, key=lambda column: ratios[column]) if ratios else None


def decisive(row: Row) -> set[str]:
    """The columns without which nobody can see the answer."""
    word = answer(row)
    if word == "unknown":
        return set()
    if word == "launch":
        return {"duration_us", max(("aicore_us", "aiv_us"), key=lambda time: row[time] or 0.0)}
    if word == "cores":
        return {"cube_utilization", "duration_us", "aicore_us"}
    return {str(busiest(row))}


def lacking(row: Row, evidence: Mapping[str, Any]) -> set[str]:
    """The decisive columns that the evidence leaves out; of a tie any column will do."""
    group = TIMES if answer(row) == "launch" else () if answer(row) == "cores" else tuple(PIPES)
    return {
        column
        for column in decisive(row) - set(evidence)
        if not (column in group and any(row[other] == row[column] for other in group if other in evidence))
    }


def clear(row: Row) -> bool:
    """Whether nothing is near a threshold and no two pipes are near each other."""
    core_us = max(row[time] for time in ("aicore_us", "aiv_us") if row[time] is not None)
    if abs(core_us / row["duration_us"] - LAUNCH) < NEAR:
        return False
    share = working_share(row)
    if share is not None and abs(share - CORES) < NEAR:
        return False
    if answer(row) in ("launch", "cores"):
        return True
    first, second = sorted((row[column] for column in PIPES if row[column] is not None), reverse=True)[:2]
    return abs(first - FULL) >= NEAR and second <= TIE * first


def row_of(kernel: Kernel, rng: np.random.Generator) -> Row:
    """A kernel as ``read_profile`` gives it. The scalar columns, which the model leaves out, are drawn as real rows
    have them (0.92 and 0.96, 0.32 and 0.38 were measured on 910B)."""

    def digits(value: float | None) -> float | None:
        return None if value is None else float(f"{value:.3f}")

    row: Row = dict.fromkeys(KEYS) | {
        "name": kernel.name, "type": kernel.type, "core": kernel.core, "start_us": kernel.start_us,
        "duration_us": digits(kernel.duration_us), "block_num": kernel.block_num,
        "input_shapes": [list(shape or ()) for shape in kernel.input_shapes or ()],
        "aicore_us": digits(kernel.aicore_us), "aiv_us": digits(kernel.aiv_us),
        "cube_utilization": digits(kernel.cube_utilization),
    }  # fmt: skip
    row |= {name: digits(kernel.ratios[name]) for name in ("mac", "mte1", "mte2", "fixpipe")}
    for column, name in (("vec", "vec"), ("aiv_mte2", "mte2"), ("mte3", "mte3")):
        row[column] = digits(kernel.aiv_ratios[name])
    busy = rng.integers(4)  # whichever: neither scalar unit is a bottleneck
    row["scalar"] = digits(rng.uniform(0.90, 0.97))
    row["aiv_scalar"] = digits(rng.uniform(0.992, 0.999) if busy else rng.uniform(0.30, 0.39))
    return row


def vector_longer(row: Row, rng: np.random.Generator) -> Row:
    """The same kernel with Cube cores that finish early: only aiv_us says that the cores worked all the time, and
    cube_utilization is low though every core has work."""
    share = rng.uniform(0.30, 0.42) * row["duration_us"] / row["aicore_us"]
    return row | {key: float(f"{row[key] * share:.3f}") for key in ("aicore_us", "cube_utilization")}


def draw(rng: np.random.Generator, cause: str) -> Drawn:
    """A kernel of this cause."""
    word, make = CAUSES[cause]
    for _ in range(TRIES):
        name, shape, schedule = make(rng)
        soc = find_soc(name)
        try:
            kernel = kernel_run(predict(soc, shape, schedule), shape, soc, start=float(rng.integers(10**6)))
        except Refused:
            continue
        row = row_of(kernel, rng)
        if answer(row) == word and clear(row):
            return Drawn(cause, row, soc, shape, schedule)
    raise RuntimeError(f"no kernel with the cause {cause} in {TRIES} draws")


def other_kernel(rng: np.random.Generator, kind: str) -> Row:
    """A kernel that runs on one kind of core: "cube" a MatMul full of products, "vector" one full of vector work,
    "aiv_mte2" one that mostly reads, "mte3" one that mostly writes, "mte1" a product of thin matrices."""
    duration = float(f"{rng.uniform(50, 500):.3f}")
    row: Row = dict.fromkeys(KEYS) | {"start_us": float(rng.integers(10**6)), "duration_us": duration, "block_num": 20}
    low = {column: float(f"{rng.uniform(0.05, 0.6):.3f}") for column in (*PIPES, "scalar", "aiv_scalar")}
    high = float(f"{rng.uniform(FULL + NEAR, 0.99):.3f}")
    core_us = float(f"{duration * rng.uniform(0.8, 0.98):.3f}")
    if kind in ("cube", "mte1"):
        row |= {"name": "MatMul_MatMulV3_MatMulV3", "type": "MatMulV3", "core": "AI_CORE", "aicore_us": core_us}
        row |= {column: low[column] for column in ("mac", "scalar", "mte1", "mte2", "fixpipe")}
        row["cube_utilization"] = float(f"{100 * core_us / duration:.3f}")
        row["mac" if kind == "cube" else "mte1"] = high
    else:
        row |= {"name": "Softmax_SoftmaxV2_SoftmaxV2", "type": "SoftmaxV2", "core": "AI_VECTOR_CORE", "aiv_us": core_us}
        row |= {column: low[column] for column in ("vec", "aiv_scalar", "aiv_mte2", "mte3")}
        row["vec" if kind == "vector" else kind] = high
        row["aiv_scalar"] = 0.995
    return row


def misleading(row: Row) -> bool:
    """Whether the column cube_utilization speaks of a full Cube that is not there."""
    return bool(row["cube_utilization"] and row["cube_utilization"] > 85 and row["mac"] < 0.7)


def level0(row: Row) -> dict[str, Any]:
    """The same kernel in a profile without counters."""
    kept = ("name", "type", "core", "start_us", "duration_us", "block_num")
    return {key: value if key in kept else None for key, value in row.items()}
