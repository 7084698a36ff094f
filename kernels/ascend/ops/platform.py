"""What the operators ask of the chip: its family, which decides whether they exist, and its cores."""

from __future__ import annotations

from collections.abc import Iterator

from kernels.ascend.device.soc import current_soc
from kernels.ascend.ops.arguments.faults import Fault

FAMILY = "950"


def platform_faults() -> Iterator[Fault]:
    """flash_attn and its two companions are built for Ascend 950 only (product tables of their documents)."""
    soc = current_soc()
    if soc.family != FAMILY:
        yield Fault(
            "soc",
            f"{soc.name} has no such operator, only Ascend 950PR and 950DT have it. On Atlas A2 and A3 (910B, 910_93) "
            "use torch_npu.npu_fusion_attention",
        )


def cores() -> tuple[int, int]:
    """(cube cores, vector cores): they decide how long metadata is."""
    soc = current_soc()
    return soc.cube_core_num, soc.vector_core_num
