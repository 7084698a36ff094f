"""The argument checks as functions of their own: the operators' arguments, tensors on any device, meta included.

They judge everything but the content of metadata and attn_mask and the values in cu_seqlens, seqused and block_table,
which only a kernel can read (values.py, fingerprint.py, paged.py).
"""

from __future__ import annotations

from typing import Any

from kernels.ascend.ops.arguments import forward, grad, metadata
from kernels.ascend.ops.arguments.faults import refuse
from kernels.ascend.ops.calls import FlashAttnCall, FlashAttnGradCall, FlashAttnMetadataCall


def check_flash_attn_arguments(*args: Any, **kwargs: Any) -> None:
    """Arguments of flash_attn; attn_out and softmax_lse may be given, too, as descriptions of the outputs.

    Raises RuntimeError naming argument, value and rule: of the fault that the operator meets first, then of others.
    """
    refuse("flash_attn", forward.flash_attn_faults(FlashAttnCall(*args, **kwargs)))


def check_flash_attn_grad_arguments(*args: Any, **kwargs: Any) -> None:
    """Arguments of flash_attn_grad. Raises RuntimeError as check_flash_attn_arguments does."""
    refuse("flash_attn_grad", grad.flash_attn_grad_faults(FlashAttnGradCall(*args, **kwargs)))


def check_flash_attn_metadata_arguments(*args: Any, **kwargs: Any) -> None:
    """Arguments of flash_attn_metadata. Raises RuntimeError, or ValueError when nothing says how many sequences."""
    call = metadata.complete(FlashAttnMetadataCall(*args, **kwargs))
    refuse("flash_attn_metadata", metadata.flash_attn_metadata_faults(call))
