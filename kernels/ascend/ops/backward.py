"""flash_attn_grad's arithmetic on CPU tensors of any float dtype.

Gradients start as 0: rows past seqused and rows with softmax_lse +inf get and give nothing. The gradients of a
key/value head add up over its query heads in float32 and are rounded once. softmax_lse holds the
sinks, so P is right with them.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from torch import Tensor

from kernels.ascend import numerics
from kernels.ascend.ops import device_numerics, layouts
from kernels.ascend.ops.calls import FlashAttnGradCall
from kernels.ascend.tiling import tile_sizes
from kernels.flash import flash_attention_backward


def compute(call: FlashAttnGradCall) -> tuple[Tensor, Tensor, Tensor]:
    """(dq, dk, dv) in the shapes and dtypes of q, k, v; the arguments have passed their checks and lie on the CPU."""
    whole = all(x is None for x in (call.cu_seqlens_q, call.cu_seqlens_kv, call.seqused_q, call.seqused_kv))
    kernel: Any = device_numerics.backward
    if not numerics.as_on_device():
        kernel = functools.partial(flash_attention_backward, **tile_sizes()._asdict())
    gradients = tuple(x.new_zeros(x.shape) for x in (call.q, call.k, call.v))
    dq, dk, dv = gradients
    of_q, of_kv = (call.cu_seqlens_q, call.seqused_q), (call.cu_seqlens_kv, call.seqused_kv)
    options: Any = {
        "scale": call.softmax_scale or 1 / math.sqrt(call.q.shape[-1]),  # 0.0, the default, asks for this one
        "mask_mode": call.mask_mode, "win_left": call.win_left, "win_right": call.win_right,
    }  # fmt: skip
    queries = [layouts.views(x, call.layout_q, *of_q, whole=whole) for x in (call.q, call.dout, call.attn_out, dq)]
    keys = [layouts.views(x, call.layout_kv, *of_kv, whole=whole) for x in (call.k, call.v, dk, dv)]
    lses = layouts.lse_views(call.softmax_lse, call.layout_q, *of_q, whole=whole)
    for (q, dout, attn_out, dq_one), (k, v, dk_one, dv_one), lse in zip(zip(*queries), zip(*keys), lses, strict=True):
        of_one = kernel(q, k, v, dout, attn_out, lse[..., 0], **options)
        for target, gradient in zip((dq_one, dk_one, dv_one), of_one):
            target.copy_(gradient)
    return dq, dk, dv
