"""The chips by name: cores, clock, memory. ``npu_soc_table.csv`` holds what CANN's platform files say of each."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as short
from types import MappingProxyType

from kernels.perf.architecture import ARCHITECTURES, Architecture

TABLE = Path(__file__).with_name("npu_soc_table.csv")
STANDS_FOR = {  # a name of several chips, in small letters without "ascend" -> the one meant, as in machine.chips
    "950": "Ascend950PR_9589",  # of the published measurements
    "950pr": "Ascend950PR_9589",
    "950dt": "Ascend950DT_9581",
    "a2": "Ascend910B1",
    "a3": "Ascend910_9391",  # one of the two dies
    "910_93": "Ascend910_9391",
}


class UnknownSoc(ValueError):
    """No chip has this ``name``; ``known`` are those the model knows, the likeliest first."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        self.name, self.known = name, known
        super().__init__(
            f"{short(name)} is no SoC the model knows. Nearest: {', '.join(known[:4])} ({len(known)} in all)."
        )


@dataclass(frozen=True)
class Soc:
    """One chip (of an A3 module: one die). Bandwidths are a core's fair share when all are active, bytes per cycle."""

    name: str
    arch: str  # "2201" (Atlas A2, A3) or "3510" (Ascend 950)
    cores: int  # cube cores; each has two vector cores
    mhz: float
    l2_bytes: float
    hbm_bytes_per_cycle: float
    l2_bytes_per_cycle: float

    @property
    def architecture(self) -> Architecture:
        return ARCHITECTURES[self.arch]

    @property
    def peak_tflops(self) -> float:
        return peak_tflops(self.cores, self.mhz, self.architecture.macs)


def peak_tflops(cores: int, mhz: float, macs: float = 4096) -> float:
    """Of 16-bit Mmad: cores x MHz x 2 x 4096, as the vendor's MFU tool counts."""
    return cores * mhz * 2 * macs / 1e6


def _read() -> Mapping[str, Soc]:
    with TABLE.open(newline="", encoding="utf-8") as file:
        return MappingProxyType(
            {
                row["soc"]: Soc(
                    name=row["soc"],
                    arch=row["arch"],
                    cores=int(row["cube_cores"]),
                    mhz=float(row["cube_mhz"]),
                    l2_bytes=float(row["l2_mib"]) * 1024 * 1024,
                    hbm_bytes_per_cycle=float(row["ddr_rate"]),
                    l2_bytes_per_cycle=float(row["l2_read_rate"]),
                )
                for row in csv.DictReader(file)
                if row["arch"] in ARCHITECTURES  # the first generation has no FlashAttention operator
            }
        )


SOCS: Mapping[str, Soc] = _read()
_SHORT = {name.lower().removeprefix("ascend"): soc for name, soc in SOCS.items()}


def find_soc(name: str) -> Soc:
    """A chip by its name in any case, with or without "Ascend"; 950PR, 950DT, A2, A3, 910_93 stand for one of theirs.

    Raises UnknownSoc. "910B" alone is refused like any other name: which of B1 to B4 makes a difference of 1.5.
    """
    wanted = name.strip().lower().removeprefix("ascend")
    found = SOCS.get(STANDS_FOR.get(wanted, "")) or _SHORT.get(wanted)
    if found is None:
        near = difflib.get_close_matches(wanted[:40], _SHORT, n=len(_SHORT), cutoff=0.0)
        raise UnknownSoc(name, tuple(_SHORT[key].name for key in near))
    return found
