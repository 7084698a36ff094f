"""flash_attn's arithmetic on CPU tensors of any float dtype: layouts unpacked, tiles computed, results packed again.

Contract for rows: one that sees no key has attn_out 0 and softmax_lse +inf, and so have the rows past seqused_q. A sink
is one more logit per query head that has no value row: it is part of the denominator and of softmax_lse, which in a row
that sees no key then is the sink; past seqused_q it stays +inf.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kernels.ascend import numerics
from kernels.ascend.ops import device_numerics, layouts, paged
from kernels.ascend.ops.calls import FlashAttnCall
from kernels.ascend.tiling import tile_sizes
from kernels.flash import flash_attention_forward


def compute(call: FlashAttnCall) -> tuple[Tensor, Tensor]:
    """(attn_out in layout_out, softmax_lse); the arguments have passed their checks and lie on the CPU."""
    whole = all(x is None for x in (call.cu_seqlens_q, call.cu_seqlens_kv, call.seqused_q, call.seqused_kv))
    kernel = device_numerics.forward if numerics.as_on_device() else _float32
    out = call.q.new_zeros(call.out_shape)
    lse = call.q.new_full(layouts.lse_shape(call.layout_q, call.q.shape), math.inf, dtype=torch.float32)
    of_q, of_kv = (call.cu_seqlens_q, call.seqused_q), (call.cu_seqlens_kv, call.seqused_kv)
    for q, k, v, out_view, lse_view in zip(
        layouts.views(call.q, call.layout_q, *of_q, whole=whole),
        _keys(call, call.k, *of_kv, whole=whole),
        _keys(call, call.v, *of_kv, whole=whole),
        layouts.views(out, call.layout_out, *of_q, whole=whole),
        layouts.lse_views(lse, call.layout_q, *of_q, whole=whole),
        strict=True,
    ):
        one_out, one_lse = kernel(
            q, k, v, call.sinks, call.softmax_scale, call.mask_mode, call.win_left, call.win_right
        )
        out_view.copy_(one_out)
        lse_view.copy_(one_lse[..., None])
    return out, lse if call.return_softmax_lse else lse.new_zeros(1)


def _keys(
    call: FlashAttnCall, x: Tensor, cu_seqlens: Tensor | None, seqused: Tensor | None, *, whole: bool
) -> list[Tensor]:
    if not call.paged:
        return layouts.views(x, call.layout_kv, cu_seqlens, seqused, whole=whole)
    assert call.block_table is not None
    assert seqused is not None
    return paged.gather(x, call.layout_kv, call.block_table, seqused, call.block_size)


def _float32(
    q: Tensor, k: Tensor, v: Tensor, sinks: Tensor | None, scale: float, mask_mode: int, win_left: int, win_right: int
) -> tuple[Tensor, Tensor]:
    """The course's own tiles; float64 inputs stay float64. The output is not yet rounded to the inputs' dtype."""
    wide = torch.promote_types(q.dtype, torch.float32)
    window = {"mask_mode": mask_mode, "win_left": win_left, "win_right": win_right}
    out, lse = flash_attention_forward(q.to(wide), k, v, scale=scale, **window, **tile_sizes()._asdict())
    return (out, lse) if sinks is None else add_sinks(out, lse, sinks)


def add_sinks(out: Tensor, lse: Tensor, sinks: Tensor) -> tuple[Tensor, Tensor]:
    """As if each row had seen one more key with logit sinks[h] and value 0."""
    seen = lse.masked_fill(lse == math.inf, -math.inf)
    sink = sinks[:, None].expand_as(lse)
    top = torch.maximum(seen, sink)
    together = top + torch.log(torch.exp(seen - top) + torch.exp(sink - top))
    return out * torch.exp(seen - together)[..., None].to(out.dtype), together
