"""What a schedule puts where, against what there is: refused with the sum, never cut down in silence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernels.perf.schedule import Schedule
from kernels.perf.shape import Shape
from kernels.perf.socs import Soc


@dataclass(frozen=True)
class Buffer:
    """One memory of a core, bytes; ``parts`` are who uses how much of it."""

    used: int
    capacity: int
    parts: Mapping[str, int]

    @property
    def overflows(self) -> bool:
        return self.used > self.capacity


@dataclass(frozen=True)
class Overflow:
    level: str
    used: int
    capacity: int
    parts: Mapping[str, int]

    def __str__(self) -> str:
        terms = " + ".join(f"{name} {size:,}" for name, size in self.parts.items() if size)
        return (
            f"{self.level} overflows: {terms} = {self.used:,} bytes of {self.capacity:,}, "
            f"{self.used / self.capacity:.2f} times what there is"
        )


@dataclass(frozen=True)
class NoPath:
    """``field`` asks for a wire from ``source`` to ``target`` that the architecture ``arch`` does not have."""

    field: str
    source: str
    target: str
    arch: str

    def __str__(self) -> str:
        return f'{self.field} is "chip", but {self.arch} has no wire from {self.source} to {self.target}: use "gm"'


@dataclass(frozen=True)
class NoVectorCode:
    """No kernel with this vector code was measured on the architecture ``arch``, so nobody knows its speed."""

    code: str
    arch: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        return f'vector_code "{self.code}" was never measured on {self.arch}: use {" or ".join(self.known)}'


@dataclass(frozen=True)
class Deadlock:
    """Each of ``stages``, such as ("C1", 2, "a place for V"), waits for what only the others could give."""

    stages: tuple[tuple[str, int, str], ...]

    def __str__(self) -> str:
        waits = "; ".join(f"{stage}({tile}) waits for {what}" for stage, tile, what in self.stages)
        return f"deadlock: {waits}, and nothing else can run"


Reason = Overflow | NoPath | NoVectorCode | Deadlock


class Refused(ValueError):
    """A schedule that the chip could not run; ``reasons`` are all of them."""

    def __init__(self, reasons: list[Reason]) -> None:
        self.reasons = reasons
        super().__init__("; ".join(map(str, reasons)))


def buffer_plan(soc: Soc, shape: Shape, schedule: Schedule) -> dict[str, Buffer]:
    """L1, L0A, L0B, L0C of the cube core and UB of one vector core. Overflow is shown, not raised."""
    core = soc.architecture
    parts = {"L1": _l1(shape, schedule), **_l0(shape, schedule), "UB": _ub(shape, schedule)}
    capacity = {"L1": core.l1, "L0A": core.l0a, "L0B": core.l0b, "L0C": core.l0c, "UB": core.ub}
    return {level: Buffer(sum(parts[level].values()), capacity[level], parts[level]) for level in parts}


def refusals(soc: Soc, shape: Shape, schedule: Schedule) -> list[Reason]:
    """Why the schedule cannot be built: overflow, a missing wire, unknown vector code. Deadlock shows when it runs."""
    core = soc.architecture
    wires = (
        ("s_path", "L0C", "UB", core.l0c_to_ub),
        ("p_path", "UB", "L1", core.ub_to_l1),
        ("o_path", "L0C", "UB", core.l0c_to_ub),
    )
    reasons: list[Reason] = [
        NoPath(field, source, target, core.name)
        for field, source, target, wire in wires
        if not wire and getattr(schedule, field) == "chip"
    ]
    if schedule.vector_code not in core.softmax:
        reasons.append(NoVectorCode(schedule.vector_code, core.name, tuple(core.softmax)))
    for level, buffer in buffer_plan(soc, shape, schedule).items():
        if buffer.overflows:
            reasons.append(Overflow(level, buffer.used, buffer.capacity, buffer.parts))
    return reasons


def _l1(shape: Shape, s: Schedule) -> dict[str, int]:
    e, base_n = shape.element_bytes, min(s.base_n, s.block_kv)
    return {
        "Q": e * s.q_slots * s.block_q * shape.head_dim,
        "K": e * s.k_slots * base_n * shape.head_dim,
        "V": e * s.v_slots * base_n * shape.head_dim,
        # a vector core writes whole tiles into L1; what comes from global memory is fetched as Mmad needs it
        "P": e * s.p_slots * s.block_q * (s.block_kv if s.p_path == "chip" else base_n),
    }


def _l0(shape: Shape, s: Schedule) -> dict[str, dict[str, int]]:
    e, base_n, base_k = shape.element_bytes, min(s.base_n, s.block_kv), min(s.base_k, shape.head_dim)
    return {
        "L0A": {"Q or P": e * s.l0_slots * s.block_q * base_k},
        "L0B": {"K or V": e * s.l0_slots * base_k * base_n},
        "L0C": {"S or O": 4 * s.l0c_slots * s.block_q * base_n},
    }


def _ub(shape: Shape, s: Schedule) -> dict[str, int]:
    """Of one vector core, which has half the rows. Row maxima, sums and factors: 108 bytes a row, upstream counts."""
    e, rows, d = shape.element_bytes, (s.block_q + 1) // 2, shape.head_dim
    parts: dict[str, int] = {}
    if s.shared_so:
        parts["S and O shared"] = 4 * rows * max(s.block_kv, d) * max(s.s_slots, s.o_slots)
    else:
        if s.s_path == "chip":
            parts["S"] = 4 * rows * s.block_kv * s.s_slots
        if s.o_path == "chip":
            parts["O"] = 4 * rows * d * s.o_slots
    if s.s_path == "chip":
        parts["P"] = e * rows * s.block_kv * s.ub_p_slots
        parts["mask"] = 2 * rows * s.block_kv if shape.causal else 0
    else:
        parts["S chunks"] = 4 * s.vector_chunk * s.ub_input_slots
        parts["P chunks"] = e * s.vector_chunk * s.ub_p_slots
        parts["scratch"] = 4 * s.vector_chunk
        parts["mask"] = s.vector_chunk if shape.causal else 0
    return {**parts, "O accumulator": 4 * rows * d, "row statistics": 108 * rows, "scalars": 512}


def workspace(shape: Shape, s: Schedule, cores: int) -> int:
    """Bytes of global memory through which scores, weights and partial outputs travel, of all cores together."""
    tile = (
        s.block_kv * s.s_bytes * (s.s_path == "gm")
        + s.block_kv * shape.element_bytes * (s.p_path == "gm")
        + shape.head_dim * s.o_bytes * (s.o_path == "gm")
    )
    return cores * (s.preload + max(1, s.group) + 1) * s.block_q * tile
