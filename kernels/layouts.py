"""The operator's layouts, served by the same kernel: in every layout a sequence is a [1, N, length, D] view.

BNSD [B, N, S, D], BSND [B, S, N, D], and TND [T, N, D]: sequences of any length packed one after the other, sequence b
at cu_seqlens[b] : cu_seqlens[b + 1]. seqused [B] shortens each sequence to a prefix, in any layout. Rows past that
prefix and rows that see no key have attn_out 0, softmax_lse +inf and gradient 0.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from kernels.flash import flash_attention_backward, flash_attention_forward


def sequences(x: Tensor, layout: str, cu_seqlens: Tensor | None = None, seqused: Tensor | None = None) -> list[Tensor]:
    """A [1, N, length, D] view of x for each sequence. Raises ValueError when layout and cu_seqlens contradict."""
    if layout not in ("BNSD", "BSND", "TND"):
        raise ValueError(f"layout must be BNSD, BSND or TND, not {layout}")
    if (layout == "TND") != (cu_seqlens is not None):
        raise ValueError(f"layout {layout}: cu_seqlens is needed by TND and means nothing elsewhere")
    if cu_seqlens is not None:
        starts = cu_seqlens.tolist()
        views = [x[a:b].transpose(0, 1)[None] for a, b in pairwise(starts)]
    else:
        views = list((x if layout == "BNSD" else x.transpose(1, 2)).split(1))
    if seqused is None:
        return views
    return [view[:, :, :length] for view, length in zip(views, seqused.tolist(), strict=True)]


def attention_forward(
    q: Tensor, k: Tensor, v: Tensor, *,
    layout_q: str = "BSND", layout_kv: str = "BSND", layout_out: str = "BSND",
    cu_seqlens_q: Tensor | None = None, cu_seqlens_kv: Tensor | None = None,
    seqused_q: Tensor | None = None, seqused_kv: Tensor | None = None, **options: Any,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """attn_out in layout_out and softmax_lse [B, N1, S1] ([N1, T1] for TND); options as in flash_attention_forward."""
    shape = (q if layout_q == layout_out else q.transpose(1, 2)).shape
    out = q.new_zeros(*shape[:-1], v.shape[-1])
    heads_first = {"BNSD": q, "BSND": q.transpose(1, 2), "TND": q.transpose(0, 1)}[layout_q].shape[:-1]
    lse = q.new_full(heads_first, math.inf, dtype=torch.float32)
    for q_one, k_one, v_one, out_one, lse_one in zip(
        sequences(q, layout_q, cu_seqlens_q, seqused_q),
        sequences(k, layout_kv, cu_seqlens_kv, seqused_kv),
        sequences(v, layout_kv, cu_seqlens_kv, seqused_kv),
        sequences(out, layout_out, cu_seqlens_q, seqused_q),
        _lse_sequences(lse, layout_q, cu_seqlens_q, seqused_q),
        strict=True,
    ):
        attn_out, softmax_lse = flash_attention_forward(q_one, k_one, v_one, **options)
        out_one.copy_(attn_out)
        lse_one.copy_(softmax_lse[..., None])
    return out, lse


def attention_backward(
    q: Tensor, k: Tensor, v: Tensor, dout: Tensor, attn_out: Tensor, softmax_lse: Tensor, *,
    layout: str = "BSND", cu_seqlens_q: Tensor | None = None, cu_seqlens_kv: Tensor | None = None,
    seqused_q: Tensor | None = None, seqused_kv: Tensor | None = None, **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(dq, dk, dv), all tensors in one layout; options as in flash_attention_backward, equal to the forward's."""
    dq, dk, dv = (x.new_zeros(x.shape) for x in (q, k, v))
    of_queries = [sequences(x, layout, cu_seqlens_q, seqused_q) for x in (dq, q, dout, attn_out)]
    of_keys = [sequences(x, layout, cu_seqlens_kv, seqused_kv) for x in (dk, dv, k, v)]
    lses = _lse_sequences(softmax_lse, layout, cu_seqlens_q, seqused_q)
    for (dq_one, q_one, dout_one, out_one), (dk_one, dv_one, k_one, v_one), lse_one in zip(
        zip(*of_queries), zip(*of_keys), lses, strict=True
    ):
        gradients = flash_attention_backward(q_one, k_one, v_one, dout_one, out_one, lse_one[..., 0], **options)
        for target, gradient in zip((dq_one, dk_one, dv_one), gradients):
            target.copy_(gradient)
    return dq, dk, dv


def flash_attention_varlen(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_kv: Tensor, *,
    scale: float | None = None, mask_mode: int = 0, block_q: int = 128, block_kv: int = 128,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """q [T1, N1, D], k [T2, N2, D], v [T2, N2, Dv] -> attn_out [T1, N1, Dv], softmax_lse [N1, T1]."""
    return attention_forward(
        q, k, v, layout_q="TND", layout_kv="TND", layout_out="TND",
        cu_seqlens_q=cu_seqlens_q, cu_seqlens_kv=cu_seqlens_kv,
        scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv,
    )  # fmt: skip


def _lse_sequences(lse: Tensor, layout: str, cu_seqlens: Tensor | None, seqused: Tensor | None) -> list[Tensor]:
    """softmax_lse has its heads first in every layout: [N1, T1] for TND, else [B, N1, S1]. Views [1, N1, length, 1]."""
    if layout == "TND":
        return sequences(lse.T[..., None], "TND", cu_seqlens, seqused)
    return sequences(lse[..., None], "BNSD", None, seqused)
