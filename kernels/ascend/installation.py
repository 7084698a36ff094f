"""Which NPU a process gets."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

import torch

from kernels.ascend import device, facade, packages
from kernels.ascend.device import soc as socs


def install(soc: str | None = None) -> None:
    """Give this process its NPU: the real one if torch_npu is installed, else the emulated one. Doing it twice is fine.

    soc names the chip to emulate; else FLASHDOJO_SOC does, else it is a 950. Raises ValueError for an unknown one,
    RuntimeError if torch_npu is installed but cannot be imported.
    """
    if not device.is_installed():
        if _is_there("torch_npu"):
            _import_real()
            sys.modules.setdefault("ops_transformer", facade)  # the course's own module, for a real NPU as well
            return
        if torch._C._get_privateuse1_backend_name() != "privateuseone":
            raise RuntimeError(
                f"The device {torch._C._get_privateuse1_backend_name()!r} already has the place in torch that the "
                "emulated NPU needs. Start a new process without it."
            )
    if soc or not device.is_installed():
        socs.use_soc(soc or os.environ.get("FLASHDOJO_SOC") or socs.DEFAULT)
    if not device.is_installed():
        device.install()
        packages.install()


def is_emulated() -> bool:
    """Whether this process has the emulated device."""
    return device.is_installed()


def _is_there(name: str) -> bool:
    """Whether the package is installed; a mere folder of that name does not count."""
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None


def _import_real() -> None:
    for name in ("torch_npu", "cann_ops_transformer"):
        if not _is_there(name):
            continue
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise RuntimeError(
                f"{name} is installed but cannot be imported: {error}. Either its CANN is missing or its environment "
                "is not set (source the set_env.sh of the CANN toolkit), or this machine has no NPU: then uninstall "
                f"{name.replace('_', '-')}, and the emulated device takes its place."
            ) from error
