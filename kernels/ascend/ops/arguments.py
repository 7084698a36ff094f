"""The argument checks as functions of their own: same arguments as the operators, tensors on any device, meta included.

They judge everything but the content of metadata and the values in cu_seqlens, seqused and block_table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kernels.ascend.ops.arguments_forward import forward_faults
from kernels.ascend.ops.arguments_grad import grad_faults
from kernels.ascend.ops.arguments_metadata import batch_of, metadata_call_faults
from kernels.ascend.ops.calls import FlashAttnCall, FlashAttnGradCall, FlashAttnMetadataCall
from kernels.ascend.ops.faults import Fault, refuse


def check_flash_attn_arguments(*args: Any, **kwargs: Any) -> None:
    """Arguments of flash_attn; attn_out and softmax_lse may be given, too, as descriptions of the outputs.

    Raises RuntimeError naming the argument, its value and the rule.
    """
    refuse("flash_attn", forward_faults(FlashAttnCall(*args, **kwargs)))


def check_flash_attn_grad_arguments(*args: Any, **kwargs: Any) -> None:
    """Arguments of flash_attn_grad. Raises RuntimeError naming the argument, its value and the rule."""
    refuse("flash_attn_grad", grad_faults(FlashAttnGradCall(*args, **kwargs)))


def check_flash_attn_metadata_arguments(*args: Any, **kwargs: Any) -> None:
    """Arguments of flash_attn_metadata. Raises RuntimeError, or ValueError when no argument says how many sequences."""
    complete_metadata_call(*args, **kwargs)


def complete_metadata_call(*args: Any, **kwargs: Any) -> FlashAttnMetadataCall:
    """The call, checked, with what None stands for: -1 for numbers, head_dim for head_dim_v, BSND for layouts."""
    given = FlashAttnMetadataCall(*args, **kwargs)
    batch_of(given)
    if given.mask_mode is None:
        refuse("flash_attn_metadata", [Fault("mask_mode", "mask_mode is None: say 0 (no mask), 3 (causal) or 4 (sliding "
                                             "window); it has no default that works")])  # fmt: skip
    numbers = ("batch_size", "max_seqlen_q", "max_seqlen_kv", "win_left", "win_right", "head_dim_v")
    missing: dict[str, Any] = {name: -1 for name in numbers if getattr(given, name) is None}
    missing |= {name: "BSND" for name in ("layout_q", "layout_kv", "layout_out") if getattr(given, name) is None}
    call = replace(given, **missing)
    if call.head_dim_v == -1:
        call = replace(call, head_dim_v=call.head_dim)
    refuse("flash_attn_metadata", metadata_call_faults(call))
    return call

