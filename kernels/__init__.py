"""The reference implementation, to be read once an exercise is solved: one idea per file, the contract's names here."""

import torch  # noqa: F401  before the modules below: it may bring in the emulated NPU, which imports some of them

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
