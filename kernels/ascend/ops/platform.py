"""What the operators stand on: the chip, whose family decides whether they exist, and the way to the device's memory.

On the emulated device both are its own. On a real NPU without these operators they can be lent: then they believe to be
on a 950, and tensors are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from torch import Tensor

from kernels.ascend.device.alias import cpu_alias
from kernels.ascend.device.memory import on_npu
from kernels.ascend.device.soc import current_soc
from kernels.ascend.ops.arguments.faults import Fault
from kernels.machine.chips import DEFAULT, Soc, find_soc, has, no_flash_attn


class Platform(NamedTuple):
    """``to_cpu``: a tensor of the device as one of the CPU, to be read only; ``to_npu``: a fresh one of the CPU, handed
    over to the device."""

    soc: Callable[[], Soc]
    to_cpu: Callable[[Tensor], Tensor]
    to_npu: Callable[[Tensor], Tensor]


EMULATED = Platform(current_soc, cpu_alias, on_npu)
LENT = Platform(lambda: find_soc(DEFAULT), lambda tensor: tensor.to("cpu"), lambda tensor: tensor.to("npu"))

_current = EMULATED


def use(platform: Platform) -> None:
    """What all three operators stand on from now on."""
    global _current
    _current = platform


def to_cpu(tensor: Tensor) -> Tensor:
    return _current.to_cpu(tensor)


def to_npu(tensor: Tensor) -> Tensor:
    return _current.to_npu(tensor)


def platform_faults() -> Iterator[Fault]:
    """flash_attn and its two companions are built for Ascend 950 only (product tables of their documents)."""
    soc = _current.soc()
    if not has("flash_attn", soc.family):
        yield Fault("soc", no_flash_attn(soc.name))


def cores() -> tuple[int, int]:
    """(cube cores, vector cores): they decide how long metadata is."""
    soc = _current.soc()
    return soc.cube_core_num, soc.vector_core_num
