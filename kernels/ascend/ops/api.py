"""flash_attn, flash_attn_metadata and flash_attn_grad as Python functions, as cann_ops_transformer offers them."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.ascend.ops.mask_mode import MaskMode, mask_mode_number


def flash_attn(
    q: Tensor, k: Tensor, v: Tensor, block_table: Tensor | None = None, cu_seqlens_q: Tensor | None = None,
    cu_seqlens_kv: Tensor | None = None, seqused_q: Tensor | None = None, seqused_kv: Tensor | None = None,
    sinks: Tensor | None = None, attn_mask: Tensor | None = None, metadata: Tensor | None = None,
    softmax_scale: float = 1.0, mask_mode: MaskMode | int | str = 0, win_left: int = -1, win_right: int = -1,
    max_seqlen_q: int = -1, max_seqlen_kv: int = -1, layout_q: str = "BSND", layout_kv: str = "BSND",
    layout_out: str = "BSND", return_softmax_lse: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(attn_out, softmax_lse). Pass everything after v by keyword: the document orders it differently from the schema.

    attn_out is q's shape in layout_out with v's head dim; softmax_lse is float32 [B, N1, S1] ([N1, T1] for TND),
    meaningless unless return_softmax_lse. softmax_scale is used as it is: 1.0 is no scaling. metadata is what
    flash_attn_metadata returned for the same arguments. Raises RuntimeError as check_flash_attn_arguments does.
    """
    return torch.ops.cann_ops_transformer.flash_attn(
        q, k, v, block_table, cu_seqlens_q, cu_seqlens_kv, seqused_q, seqused_kv, sinks, attn_mask, metadata,
        softmax_scale, mask_mode_number(mask_mode, "flash_attn"), win_left, win_right, max_seqlen_q, max_seqlen_kv,
        layout_q, layout_kv, layout_out, return_softmax_lse,
    )  # fmt: skip


def flash_attn_grad(
    q: Tensor, k: Tensor, v: Tensor, dout: Tensor, attn_out: Tensor, softmax_lse: Tensor,
    cu_seqlens_q: Tensor | None = None, cu_seqlens_kv: Tensor | None = None, seqused_q: Tensor | None = None,
    seqused_kv: Tensor | None = None, sinks: Tensor | None = None, attn_mask: Tensor | None = None,
    metadata: Tensor | None = None, softmax_scale: float = 0.0, mask_mode: MaskMode | int | str = 0,
    win_left: int = -1, win_right: int = -1, max_seqlen_q: int = -1, max_seqlen_kv: int = -1, layout_q: str = "BSND",
    layout_kv: str = "BSND", layout_out: str = "BSND",
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(dq, dk, dv) from dout and what flash_attn returned, with the arguments that it was called with.

    softmax_scale 0.0, the default, means 1/sqrt(D): it is flash_attn's default that does not match. metadata must have
    been made with is_grad_enabled=True. Raises RuntimeError as check_flash_attn_grad_arguments does.
    """
    return torch.ops.cann_ops_transformer.flash_attn_grad(
        q, k, v, dout, attn_out, softmax_lse, cu_seqlens_q, cu_seqlens_kv, seqused_q, seqused_kv, sinks, attn_mask,
        metadata, softmax_scale, mask_mode_number(mask_mode, "flash_attn_grad"), win_left, win_right, max_seqlen_q,
        max_seqlen_kv, layout_q, layout_kv, layout_out,
    )  # fmt: skip


def flash_attn_metadata(
    num_heads_q: int, num_heads_kv: int, head_dim: int, *, head_dim_v: int | None = None,
    cu_seqlens_q: Tensor | None = None, cu_seqlens_kv: Tensor | None = None, seqused_q: Tensor | None = None,
    seqused_kv: Tensor | None = None, batch_size: int | None = None, max_seqlen_q: int | None = None,
    max_seqlen_kv: int | None = None, mask_mode: MaskMode | int | str | None = None, win_left: int | None = None,
    win_right: int | None = None, layout_q: str | None = None, layout_kv: str | None = None,
    layout_out: str | None = None, is_grad_enabled: bool = False,
) -> Tensor:  # fmt: skip
    """The int32 tensor that flash_attn and flash_attn_grad want as metadata: how the work is split over the cores.

    Lengths come from cu_seqlens, seqused, or batch_size and max_seqlen. With is_grad_enabled it serves both operators.
    Raises RuntimeError as check_flash_attn_metadata_arguments does, ValueError when nothing gives the batch size.
    """
    if mask_mode is not None:
        mask_mode = mask_mode_number(mask_mode, "flash_attn_metadata")
    return torch.ops.cann_ops_transformer.flash_attn_metadata(
        num_heads_q, num_heads_kv, head_dim, head_dim_v=head_dim_v, cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_kv=cu_seqlens_kv, seqused_q=seqused_q, seqused_kv=seqused_kv, batch_size=batch_size,
        max_seqlen_q=max_seqlen_q, max_seqlen_kv=max_seqlen_kv, mask_mode=mask_mode, win_left=win_left,
        win_right=win_right, layout_q=layout_q, layout_kv=layout_kv, layout_out=layout_out,
        is_grad_enabled=is_grad_enabled,
    )  # fmt: skip
