"""How far a prediction may be off, and what was never measured.

The bands are how far measurements of ``fa_calibration.csv`` lie from what is predicted (docs/en/perf-model.md): they
say how well the model gives kernels whose schedules are known. For a case that no measurement is near nothing justifies
a band: there it is a guess, as wide as that of the worst group, and ``Band.measured`` is false.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels.perf.l2 import HitRates
from kernels.perf.schedule import Schedule
from kernels.perf.shape import Shape
from kernels.perf.socs import Soc

CAVEATS = {  # id -> what it means; the command line says it in two languages
    "head-dim": "no measurement by a device's clock with a head_dim other than 128",
    "block-q-small": "no measurement with block_q below 64",
    "block-q": "no measurement by a device's clock with a block_q other than 128",
    "lanes": "block_q / 2 rows do not fill the 64 lanes of a vector register, which the model does not count",
    "l2-miss": "K and V or the workspace do not stay in L2: no measurement of that",
    "short": "launch is a fifth of the time or more, and nearly all such runs were timed from the host",
    "few-rows": "fewer blocks of rows than cores, and nearly all such runs were timed from the host",
}
GUESSED = {"head-dim", "block-q-small", "l2-miss"}


@dataclass(frozen=True)
class Band:
    """The measured time lies between (1 - below) and (1 + above) times the predicted one, ``measured`` or guessed."""

    below: float
    above: float
    measured: bool


BANDS = {  # architecture -> of the rows timed by the device's clock; on 2201 all but one, which took 29 % longer
    "3510": Band(0.05, 0.07, True),
    "2201": Band(0.07, 0.09, True),
}
FROM_HOST = Band(0.25, 0.35, True)  # of the rows that were timed from the host
GUESS = Band(0.25, 0.35, False)


def caveats_of(soc: Soc, shape: Shape, s: Schedule, hits: HitRates, launch_share: float) -> tuple[str, ...]:
    """Ids of CAVEATS that hold for a case."""
    blocks = -(-shape.seq_q // s.block_q) * shape.batch * shape.num_heads
    holds = {
        "head-dim": shape.head_dim != 128,
        "block-q-small": s.block_q < 64,
        "block-q": s.block_q >= 64 and s.block_q != 128,
        "lanes": s.block_q // 2 % 64 != 0 and s.vector_code in ("lanes", "fused"),
        "l2-miss": hits.kv < 0.9 or hits.exchange < 1.0,
        "short": launch_share >= 0.2,
        "few-rows": blocks < soc.cores,
    }
    return tuple(name for name in CAVEATS if holds[name])


def band_of(soc: Soc, caveats: tuple[str, ...]) -> Band:
    """The band of a case with these caveats."""
    if GUESSED & set(caveats) or ("block-q" in caveats and soc.arch == "3510"):
        return GUESS
    return FROM_HOST if {"block-q", "short", "few-rows"} & set(caveats) else BANDS[soc.arch]
