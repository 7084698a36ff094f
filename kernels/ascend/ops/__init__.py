"""The operators of cann_ops_transformer for Ascend 950, on the emulated device: flash_attn and its two companions."""

from kernels.ascend.ops.api import flash_attn, flash_attn_grad, flash_attn_metadata
from kernels.ascend.ops.arguments import (
    check_flash_attn_arguments,
    check_flash_attn_grad_arguments,
    check_flash_attn_metadata_arguments,
)
from kernels.ascend.ops.mask_mode import MaskMode, causal_mask_tensor
from kernels.ascend.ops.register import register

__all__ = [
    "MaskMode",
    "causal_mask_tensor",
    "check_flash_attn_arguments",
    "check_flash_attn_grad_arguments",
    "check_flash_attn_metadata_arguments",
    "flash_attn",
    "flash_attn_grad",
    "flash_attn_metadata",
    "register",
]
