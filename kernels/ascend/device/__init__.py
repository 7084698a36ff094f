"""The emulated device "npu": an Ascend card as a program sees it, on a machine that has none.

Its tensors are real tensors of torch's PrivateUse1 backend over memory of the CPU; its operators are the CPU's. What it
emulates is the interface: devices that do not mix, memory that is counted, a queue, a chip with a name.
"""

from __future__ import annotations

from typing import Any

from torch.utils import backend_registration

from kernels.ascend.device import accelerator, api, autocast, registration, rng, storages

_module: list[Any] = []  # torch.npu, once it is there


def install() -> None:
    """Add the device to torch, once."""
    if _module:
        return
    module = api.module()
    backend_registration._setup_privateuseone_for_python_backend("npu", backend_module=module)
    _module.append(module)
    registration.register()
    autocast.register()
    rng.patch()
    storages.patch()
    accelerator.patch()


def is_installed() -> bool:
    return bool(_module)
