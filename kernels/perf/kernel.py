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

PERIOD = 12  # tiles after which a run repeats itself: periods of 1, 2, 3, 4 and 6 were seen
SETTLED = 0.002  # of a pace; two pipes that are nearly equally busy approach it very slowly
LONGEST_RUN = 96


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
    l2_hit_rate: float  # of the reads of K and V


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
    bw = bandwidths(soc, arch, hits, active)
    core = core_time(arch, bw, shape, schedule, tiles / tasks, ceil(tasks / active))

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
        l2_hit_rate=hits.kv,
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


def core_time(arch: Architecture, bw: Bandwidths, shape: Shape, schedule: Schedule, row: float, count: int) -> CoreTime:
    """A core with ``count`` row blocks of ``row`` tiles: the pipeline repeats itself, so short runs give a long one.

    The pace of V2, which is last, is the time of a tile, taken late in a long row block. What row blocks of the usual
    length take beyond that is the time of a task, and what is left at the end of a few of them is the fill.
    """
    group = max(1, schedule.group)
    period = ceil(PERIOD / group) * group
    cut = ceil(schedule.block_q / schedule.block_kv) if shape.causal else 0  # tiles that the mask makes slower
    rest = ceil((cut + schedule.preload + 1) / group) * group  # those, and the last, when C1 has ended

    def run(*tasks: int) -> Core:
        return Core(arch, bw, shape, schedule, tasks).run()

    def pace(core: Core, tile: int) -> float:
        return (core.ready["V2", tile] - core.ready["V2", tile - period]) / period

    n, settled, per_tile = period, False, 0.0
    while not settled and n < LONGEST_RUN:
        n *= 2
        length = min(n + rest, max(1, round(row)))
        blocks = ceil(period / length)  # to measure over, after as many to begin with
        tasks = [length] * (2 * blocks) + [rest]
        several = run(*tasks)
        one = several if length == n + rest else run(n + rest)
        per_tile = pace(one, n - 1)
        settled = abs(pace(one, n - 1 - period // 2) / per_tile - 1) <= SETTLED
    first, last = (several.ready["V2", count * blocks * length - 1] for count in (1, 2))
    per_task = max(0.0, (last - first) / blocks - length * per_tile)
    if count < len(tasks):  # so few that the beginning and the end of them matter
        tasks = [length] * count
        several = run(*tasks)
    fill = max(0.0, several.end - sum(tasks) * per_tile - len(tasks) * per_task)
    short, long = run(cut + 1), run(cut + 2)  # a tile that no mask cuts
    return CoreTime(per_tile, per_task, fill, {pipe: long.busy[pipe] - short.busy[pipe] for pipe in PIPES})


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
