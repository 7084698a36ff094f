"""Which NPU a process gets."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable

import torch

from kernels.ascend import device, facade, packages
from kernels.ascend.device import soc as socs
from kernels.ascend.ops import platform
from kernels.machine import NpuError, Situation, broken_operators, emulated, is_there, kind_of, unimportable


def install(soc: str | None = None) -> None:
    """Give this process its NPU: the real one if torch_npu is installed, else the emulated one. Doing it twice is fine.

    FLASHDOJO_NPU=emulated asks for the emulated one whatever is installed. soc names the chip to emulate; else
    FLASHDOJO_SOC does, else it is a 950. Raises ValueError for an unknown one or an unknown FLASHDOJO_NPU, RuntimeError
    if torch_npu is installed but cannot be imported, or has taken torch's place for such a device already.
    """
    forced = _emulation_is_asked_for()
    if not device.is_installed():
        if not forced and is_there("torch_npu"):
            _use_real()
            return
        _require_free_place()
    if soc or not device.is_installed():
        socs.use_soc(soc or os.environ.get("FLASHDOJO_SOC") or socs.DEFAULT)
    if not device.is_installed():
        device.install()
        packages.install()


def is_emulated() -> bool:
    """Whether this process has the emulated device."""
    return emulated()


def _emulation_is_asked_for() -> bool:
    wanted = os.environ.get("FLASHDOJO_NPU", "")
    if wanted not in ("", "emulated"):
        raise ValueError(f'FLASHDOJO_NPU is {wanted!r}: set it to "emulated" for the emulated NPU, or unset it.')
    return bool(wanted)


def _require_free_place() -> None:
    """torch has room for one device that it does not know itself, and the name of it cannot change again."""
    taken = torch._C._get_privateuse1_backend_name()
    if taken == "privateuseone":
        return
    if "torch_npu" in sys.modules:
        raise RuntimeError(
            f"This process has the device {taken!r} of the installed torch_npu already, which torch imports by itself: "
            "the emulated NPU needs its place. Start Python with TORCH_DEVICE_BACKEND_AUTOLOAD=0 and import "
            "kernels.ascend before torch_npu; or unset FLASHDOJO_NPU to use the real NPU."
        )
    raise RuntimeError(
        f"The device {taken!r} already has the place in torch that the emulated NPU needs. "
        "Start a new process without it."
    )


def _use_real() -> None:
    _import("torch_npu", unimportable)
    sys.modules.setdefault("ops_transformer", facade)  # the course's own module, for a real NPU as well
    if is_there("cann_ops_transformer"):
        _import("cann_ops_transformer", broken_operators)
        return
    chip = _chip()
    if chip is not None and kind_of(chip) != "950":
        _lend_operators(chip)


def _import(package: str, situation: Callable[[Exception], Situation]) -> None:
    try:
        importlib.import_module(package)
    except Exception as error:  # whatever a half-installed package raises
        raise NpuError(situation(error)) from error


def _chip() -> str | None:
    try:
        return str(sys.modules["torch_npu"].npu.get_device_name(0))
    except Exception:  # no device: kernels.machine.detect says what is in the way
        return None


def _lend_operators(chip: str) -> None:
    """The 950's operators for another chip, so that what is written for a 950 runs there too: on the CPU."""
    platform.use(platform.LENT)
    packages.cann_ops_transformer.install()
    own = " Its own attention is torch_npu.npu_fusion_attention." if kind_of(chip) == "910B" else ""
    warnings.warn(
        f"{chip} has no flash_attn, only Ascend 950 has: the operators of cann_ops_transformer are emulated here, they "
        f"copy their tensors to the CPU, compute there and copy back.{own}",
        stacklevel=5,  # the line that imports kernels.ascend
    )
