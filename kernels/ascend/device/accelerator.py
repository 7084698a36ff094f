"""``torch.accelerator``: torch's name for whatever device there is. Its C++ asks allocators and streams that Python
cannot provide, so what it is asked about memory and time is answered here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernels.ascend.device import memory, streams


def patch() -> None:
    ours: dict[str, Callable[..., Any]] = {
        function.__name__: function
        for function in (
            streams.synchronize, memory.empty_cache, memory.memory_allocated, memory.max_memory_allocated,
            memory.memory_reserved, memory.max_memory_reserved, memory.reset_peak_memory_stats, memory.memory_stats,
        )
    }  # fmt: skip
    if hasattr(torch.accelerator, "get_memory_info"):
        ours["get_memory_info"] = memory.mem_get_info
    for name, function in ours.items():
        setattr(torch.accelerator, name, function)
