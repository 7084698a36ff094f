"""What a core of an Ascend is made of: buffers, wires, start-up costs and the seven numbers that had to be fitted.

"table" is a vendor's figure (CANN's platform files; the instruction performance appendix and the README measurements
of asc-devkit; the cycle tables of pto-isa), "fitted" was chosen so that measured kernels come out right and rounded by
hand (``kernels.perf.calibrate`` shows how well). Bytes, bytes per cycle and core, cycles, unless the name says
otherwise; a wire of 0 bytes per cycle is one that the chip does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

KIB = 1024


@dataclass(frozen=True)
class Architecture:
    """One cube core with its two vector cores, which run in lockstep on half the rows each."""

    name: str
    l1: int  # table
    l0a: int  # table, left operands of Mmad
    l0b: int  # table, right operands
    l0c: int  # table, accumulators
    ub: int  # table, of one vector core: 253,952 of the 950's 256 KiB can be used
    l1_to_l0a: float  # table
    l1_to_l0b: float  # table; the platform file of 2201 says 256, the counters of real kernels fit 128
    l0c_to_ub: float  # table, to both vector cores together; 2201 has no such wire
    ub_to_l1: float  # table, of one vector core; 2201 has no such wire
    ub_to_gm: float  # table, of one vector core
    l0c_to_gm: float  # fitted; vendors say 41 (pto-isa, 2201) and 128 (nominal, 3510)
    gm_latency: float  # fitted: from the end of a transfer through global memory until its data can be used
    flag: float  # fitted: a flag from the cube core to the vector core or back
    softmax: Mapping[str, float]  # fitted: cycles per 64 elements, one number for each quality of vector code
    rescale: float  # table: the same for O = O * alpha + PV
    launch_us: float  # fitted: launch and tiling, before the first core works
    lone_core_boost: float = 1.0  # fitted on 2201: how much faster a core reaches memory when it is alone on the chip
    mask_select: float = 2.0  # table: cycles per 64 elements, on top of softmax in tiles the mask cuts
    macs: float = 4096.0  # table: multiply-adds per cycle, 16x16x16 of 16-bit numbers
    start_mte1: float = 30.0  # table: start of one instruction, likewise below
    start_mmad: float = 20.0
    start_fixpipe: float = 26.0
    start_mte3: float = 30.0
    start_dma: float = 80.0  # a transfer from or to global memory, from the vendor's copy of 8 KiB pieces
    start_vector: float = 35.0  # one vector function; on 2201 about ten instructions of 27 each

    def scaled(self, factors: Mapping[str, float]) -> Architecture:
        """The same core with fitted constants multiplied, such as {"gm_latency": 1.2, "softmax.fused": 0.8}.

        "softmax" alone moves every quality of vector code. KeyError for a name that is not in ``fitted``.
        """
        changes: dict[str, object] = {}
        softmax = dict(self.softmax)
        for name, factor in factors.items():
            if name not in (*self.fitted, "softmax"):
                raise KeyError(f"{name!r} is no fitted constant of {self.name}; these are: {', '.join(self.fitted)}")
            if name.startswith("softmax"):
                for code in self.softmax:
                    if name in ("softmax", f"softmax.{code}"):
                        softmax[code] *= factor
            else:
                changes[name] = getattr(self, name) * factor
        return replace(self, **changes, softmax=MappingProxyType(softmax))  # type: ignore[arg-type]

    @property
    def fitted(self) -> tuple[str, ...]:
        """The names of the constants that were fitted, seven for each architecture."""
        own = ("lone_core_boost",) if self.lone_core_boost != 1.0 else ()
        return ("gm_latency", "flag", "l0c_to_gm", "launch_us", *(f"softmax.{code}" for code in self.softmax), *own)


# Atlas A2 and A3: scores, weights and partial outputs travel through global memory, since no wire joins the two cores.
ARCH_2201 = Architecture(
    name="2201", l1=512 * KIB, l0a=64 * KIB, l0b=64 * KIB, l0c=128 * KIB, ub=192 * KIB,
    l1_to_l0a=256.0, l1_to_l0b=128.0, l0c_to_ub=0.0, ub_to_l1=0.0, ub_to_gm=43.0, l0c_to_gm=45.0,
    gm_latency=320.0, flag=110.0, softmax=MappingProxyType({"cann": 9.8, "pto": 8.0}), rescale=4.2,
    launch_us=8.0, lone_core_boost=1.3, start_mte1=28.0, start_fixpipe=20.0, start_vector=270.0,
)  # fmt: skip

# Ascend 950: L0C -> UB of both vector cores, UB -> L1.
ARCH_3510 = Architecture(
    name="3510", l1=512 * KIB, l0a=64 * KIB, l0b=64 * KIB, l0c=256 * KIB, ub=253952,
    l1_to_l0a=256.0, l1_to_l0b=256.0, l0c_to_ub=256.0, ub_to_l1=128.0, ub_to_gm=40.0, l0c_to_gm=26.0,
    gm_latency=400.0, flag=125.0, softmax=MappingProxyType({"unfused": 9.0, "fused": 5.65, "lanes": 6.95}), rescale=2.2,
    launch_us=14.0,
)  # fmt: skip

ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType({"2201": ARCH_2201, "3510": ARCH_3510})
