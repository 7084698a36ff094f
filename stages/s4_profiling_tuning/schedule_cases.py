"""Chips and shapes to choose a schedule for, the sweep that a choice is held against, and the model's answer to it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product
from math import ceil, inf
from typing import Any

import numpy as np

from kernels.perf import Outcome, Schedule, Shape, Soc, find_soc, predict, sweep

FIELDS = ("block_q", "block_kv", "preload", "s_slots", "o_slots", "p_slots", "s_path", "p_path", "o_path")
BLOCK_Q = (64, 96, 128)  # the sizes that were measured, or lie between
ALLOWED = 1.15  # times the best of the sweep: twice the model's own error band
ON_CHIP = ("950PR_9579", "950PR_9589", "950PR_9599", "950DT_9571", "950DT_9581", "950DT_9591")
THROUGH_GM = ("910B1", "910B2", "910B3", "910B4", "910_9391")
BASE = {"3510": Schedule(), "2201": Schedule(l0c_slots=2, vector_code="cann")}  # what is no choice
GM = {"s_path": "gm", "p_path": "gm", "o_path": "gm"}


@dataclass(frozen=True)
class Choice:
    """The arguments of ``choose_schedule``."""

    soc: Soc
    shape: Shape

    def arguments(self) -> tuple[dict[str, Any], dict[str, Any]]:
        core, soc = self.soc.architecture, self.soc
        chip = {"arch": soc.arch, "cores": soc.cores, "mhz": soc.mhz, "l2_bytes": soc.l2_bytes}
        chip |= {name: getattr(core, name) for name in ("l1", "l0a", "l0b", "l0c", "ub")}
        chip |= {name: getattr(soc, name) for name in ("l2_bytes_per_cycle", "hbm_bytes_per_cycle")}
        size = asdict(self.shape)
        del size["dtype"]
        return chip, size

    @property
    def base(self) -> Schedule:
        return BASE[self.soc.arch]

    @cached_property
    def outcomes(self) -> list[Outcome]:
        """The sweep that the contract describes."""
        on_chip = self.soc.arch == "3510"
        columns, paths = ((128, 256), {}) if on_chip else ((128, 256, 512, 1024), GM)
        schedules = [
            replace(self.base, block_q=m, block_kv=n, preload=ahead, s_slots=slots, o_slots=slots, **paths)
            for m, n, ahead, slots in product(BLOCK_Q, columns, (1, 2), (1, 2))
        ]
        return sweep(self.soc, self.shape, schedules)

    def best_us(self, **fields: int) -> float:
        """The least time in the sweep, of schedules with these values; infinite when none of them runs."""
        return min(
            (o.microseconds for o in self.outcomes if all(getattr(o.schedule, k) == v for k, v in fields.items())),
            default=inf,
        )

    def hopeless(self, **fields: int) -> bool:
        """Whether values that the sweep has are too slow whatever goes with them."""
        return ALLOWED * self.best_us() < self.best_us(**fields) < inf

    def ratio(self, schedule: Schedule) -> float:
        """Time over the best's. Raises kernels.perf.Refused."""
        return predict(self.soc, self.shape, schedule).microseconds / self.best_us()

    def __str__(self) -> str:
        s = self.shape
        size = f"B={s.batch} N1={s.num_heads} N2={s.num_kv_heads} S1={s.seq_q} S2={s.seq_kv} D={s.head_dim}"
        return f"{self.soc.name}, {size}{', causal' if s.causal else ''}"


def _soc(rng: np.random.Generator, names: tuple[str, ...]) -> Soc:
    return find_soc(str(rng.choice(names)))


def long(rng: np.random.Generator, names: tuple[str, ...], head_dim: int, mask_mode: int = 0) -> Choice:
    """So many row blocks that the last wave does not count."""
    heads, length = int(rng.choice([16, 20, 24, 32])), int(rng.choice([4096, 6144, 8192]))
    return Choice(_soc(rng, names), Shape(1, heads, heads, length, length, head_dim, mask_mode=mask_mode))


def deep(rng: np.random.Generator, mask_mode: int = 0) -> Choice:
    """950, head_dim 256: whole waves of 128 rows, for which two slots of S and of O do not fit."""
    heads, length = int(rng.choice([16, 32])), int(rng.choice([4096, 8192]))
    names = tuple(name for name in ON_CHIP if find_soc(name).cores == 32)
    return Choice(_soc(rng, names), Shape(1, heads, heads, length, length, 256, mask_mode=mask_mode))


def two_waves(rng: np.random.Generator) -> Choice:
    """950: with block_q 128 a little more than one wave, with 96 still less than two; 64 would starve the Cube."""
    soc = _soc(rng, ON_CHIP)
    fitting = [
        (heads, rows)
        for heads in range(3, 13)
        for rows in range(512, 1537, 64)
        if 1.15 < heads * ceil(rows / 128) / soc.cores < 1.5 and 1.6 < heads * ceil(rows / 96) / soc.cores <= 2
    ]
    heads, rows = fitting[int(rng.integers(len(fitting)))]
    return Choice(soc, Shape(1, heads, 1, rows, int(rng.choice([8192, 12288])), 128))


def few_rows(rng: np.random.Generator) -> Choice:
    """910B, 33 to 64 queries for each of many heads: every row of a larger tile is padding."""
    heads = int(rng.choice([16, 24, 32]))
    shape = Shape(
        int(rng.integers(4, 9)), heads, heads // 8, int(rng.integers(33, 65)), 8192, int(rng.choice([64, 128]))
    )
    return Choice(_soc(rng, THROUGH_GM), shape)
