"""Calls of npu_fusion_attention for the tests: what they are given, and the golden that judges them.

They want the fixture chip_910b."""

from __future__ import annotations

import math

import fusion_golden as golden
import numpy as np
import torch
from torch import Tensor

import kernels.ascend
from kernels.ascend.fusion.dropout import make_dropout_mask

kernels.ascend.install()
import torch_npu  # noqa: E402

EPS = {torch.float16: 2**-10, torch.bfloat16: 2**-7, torch.float32: 2e-6}
LAYOUTS = ("BSH", "SBH", "BSND", "BNSD")
FLT_MAX = torch.finfo(torch.float32).max


def packed(x: Tensor, layout: str) -> Tensor:
    """[B, N, S, D] in a layout, on the NPU."""
    return {
        "BNSD": lambda: x,
        "BSND": lambda: x.transpose(1, 2),
        "BSH": lambda: x.transpose(1, 2).flatten(2),
        "SBH": lambda: x.permute(2, 0, 1, 3).flatten(2),
    }[layout]().contiguous().npu()  # fmt: skip


def unpacked(x: Tensor, layout: str, heads: int) -> Tensor:
    x = x.cpu()
    return {
        "BNSD": lambda: x,
        "BSND": lambda: x.transpose(1, 2),
        "BSH": lambda: x.unflatten(2, (heads, -1)).transpose(1, 2),
        "SBH": lambda: x.unflatten(2, (heads, -1)).permute(1, 2, 0, 3),
    }[layout]()  # fmt: skip


def draw(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def causal_mask(rows: int = 2048) -> Tensor:
    mask = torch.triu(torch.ones(2048, 2048), diagonal=1)
    if rows > 2048:
        mask = torch.cat([mask, torch.cat([torch.zeros(1024, 1024), torch.ones(1024, 1024)], dim=1)])
    return mask.bool().npu()


def close(got: Tensor, wanted: Tensor, dtype: torch.dtype, factor: float = 4) -> None:
    error = (got.double().cpu() - wanted.double()).abs().max().item() if wanted.numel() else 0.0
    assert error <= factor * EPS[dtype] * max(1.0, wanted.abs().max().item()), error


def check(
    visible: Tensor, *, b=2, n=4, nk=2, sq=9, skv=13, d=16, dv=None, layout="BNSD", dtype=torch.float32, pse=None,
    sink=None, kept=None, keep_prob=1.0, scale=0.3, **options,
):  # fmt: skip
    """Forward, statistics and gradients of one call against the golden. Returns the operator's outputs."""
    q, k = draw(b, n, sq, d, dtype=dtype, seed=1), draw(b, nk, skv, d, dtype=dtype, seed=2)
    v, dy = draw(b, nk, skv, dv or d, dtype=dtype, seed=3), draw(b, n, sq, dv or d, dtype=dtype, seed=4)
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    wide_pse, wide_sink = (None if x is None else x.double().requires_grad_() for x in (pse, sink))
    want, top, total = golden.attention(
        *leaves, visible=visible, scale=scale, pse=wide_pse, sink=wide_sink, kept=kept, keep_prob=keep_prob
    )
    want.backward(dy.double())

    given = [packed(x, layout).requires_grad_() for x in (q, k, v)]
    extra = {
        name: x.npu().requires_grad_() for name, x in (("pse", pse), ("sink", sink)) if x is not None
    }  # fmt: skip
    outputs = torch_npu.npu_fusion_attention(*given, n, layout, scale=scale, keep_prob=keep_prob, **extra, **options)
    out, softmax_max, softmax_sum = outputs[:3]
    assert out.dtype == dtype
    assert out.device.type == "npu"
    assert softmax_max.shape == softmax_sum.shape == (b, n, sq, 8)
    assert softmax_max.dtype == softmax_sum.dtype == torch.float32
    close(unpacked(out, layout, n), want.detach(), dtype)
    for got, wanted in ((softmax_max, top), (softmax_sum, total)):
        assert torch.allclose(
            got.cpu().double(), wanted.detach()[..., None].expand(*wanted.shape, 8), rtol=1e-4, atol=1e-5
        )
    out.backward(packed(dy, layout))
    for x, leaf, heads in zip(given, leaves, (n, nk, nk)):
        assert x.grad.dtype == dtype
        close(unpacked(x.grad, layout, heads), leaf.grad, dtype, factor=8)
    for name, leaf in (("pse", wide_pse), ("sink", wide_sink)):
        if leaf is not None:
            assert extra[name].grad.shape == leaf.shape
            close(extra[name].grad, leaf.grad, dtype, factor=8)
    return outputs


def everything(sq=9, skv=13):
    return torch.ones(sq, skv, dtype=torch.bool)


def pieces(x: Tensor, lengths: list[int]) -> list[Tensor]:
    """[1, N, S, D] of each sequence of [T, N, D]."""
    return [one.transpose(0, 1)[None] for one in x.split(lengths)]


def kept_of(seed: int, keep_prob: float, *shape: int, offset: int = 0) -> Tensor:
    """The dropout mask as documented: one bit per weight, the lowest first."""
    numels = math.prod(shape)
    bits = np.unpackbits(make_dropout_mask(numels, keep_prob, seed, offset).numpy(), bitorder="little")
    return torch.from_numpy(bits[:numels]).view(shape).bool()
