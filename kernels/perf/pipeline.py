"""FlashAttention on one core of an Ascend, as a pipeline: the performance model itself.

A core is a cube core with four units that each do one thing after the other (MTE2 loads from global memory into L1,
MTE1 from L1 into L0A and L0B, CUBE multiplies into L0C, FIXPIPE empties L0C) and two vector cores with three (VMTE2
loads into UB, VECTOR computes, MTE3 writes). The two vector cores have half the rows each and run in lockstep, so that
one of them stands for both. A tile of scores goes through four stages:

    C1 = Q K^T on the cube core      V1 = the softmax of it on the vector cores
    C2 = P V   on the cube core      V2 = O * alpha + C2 on the vector cores

There is one rule. An instruction starts when its unit is free, its data is there and its result has a place to go:

    start = max(unit free, data ready, place free)        end = start + cycles

Nothing else is simulated. Whether softmax hides behind Mmad, what a second buffer is worth and what a round trip
through global memory costs all follow from these maxima; mathematicians call such a system linear over (max, +).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernels.perf.architecture import Architecture
from kernels.perf.buffers import Deadlock, Refused
from kernels.perf.l2 import Bandwidths
from kernels.perf.schedule import Schedule
from kernels.perf.shape import Shape

PIPES = ("MTE2", "MTE1", "CUBE", "FIXPIPE", "VMTE2", "VECTOR", "MTE3")


@dataclass(frozen=True)
class Event:
    """One instruction: ``pipe`` did ``stage`` (such as "load K") of ``tile`` from ``start`` to ``end``, in cycles."""

    pipe: str
    stage: str
    tile: int
    start: float
    end: float


class Slots:
    """The places of one buffer, taken and given back in turn."""

    def __init__(self, places: int) -> None:
        self.places, self.taken, self.freed = places, 0, list[float]()

    def has(self, wanted: int) -> bool:
        """Whether it is known already when so many more places are free."""
        return self.taken + wanted - len(self.freed) <= self.places

    def take(self) -> float:
        """When the next place may be written: its last user must be done. IndexError when that has not happened."""
        before = self.taken - self.places
        self.taken += 1
        return self.freed[before] if before >= 0 else 0.0

    def free(self, when: float) -> None:
        self.freed.append(when)


class Core:
    """One core that works off ``tasks``, the numbers of tiles of its row blocks."""

    def __init__(
        self, arch: Architecture, bandwidths: Bandwidths, shape: Shape, schedule: Schedule, tasks: Sequence[int]
    ) -> None:
        self.arch, self.bw, self.shape, self.schedule = arch, bandwidths, shape, schedule
        self.now = dict.fromkeys(PIPES, 0.0)  # when each unit is free
        self.busy = dict.fromkeys(PIPES, 0.0)  # how long it has worked
        self.log: list[Event] | None = None  # filled by run() when set to a list
        self.tiles = [(j == 0, j == n - 1, n - 1 - j) for n in tasks for j in range(n)]  # first? last? from the end
        s = schedule
        self.columns = _pieces(s.block_kv, s.base_n)  # of K and V: widths of the Mmads that make one tile
        self.depths = _pieces(shape.head_dim, s.base_k)
        self.cut = -(-s.block_q // s.block_kv) if shape.causal else 0  # last tiles of a row block, cut by the mask
        self.q, self.k, self.v, self.p = Slots(s.q_slots), Slots(s.k_slots), Slots(s.v_slots), Slots(s.p_slots)
        self.s, self.o, self.so = Slots(s.s_slots), Slots(s.o_slots), Slots(1)
        self.l0, self.l0c = Slots(s.l0_slots), Slots(s.l0c_slots)
        self.ub_in, self.ub_p, self.ub_out = Slots(s.ub_input_slots), Slots(s.ub_p_slots), Slots(2)
        self.ready: dict[tuple[str, int], float] = {}  # (stage, tile): when the other core may use its result
        self.v_ready: deque[float] = deque()  # V that C1 has loaded for C2
        self.q_ready = self.gate = self.l0_read = self.end = 0.0

    # -------------------------------------------------------------------------------------------------- the one rule

    def op(self, pipe: str, cycles: float, stage: str, tile: int, *after: float) -> float:
        """One instruction on a unit; returns when it ends."""
        start = max(self.now[pipe], *after)
        end = self.now[pipe] = start + cycles
        self.busy[pipe] += cycles
        if self.log is not None:
            self.log.append(Event(pipe, stage, tile, start, end))
        return end

    def load(self, pipe: str, size: float, rate: float, stage: str, tile: int, *after: float) -> float:
        """From global memory; the unit is free at the end of the transfer, the data can be used a latency later."""
        return self.op(pipe, size / rate + self.arch.start_dma, stage, tile, *after) + self.arch.gm_latency

    # ------------------------------------------------------------------------------------------------- the cube core

    def load_kv(self, what: str, slots: Slots, columns: int, tile: int, after: float = 0.0) -> float:
        size = columns * self.shape.head_dim * self.shape.element_bytes
        return self.load("MTE2", size, self.bw.kv, f"load {what}", tile, self.gate, slots.take(), after)

    def mmad(self, n: int, k: int, stage: str, tile: int, data: float, place: float) -> float:
        """L1 -> L0A and L0B, then block_q x n x k multiply-adds into L0C."""
        arch, m, e = self.arch, self.schedule.block_q, self.shape.element_bytes
        cycles = m * k * e / arch.l1_to_l0a + k * n * e / arch.l1_to_l0b + 2 * arch.start_mte1
        self.l0_read = self.op("MTE1", cycles, stage, tile, data, self.gate, self.l0.take())
        end = self.op("CUBE", m * n * k / arch.macs + arch.start_mmad, stage, tile, self.l0_read, place)
        self.l0.free(end)
        return end

    def fixpipe(self, n: int, path: str, size: int, stage: str, tile: int, *after: float) -> float:
        """block_q x n results out of L0C, to both vector cores or to global memory."""
        arch, elements = self.arch, self.schedule.block_q * n
        cycles = elements * 4 / arch.l0c_to_ub if path == "chip" else elements * size / self.bw.fixpipe
        end = self.op("FIXPIPE", cycles + arch.start_fixpipe, stage, tile, *after)
        self.l0c.free(end)
        return end + (arch.gm_latency if path == "gm" else 0.0)

    def c1(self, i: int) -> None:
        s, (first, last, _) = self.schedule, self.tiles[i]
        if first:
            size = s.block_q * self.shape.head_dim * self.shape.element_bytes
            self.q_ready = self.load("MTE2", size, self.bw.kv, "load Q", i, self.gate, self.q.take())
        place, end = max(self.s.take(), self.so.take() if s.shared_so else 0.0), 0.0
        for n in self.columns:
            data = max(self.load_kv("K", self.k, n, i), self.q_ready)
            if s.v_load == "c1":
                self.v_ready.append(self.load_kv("V", self.v, n, i))
            l0c = self.l0c.take()
            for k in self.depths:
                end = self.mmad(n, k, "C1", i, data, l0c)
            self.k.free(self.l0_read)
            end = self.fixpipe(n, s.s_path, s.s_bytes, "S out", i, end, place)
        if last:
            self.q.free(self.l0_read)
        self.finish("C1", i, end)

    def c2(self, i: int) -> None:
        s, e, weights = self.schedule, self.shape.element_bytes, self.ready["V1", i]
        place, operands, end = self.o.take(), list[float](), 0.0
        for turn, d in enumerate(self.depths, 1):
            l0c = self.l0c.take()
            for x, n in enumerate(self.columns):
                if turn == 1:  # the first pass over the columns loads; a second one (D > base_k) finds all of it in L1
                    p = weights
                    if s.p_path == "gm":
                        p = self.load("MTE2", s.block_q * n * e, self.bw.p, "load P", i, self.gate, p, self.p.take())
                    after = weights if s.v_load == "p" else 0.0
                    v = self.v_ready.popleft() if s.v_load == "c1" else self.load_kv("V", self.v, n, i, after)
                    operands.append(max(p, v))
                end = self.mmad(d, n, "C2", i, operands[x], l0c)
                if turn == len(self.depths):
                    self.v.free(self.l0_read)
                    if s.p_path == "gm":
                        self.p.free(self.l0_read)
            end = self.fixpipe(d, s.o_path, s.o_bytes, "O out", i, end, place)
        if s.p_path == "chip":
            self.p.free(self.l0_read)
        self.finish("C2", i, end)

    def finish(self, stage: str, i: int, end: float) -> None:
        self.ready[stage, i] = end + self.arch.flag
        if self.schedule.barrier:
            self.gate = end

    # ---------------------------------------------------------------------------------------------- the vector cores

    def vector(self, elements: float, per_64: float, stage: str, tile: int, *after: float) -> float:
        return self.op("VECTOR", elements / 64 * per_64 + self.arch.start_vector, stage, tile, *after)

    def v1(self, i: int) -> None:
        arch, s = self.arch, self.schedule
        masked = self.tiles[i][2] < self.cut
        elements = s.block_q * s.block_kv // 2
        chunks = -(-elements // s.vector_chunk) if s.s_path == "gm" else 1
        each = elements / chunks
        place = self.p.take() if s.p_path == "chip" else 0.0
        cost = arch.softmax[s.vector_code] + (arch.mask_select if masked else 0.0)
        done = out = 0.0
        for _ in range(chunks):
            data = self.ready["C1", i]
            if s.s_path == "gm":  # a mask tile, one byte an element, comes with the scores
                size = each * (s.s_bytes + masked)
                data = self.load("VMTE2", size, self.bw.s, "load S", i, data, self.ub_in.take())
            done = self.vector(each, cost, "V1", i, data, self.ub_p.take())
            if s.s_path == "gm":
                self.ub_in.free(done)
            size = each * self.shape.element_bytes
            if s.p_path == "chip":
                out = self.op("MTE3", size / arch.ub_to_l1 + arch.start_mte3, "P out", i, done, place)
            else:
                out = self.op("MTE3", size / self.bw.mte3 + arch.start_dma, "P out", i, done)
            self.ub_p.free(out)
        self.s.free(done)
        self.ready["V1", i] = out + arch.flag + (arch.gm_latency if s.p_path == "gm" else 0.0)

    def v2(self, i: int) -> None:
        arch, s = self.arch, self.schedule
        elements, data = s.block_q * self.shape.head_dim // 2, self.ready["C2", i]
        if s.o_path == "gm":
            data = self.load("VMTE2", elements * s.o_bytes, self.bw.s, "load O", i, data)
        done = self.vector(elements, arch.rescale, "V2", i, data)
        self.o.free(done)
        if s.shared_so:
            self.so.free(done + arch.flag)
        self.ready["V2", i] = done + arch.flag
        if self.tiles[i][1]:  # last of its row block: divide by the row sums and write the output
            done = self.vector(elements, arch.rescale, "normalise", i, self.ub_out.take())
            size = elements * self.shape.element_bytes
            self.ub_out.free(self.op("MTE3", size / self.bw.mte3 + arch.start_dma, "store O", i, done))

    # ------------------------------------------------------------------------------------------------------ in order

    def order(self, front: str, back: str) -> deque[tuple[str, int]]:
        """What a core does, in program order: the front stage runs ahead by ``preload`` tiles, or by groups."""
        n, ahead, group = len(self.tiles), self.schedule.preload, self.schedule.group
        if group:
            starts = range(0, n, group)
            return deque((st, i) for g in starts for st in (front, back) for i in range(g, min(n, g + group)))
        steps = range(n + ahead)
        return deque((st, i) for t in steps for st, i in ((front, t), (back, t - ahead)) if 0 <= i < n)

    def missing(self, stage: str, i: int) -> str | None:
        """What the other core must have issued before this stage can be; a circle of such waits is a deadlock."""
        s, columns = self.schedule, len(self.columns)
        before = {"C2": "V1", "V1": "C1", "V2": "C2"}.get(stage)
        if before and (before, i) not in self.ready:
            return f"{before}({i})"
        if stage == "C1":
            if not self.s.has(1):
                return f"a place for S, which V1({i - s.s_slots}) gives back"
            if s.shared_so and not self.so.has(1):
                return f"the place that S and O share, which V2({i - 1}) gives back"
            if s.v_load == "c1" and not self.v.has(columns):
                return f"a place for V, which C2({i - s.v_slots // columns}) gives back"
        elif stage == "V1" and s.p_path == "chip" and not self.p.has(1):
            return f"a place for P, which C2({i - s.p_slots}) gives back"
        elif stage == "C2":
            if not self.o.has(1):
                return f"a place for O, which V2({i - s.o_slots}) gives back"
            kept = columns if len(self.depths) > 1 else 1  # what must be in L1 at the same time
            if s.v_load != "c1" and not self.v.has(kept):
                return f"{kept} places for V, and there are {s.v_slots}"
            if s.p_path == "gm" and not self.p.has(kept):
                return f"{kept} places for P, and there are {s.p_slots}"
        return None

    def run(self) -> Core:
        """Both programs to their ends. Raises Refused with a Deadlock when neither can go on."""
        stages: dict[str, Callable[[int], None]] = {"C1": self.c1, "C2": self.c2, "V1": self.v1, "V2": self.v2}
        programs = (self.order("C1", "C2"), self.order("V1", "V2"))
        while any(programs):
            moved = False
            for program in programs:
                while program and self.missing(*program[0]) is None:
                    stage, i = program.popleft()
                    stages[stage](i)
                    moved = True
            if not moved:
                stuck = [(*program[0], self.missing(*program[0]) or "") for program in programs if program]
                raise Refused([Deadlock(tuple(stuck))])
        self.end = max(self.now.values())
        return self


def _pieces(whole: int, piece: int) -> list[int]:
    return [piece] * (whole // piece) + ([whole % piece] if whole % piece else [])
