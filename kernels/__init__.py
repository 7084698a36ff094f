"""The reference implementation, to be read once an exercise is solved: one idea per file, the contract's names here.

A name is fetched from its file when it is first asked for, so that what needs no torch (the performance model, the
profiles) does not wait for it.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if os.environ.get("FLASHDOJO_NPU"):
    import torch  # noqa: F401  before the modules below: it brings in the emulated NPU, which imports some of them

if TYPE_CHECKING:
    from kernels.cost import attention_cost, flash_traffic
    from kernels.flash import (
        FlashAttentionFunction,
        FlashAttentionV1,
        flash_attention_backward,
        flash_attention_forward,
    )
    from kernels.layouts import flash_attention_varlen
    from kernels.online_softmax import merge_states, online_softmax_update
    from kernels.standard import StandardAttention, scaled_dot_product_attention, softmax
    from kernels.tiles import visible_tiles

_FILES = ("cost", "flash", "layouts", "online_softmax", "standard", "tiles")

__all__ = [
    "FlashAttentionFunction",
    "FlashAttentionV1",
    "StandardAttention",
    "attention_cost",
    "flash_attention_backward",
    "flash_attention_forward",
    "flash_attention_varlen",
    "flash_traffic",
    "merge_states",
    "online_softmax_update",
    "scaled_dot_product_attention",
    "softmax",
    "visible_tiles",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        for file in _FILES:
            found = vars(importlib.import_module(f"{__name__}.{file}"))
            if name in found:
                return globals().setdefault(name, found[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
