"""From one core to the kernel: row blocks are dealt out to the cores, the slowest core ends it."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from kernels.perf.accuracy import Band, band_of, caveats_of
from kernels.perf.architecture import Architecture
from kernels.perf.buffers import Buffer, Refused, buffer_plan, refusals
from kernels.perf.l2 import Bandwidths, HitRates, bandwidths, hit_rates
from kernels.perf.pipeline import PIPES, Core, Event
from kernels.perf.schedule import Schedule
from kernels.perf.shape import Shape
from kernels.perf.socs import Soc


@dataclass(frozen=True)
class Prediction:
    """One forward pass. ``busy`` and ``bound`` are of the mean core, as the counters of a profile give them."""

    soc: Soc
    shape: Shape
    schedule: Schedule
    microseconds: float
    low: float  # the error band, see kernels.perf.accuracy
    high: float
    band: Band
    caveats: tuple[str, ...]
    bound: str  # the pipe that works longest for a tile
    busy: Mapping[str, float]  # pipe -> share of the time that a core works
    cycles: Mapping[str, float]  # pipe -> cycles of work for a tile
    buffers: Mapping[str, Buffer]
    tflops: float
    mfu: float
    core_microseconds: float  # of the mean core, without launch
    active_cores: int
    tiles: float  # of the whole kernel; a causal row may end in part of a tile
    cycles_per_tile: float
    cycles_per_task: float  # on top, for each block of rows
    fill_cycles: float  # on top, once: the pipeline fills and drains
    l2_hit_rate: float  # of the reads of K and V
    exchange_hit_rate: float  # of scores, weights and partial outputs that go through global memory


@dataclass(frozen=True)
class CoreTime:
    """A long run of one core, cycles: fill + tiles * per_tile + tasks * per_task."""

    per_tile: float
    per_task: float
    fill: float
    busy: Mapping[str, float]  # of a tile


def predict(
    soc: Soc,
    shape: Shape,
    schedule: Schedule,
    *,
    architecture: Architecture | None = None,
    hit_rate: float | None = None,
) -> Prediction:
    """Time of one forward pass; Refused for a schedule that overflows a buffer, lacks a wire or deadlocks.

    ``architecture`` replaces the chip's constants (see Architecture.scaled), ``hit_rate`` what K and V find in L2.
    """
    reasons = refusals(soc, shape, schedule)
    if reasons:
        raise Refused(reasons)
    arch = architecture or soc.architecture
    hits = hit_rates(soc, shape, schedule)
    if hit_rate is not None:
        hits = HitRates(hit_rate, hits.exchange)
    row_blocks, heads = row_tiles(shape, schedule), shape.batch * shape.num_heads
    tiles, tasks = sum(row_blocks) * heads, len(row_blocks) * heads
    active = min(soc.cores, tasks if schedule.split == "rows" else ceil(tiles))
    core = core_time(arch, bandwidths(soc, arch, hits, active), shape, schedule)

    if schedule.split == "even":
        slowest = mean = tiles / active * core.per_tile + ceil(tasks / active) * core.per_task
    else:
        slowest = longest_load(row_blocks, heads, active, core.per_tile, core.per_task)
        mean = (tiles * core.per_tile + tasks * core.per_task) / active
    mean += core.fill
    microseconds = arch.launch_us + (core.fill + slowest) / soc.mhz
    tflops = shape.flops / microseconds / 1e6
    caveats = caveats_of(soc, shape, schedule, hits, arch.launch_us / microseconds)
    band = band_of(soc, caveats)
    return Prediction(
        soc=soc,
        shape=shape,
        schedule=schedule,
        microseconds=microseconds,
        low=microseconds * (1 - band.below),
        high=microseconds * (1 + band.above),
        band=band,
        caveats=caveats,
        bound=max(core.busy, key=lambda pipe: core.busy[pipe]),
        busy={pipe: min(1.0, core.busy[pipe] * tiles / active / mean) for pipe in PIPES},
        cycles=core.busy,
        buffers=buffer_plan(soc, shape, schedule),
        tflops=tflops,
        mfu=tflops / soc.peak_tflops,
        core_microseconds=mean / soc.mhz,
        active_cores=active,
        tiles=tiles,
        cycles_per_tile=core.per_tile,
        cycles_per_task=core.per_task,
        fill_cycles=core.fill,
        l2_hit_rate=hits.kv,
        exchange_hit_rate=hits.exchange,
    )


def row_tiles(shape: Shape, schedule: Schedule) -> list[float]:
    """Tiles of every row block of one head, first row first."""
    grain = schedule.tail_columns or schedule.block_kv
    blocks = []
    for block in range(ceil(shape.seq_q / schedule.block_q)):
        columns = shape.seq_kv
        if shape.causal:
            last_row = min(shape.seq_q, (block + 1) * schedule.block_q)
            columns = min(columns, last_row + shape.seq_kv - shape.seq_q)
        blocks.append(max(1.0, ceil(columns / grain) * grain / schedule.block_kv))
    return blocks


def core_time(arch: Architecture, bw: Bandwidths, shape: Shape, schedule: Schedule) -> CoreTime:
    """The pipeline repeats itself after a few tiles, so three short runs give the time of a long one.

    n tiles, 2n tiles, 2n tiles twice: the second run and the first differ by n tiles, the third and second by a task.
    """
    group = max(1, schedule.group)
    n = ceil(4 * max(1, schedule.preload) / group) * group
    once, twice, again = (Core(arch, bw, shape, schedule, tasks).run() for tasks in ([n], [2 * n], [2 * n, 2 * n]))
    per_tile = (twice.end - once.end) / n
    per_task = max(0.0, again.end - twice.end - 2 * n * per_tile)
    fill = max(0.0, twice.end - 2 * n * per_tile - per_task)
    return CoreTime(per_tile, per_task, fill, {p: (twice.busy[p] - once.busy[p]) / n for p in PIPES})


def longest_load(row_blocks: list[float], heads: int, cores: int, per_tile: float, per_task: float) -> float:
    """Cycles of the core that gets most. The longest row blocks go first, each to the core that has least so far.

    As many heads as there are cores are one head for each, so only what is left over has to be dealt out.
    """
    whole, left = divmod(heads, cores)
    loads = [whole * (sum(row_blocks) * per_tile + len(row_blocks) * per_task)] * cores
    for tiles in sorted(row_blocks, reverse=True):
        for _ in range(left):
            heapq.heapreplace(loads, loads[0] + tiles * per_tile + per_task)
    return max(loads)


def timeline(soc: Soc, shape: Shape, schedule: Schedule, tiles: int = 8) -> list[Event]:
    """What one core of a full chip does in its first tiles, in the order of starts. Refused as in ``predict``."""
    reasons = refusals(soc, shape, schedule)
    if reasons:
        raise Refused(reasons)
    arch = soc.architecture
    bw = bandwidths(soc, arch, hit_rates(soc, shape, schedule), soc.cores)
    core = Core(arch, bw, shape, schedule, [tiles])
    core.log = []
    core.run()
    return sorted(core.log, key=lambda event: (event.start, PIPES.index(event.pipe)))
