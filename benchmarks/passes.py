"""What the benchmarks compare: forward and backward of one attention, (q, k, v, dout, block) -> gradients."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from kernels import FlashAttentionFunction

Gradients = tuple[Tensor, ...]


def naive(q: Tensor, k: Tensor, v: Tensor, dout: Tensor, _block: int) -> Gradients:
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return torch.autograd.grad(torch.softmax(scores, dim=-1) @ v, (q, k, v), dout)


def tiled(q: Tensor, k: Tensor, v: Tensor, dout: Tensor, block: int, mask_mode: int = 0) -> Gradients:
    out, _ = FlashAttentionFunction.apply(q, k, v, None, mask_mode, -1, -1, block, block)
    return torch.autograd.grad(out, (q, k, v), dout)


def causal(q: Tensor, k: Tensor, v: Tensor, dout: Tensor, block: int) -> Gradients:
    return tiled(q, k, v, dout, block, mask_mode=3)


def sdpa(q: Tensor, k: Tensor, v: Tensor, dout: Tensor, _block: int) -> Gradients:
    return torch.autograd.grad(scaled_dot_product_attention(q, k, v), (q, k, v), dout)


PASSES = {"tiled": tiled, "causal": causal, "sdpa": sdpa, "naive": naive}
