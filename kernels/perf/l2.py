"""How much of what the cores read is in L2, and what that makes of their bandwidth."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from kernels.perf.architecture import Architecture
from kernels.perf.buffers import workspace
from kernels.perf.schedule import Schedule
from kernels.perf.shape import Shape
from kernels.perf.socs import Soc

USABLE = 0.8  # of L2: the rest is lost to other data and to lines that share a set


def mixed(hit: float, fast: float, slow: float) -> float:
    """Bandwidth when a share ``hit`` comes from L2: the times add up, so this is the harmonic mean.

    The vendor's re-read benchmark (asc-devkit data_copy) agrees within 5 % on the way to L1. Upstream's document takes
    the linear mean, see ``kernels.perf.analytic``.
    """
    return 1.0 / (hit / fast + (1.0 - hit) / slow)


@dataclass(frozen=True)
class HitRates:
    kv: float  # of the reads of K and V
    exchange: float  # of what goes through global memory between the two cores of one core


def hit_rates(soc: Soc, shape: Shape, schedule: Schedule) -> HitRates:
    """From sizes alone: which of K, V and the workspace fit, and how many cores walk the same K and V in step."""
    rows = ceil(shape.seq_q / schedule.block_q) * (shape.num_heads // shape.num_kv_heads)  # blocks on one kv head
    head = 2 * shape.seq_kv * shape.head_dim * shape.element_bytes
    room = USABLE * soc.l2_bytes
    exchanged = workspace(shape, schedule, soc.cores)
    exchange = min(1.0, room / exchanged) if exchanged else 1.0
    room = max(0.0, room - exchanged)
    if shape.batch * shape.num_kv_heads * head <= room:
        kv = 1.0  # everything stays
    elif ceil(soc.cores / rows) * head <= room:
        kv = 1 - 1 / rows  # the heads at work stay: the first block of each misses
    else:
        kv = 1 - 1 / min(soc.cores, rows)  # only what several cores read at the same time
    return HitRates(kv, exchange)


@dataclass(frozen=True)
class Bandwidths:
    """Bytes per cycle of one core on its ways through global memory."""

    kv: float  # GM -> L1: Q, K, V
    p: float  # GM -> L1: weights written by the vector cores
    s: float  # GM -> UB: scores and partial outputs, of one of the two vector cores, which share a port
    fixpipe: float  # L0C -> GM
    mte3: float  # UB -> GM, of one vector core


def bandwidths(soc: Soc, core: Architecture, hits: HitRates, active: int) -> Bandwidths:
    """When ``active`` of the cores work; fewer cores have more of the memory each."""
    l2, hbm = soc.l2_bytes_per_cycle, min(soc.l2_bytes_per_cycle, soc.hbm_bytes_per_cycle * soc.cores / active)
    boost = 1 + (core.lone_core_boost - 1) * (soc.cores - active) / max(1, soc.cores - 1)
    return Bandwidths(
        kv=mixed(hits.kv, l2, hbm) * boost,
        p=mixed(hits.exchange, l2, hbm) * boost,
        s=mixed(hits.exchange, l2 / 2, hbm / 2) * boost,
        fixpipe=mixed(hits.exchange, core.l0c_to_gm, hbm) * boost,
        mte3=mixed(hits.exchange, core.ub_to_gm, hbm / 2) * boost,
    )
