"""Random schedules that a chip can run, for the properties."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from itertools import islice
from random import Random

from kernels.perf import Refused, Schedule, Shape, Soc, find_soc, refusals
from kernels.perf.kernel import core_time
from kernels.perf.l2 import Bandwidths, bandwidths, hit_rates
from kernels.perf.pipeline import Core

SLOTS = [field.name for field in fields(Schedule) if field.name.endswith("_slots")]


def draw(random: Random) -> tuple[Soc, Shape, Schedule]:
    """Any schedule; most of them do not fit or deadlock."""
    chip = random.random() < 0.5
    soc = find_soc("950PR" if chip else "910B3")
    group = random.choice((0, 0, 0, 2, 4))
    paths = {path: random.choice(("chip", "gm")) if chip else "gm" for path in ("s_path", "p_path", "o_path")}
    schedule = Schedule(
        block_q=random.choice((32, 64, 96, 128)),
        block_kv=random.choice((64, 128, 192, 256, 512)),
        preload=0 if group else random.randrange(4),
        group=group,
        **{slots: random.randint(1, 4) for slots in SLOTS},
        **paths,
        shared_so=random.random() < 0.1,
        v_load=random.choice(("c1", "c2", "p")),
        barrier=random.random() < 0.15,
        vector_code=random.choice(list(soc.architecture.softmax)),
        vector_chunk=random.choice((2048, 8192)),
        base_n=random.choice((64, 128)),
    )
    heads, dims = random.choice((4, 16)), random.choice((64, 128, 256))
    shape = Shape(1, heads, 4, 2048, random.choice((1024, 4096)), dims, mask_mode=random.choice((0, 3)))
    return soc, shape, schedule


def legal(seed: int, count: int) -> list[tuple[Soc, Shape, Schedule]]:
    """``count`` that fit and do not deadlock, always the same for a seed."""

    def endless() -> Iterator[tuple[Soc, Shape, Schedule]]:
        random = Random(seed)
        while True:
            case = draw(random)
            if not refusals(*case):
                try:
                    full_run(*case, [12])
                except Refused:
                    continue
                yield case

    return list(islice(endless(), count))


def rates(soc: Soc, shape: Shape, schedule: Schedule) -> Bandwidths:
    return bandwidths(soc, soc.architecture, hit_rates(soc, shape, schedule), soc.cores)


def full_run(soc: Soc, shape: Shape, schedule: Schedule, tasks: list[int]) -> float:
    """Cycles of one core with these row blocks, every instruction simulated."""
    return Core(soc.architecture, rates(soc, shape, schedule), shape, schedule, tasks).run().end


def short_cut(soc: Soc, shape: Shape, schedule: Schedule, tasks: list[int]) -> float:
    """The same as a prediction takes it, from a short run."""
    row = sum(tasks) / len(tasks)
    core = core_time(soc.architecture, rates(soc, shape, schedule), shape, schedule, row, len(tasks))
    return core.fill + sum(tasks) * core.per_tile + len(tasks) * core.per_task
