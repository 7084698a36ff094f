"""The stages of flash_attn_grad on one core: who reads what, where it is kept, and a run of two queues.

Stages, slots and orders are those of ops-transformer (attention/flash_attn_grad/op_kernel/fag_kernel.py, commit
421809ee). Two in-order units that wait for flags either finish or stand still; there is nothing to time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Step = tuple[str, int]  # (stage, task)

READS = {
    "C2": (), "C1": (), "V1": (), "V2": ("C2",), "V4": ("V2",), "V3": ("V1", "V2", "C1"), "C5": ("V4",), "C3": ("V3",),
    "C4": ("V3",), "V5": ("C3",), "V6": ("C4",),
}  # fmt: skip
# stage -> the slot that it fills (name, how many there are), and who has to be done with the task before in that slot
SLOTS = {"C2": ("S", 2), "C1": ("dP", 2), "V1": ("sfmg", 1), "V4": ("P", 1), "V3": ("dS", 1)}
USERS = {
    "BN2GS1S2": {"S": ("V2", "V3", "V4"), "dP": ("V3",), "sfmg": ("V3",), "P": ("C5",), "dS": ("C3", "C4")},
    "BN2": {"S": ("V2", "V3", "V4", "V6"), "dP": ("V3", "V5"), "sfmg": ("V3",), "P": ("C5",), "dS": ("C3", "C4")},
}
LEAD = {"BN2GS1S2": 2, "BN2": 1}
EARLY, LATE = ("C2", "C1"), ("C5", "C3", "C4")


def stages(template: str) -> dict[str, tuple[str, ...]]:
    vector = ("V1", "V2", "V3", "V4", "V5", "V6") if template == "BN2" else ("V1", "V2", "V3", "V4")
    return {"cube": (*EARLY, *LATE), "vector": vector}


@dataclass(frozen=True)
class Stuck:
    """Neither unit can go on: ``step`` waits for ``other``, because it reads it or because it would overwrite
    ``slot`` before ``other`` is done with it."""

    step: Step
    other: Step
    slot: str | None = None


def needs(template: str, step: Step) -> list[tuple[Step, str | None]]:
    """The steps that have to be over before ``step`` can start, with the slot where it is about a slot."""
    stage, task = step
    found: list[tuple[Step, str | None]] = [((read, task), None) for read in READS[stage]]
    if stage in SLOTS:
        slot, count = SLOTS[stage]
        if task >= count:
            found += [((user, task - count), slot) for user in USERS[template][slot]]
    if template == "BN2" and stage in ("C3", "C4"):  # they write into a slot that the vector has read
        users = ("V3",) if stage == "C3" else ("V2", "V3", "V4")
        found += [((user, task), "dP" if stage == "C3" else "S") for user in users]
    return found


def run(template: str, cube: Sequence[Step], vector: Sequence[Step]) -> list[Stuck]:
    """What every unit waits for when both stand still; empty when both come to their end."""
    done: set[Step] = set()
    at = [0, 0]
    queues = (cube, vector)
    moved = True
    while moved:
        moved = False
        for unit, queue in enumerate(queues):
            while at[unit] < len(queue) and all(other in done for other, _ in needs(template, queue[at[unit]])):
                done.add(queue[at[unit]])
                at[unit] += 1
                moved = True
    stuck = []
    for unit, queue in enumerate(queues):
        if at[unit] < len(queue):
            step = queue[at[unit]]
            other, slot = next(need for need in needs(template, step) if need[0] not in done)
            stuck.append(Stuck(step, other, slot))
    return stuck


def leads(cube: Sequence[Step], tasks: int) -> list[int]:
    """For each task, how many later ones have their products issued when the Cube comes back for it."""
    place = {step: i for i, step in enumerate(cube)}
    back = [min(place[stage, task] for stage in LATE) for task in range(tasks)]
    ready = [max(place[stage, task] for stage in EARLY) for task in range(tasks)]
    return [sum(ready[later] < back[task] for later in range(task + 1, tasks)) for task in range(tasks)]
