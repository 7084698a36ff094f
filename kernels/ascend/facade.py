"""The module ops_transformer: a teaching facade over what this machine has. The real packages have other names.

Real code calls cann_ops_transformer (950) or torch_npu (910B); this layer puts one nn.Module over both, so that the
first program on an NPU is short.
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from kernels.ascend.backend import Backend, CpuReference, backend_for
from kernels.machine import Situation, detect, emulated

HALF = torch.float16  # what float32 becomes on its way through a 16-bit operator


class FlashAttention(nn.Module):
    """Multi-head self-attention [B, N, hidden_dim] -> [B, N, hidden_dim] through the FlashAttention of x's device.

    Parameters as StandardAttention: q_proj, k_proj, v_proj, out_proj. On an NPU float32 is cast to float16 around the
    operator and back; on the CPU nothing is cast. block_size is the tile size on the CPU and on the emulated device; a
    real operator chooses its own, which is said once. Raises ValueError unless num_heads divides hidden_dim, and
    RuntimeError, at the first call, when the device's operator does not take hidden_dim / num_heads.
    """

    def __init__(self, hidden_dim: int, num_heads: int, block_size: int = 256):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError(f"hidden_dim {hidden_dim} is not a multiple of num_heads {num_heads}")
        if block_size < 1:
            raise ValueError(f"block_size must be positive, not {block_size}")
        self.hidden_dim, self.num_heads, self.block_size = hidden_dim, num_heads, block_size
        self.head_dim = hidden_dim // num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(hidden_dim, hidden_dim) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        backend = _backend_of(x.device)
        if backend.chooses_tiles:
            _say_once_that_tiles_are_chosen(backend.name)
        try:
            backend.check_head_dims(self.head_dim, self.head_dim)
        except RuntimeError as error:
            shape = f"hidden_dim {self.hidden_dim} / num_heads {self.num_heads} = {self.head_dim}"
            raise RuntimeError(f"{shape}: {error}. Choose other heads, or run this module on the CPU") from None
        q, k, v = (
            projection(x).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        narrow = q.dtype if x.device.type == "cpu" else _half_of(q.dtype)
        out = _Attention.apply(backend.with_tiles(self.block_size, self.block_size), *(y.to(narrow) for y in (q, k, v)))
        return self.out_proj(out.to(q.dtype).transpose(1, 2).flatten(2))


class _Attention(torch.autograd.Function):
    """apply(backend, q, k, v) -> attn_out, all BNSD, without a mask."""

    @staticmethod
    def forward(ctx: Any, backend: Backend, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.backend, ctx.scale = backend, 1 / math.sqrt(q.shape[-1])
        attn_out, softmax_lse = backend.forward(q, k, v, scale=ctx.scale)
        ctx.save_for_backward(q, k, v, attn_out, softmax_lse)
        return attn_out

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, attn_out, softmax_lse = ctx.saved_tensors
        return None, *ctx.backend.backward(q, k, v, dout, attn_out, softmax_lse, scale=ctx.scale)


def _half_of(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype in (torch.float16, torch.bfloat16) else HALF


def _backend_of(device: torch.device) -> Backend:
    if device.type == "cpu":
        return CpuReference()
    situation = detect() if emulated() else _of_this_machine()  # the emulated chip can change
    if situation.problem or situation.kind == "none":
        raise RuntimeError(situation.problem or f"x is on {device}: FlashAttention runs on the CPU and on an NPU")
    return backend_for(situation)


@functools.cache
def _of_this_machine() -> Situation:
    return detect()


@functools.cache
def _say_once_that_tiles_are_chosen(by: str) -> None:
    message = f"block_size is ignored on {by}: the operator's own tiling code chooses the tiles."
    warnings.warn(message, stacklevel=5)  # the line that called the module
