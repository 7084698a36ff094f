"""One kernel of a profile, and a profile: what the writer takes is what the reader gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

AIC_PIPES = ("mac", "scalar", "mte1", "mte2", "fixpipe")  # of a cube core (AIC)
AIV_PIPES = ("vec", "scalar", "mte2", "mte3")  # of a vector core (AIV)

Shapes = tuple[tuple[int, ...] | None, ...]  # one per tensor; None: an optional tensor that is absent


@dataclass(frozen=True)
class Device:
    """The chip as far as a profile tells it. ``cores``: cube cores, of which each has two vector cores on 910B and 950.

    ``arch``: "2201" (910B, A3) or "3510" (950), which have different columns.
    """

    cores: int | None = None
    vector_cores: int | None = None
    mhz: float | None = None
    name: str | None = None
    arch: str | None = None
    hbm_bytes_per_second: float | None = None

    @classmethod
    def of(cls, soc: Any) -> Device:
        """From a ``kernels.perf.Soc``."""
        hbm = soc.hbm_bytes_per_cycle * soc.cores * soc.mhz * 1e6
        return cls(soc.cores, 2 * soc.cores, soc.mhz, soc.name, soc.arch, hbm)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One row of kernel_details.csv or op_summary_*.csv. What a file does not say is None.

    ``start_ns``: absolute time as an integer: microseconds since 1970 with three decimals do not fit into a float.
    ``block_num``: blocks on the cores of the kernel's kind ("Block Num", until CANN 8.3 "Block Dim"); of MIX_AIC these
    are cube cores, and ``mix_block_num`` counts the vector cores.
    ``ratios``/``aiv_ratios``: busy share of every pipe in ``aicore_us``/``aiv_us``, the mean time of a core at work.
    ``cube_utilization``: per cent; cube core time over cores x duration, whatever the cube did in it: occupancy.
    """

    name: str
    type: str
    core: str | None = None
    start_ns: int | None = None
    duration_us: float = 0.0
    wait_us: float | None = None
    step: int | None = None
    device_id: int | None = None
    stream: int | None = None
    task: int | None = None
    state: str | None = None
    block_num: int | None = None
    mix_block_num: int | None = None
    input_shapes: Shapes | None = None
    input_dtypes: tuple[str, ...] | None = None
    input_formats: tuple[str, ...] | None = None
    output_shapes: Shapes | None = None
    output_dtypes: tuple[str, ...] | None = None
    output_formats: tuple[str, ...] | None = None
    aicore_us: float | None = None
    aic_cycles: float | None = None
    ratios: Mapping[str, float | None] = field(default_factory=lambda: dict.fromkeys(AIC_PIPES))
    aiv_us: float | None = None
    aiv_cycles: float | None = None
    aiv_ratios: Mapping[str, float | None] = field(default_factory=lambda: dict.fromkeys(AIV_PIPES))
    cube_utilization: float | None = None
    device: Device | None = None

    @property
    def start_us(self) -> float | None:
        """Convenient and rounded to a quarter of a microsecond when the time is absolute; ``start_ns`` is exact."""
        return None if self.start_ns is None else self.start_ns / 1000

    @property
    def end_ns(self) -> int | None:
        return None if self.start_ns is None else self.start_ns + round(self.duration_us * 1000)


@dataclass(frozen=True)
class Step:
    """A row of step_trace_time.csv, microseconds. ``computing``: kernels ran; ``free``: none did."""

    step: int | None
    computing: float
    free: float
    communication: float = 0.0
    stage: float | None = None


@dataclass(frozen=True)
class Note:
    """Something in the files that was survived: the cell became None, or two files disagree.

    ``id``: "not-a-number", "out-of-range", "ratio-disagrees", "statistic-disagrees", "last-line-open",
    "step-trace-unreadable", "level-0", "other-metrics". ``count``: how often; ``where``: the first place.
    """

    id: str
    text: str
    where: str = ""
    count: int = 1


@dataclass(frozen=True)
class Profile:
    """``kind``: "pytorch" (torch_npu.profiler) or "msprof". ``level``: 0 without and 1 with columns of the pipes.

    ``emulated``: what our own writer says in profiler_metadata.json or emulated.json; None for every other file.
    ``settings``: from profiler_info.json, as far as it is there: "level", "metrics", "cann", "torch_npu".
    """

    kind: str
    path: Path
    kernels: list[Kernel]
    steps: list[Step]
    device: Device | None
    level: int
    header: str  # "block-num", "block-dim" or "none"
    notes: list[Note]
    emulated: Mapping[str, Any] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def duration_us(self) -> float:
        return sum(kernel.duration_us for kernel in self.kernels)
