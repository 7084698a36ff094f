"""The emulated device "npu": an Ascend card as a program sees it, on a machine that has none.

Its tensors are real tensors of torch's PrivateUse1 backend over memory of the CPU; its operators are the CPU's. What it
emulates is the interface: devices that do not mix, memory that is counted, a queue, a chip with a name.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import backend_registration

from kernels.ascend.device import api, autocast, registration, rng, storage

_backend: list[Any] = []


def install() -> None:
    """Add the device to torch, once."""
    if _backend:
        return
    module = api.module()
    backend_registration._setup_privateuseone_for_python_backend("npu", backend_module=module)
    _backend.append(module)
    registration.register()
    autocast.register()
    storage.register_storages()
    torch.Generator = rng.Generator  # type: ignore[misc,assignment]


def is_installed() -> bool:
    return bool(_backend)
