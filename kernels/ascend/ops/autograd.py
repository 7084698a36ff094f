"""flash_attn under autograd: its backward is flash_attn_grad with the very same arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from kernels.ascend.ops.arguments.faults import Fault, refuse
from kernels.ascend.ops.calls import FlashAttnCall, FlashAttnGradCall


class Kernels(NamedTuple):
    """Who computes: the operators on the device (register.py), or their arithmetic on the CPU in float64.

    The second is for gradcheck, which thus judges this very function (tests/ascend/test_ops_autograd.py).
    """

    flash_attn: Callable[[FlashAttnCall], tuple[Tensor, Tensor]]
    flash_attn_grad: Callable[[FlashAttnGradCall], tuple[Tensor, Tensor, Tensor]]


class FlashAttnFunction(torch.autograd.Function):
    """apply(kernels, *flash_attn's arguments) -> (attn_out, softmax_lse); softmax_lse has no gradient."""

    @staticmethod
    def forward(ctx: Any, kernels: Kernels, *operands: Any) -> tuple[Tensor, Tensor]:
        attn_out, softmax_lse = kernels.flash_attn(FlashAttnCall(*operands))
        ctx.kernels = kernels
        ctx.operands = [None if isinstance(x, Tensor) else x for x in operands]
        ctx.places = [place for place, x in enumerate(operands) if isinstance(x, Tensor)]
        ctx.save_for_backward(attn_out, softmax_lse, *(operands[place] for place in ctx.places))
        ctx.mark_non_differentiable(softmax_lse)
        return attn_out, softmax_lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dout: Tensor, _dlse: Tensor) -> tuple[Tensor | None, ...]:
        attn_out, softmax_lse, *tensors = ctx.saved_tensors
        operands = list(ctx.operands)
        for place, x in zip(ctx.places, tensors):
            operands[place] = x
        call = FlashAttnCall(*operands)
        refuse("flash_attn, backward", _backward_faults(call))
        dq, dk, dv = ctx.kernels.flash_attn_grad(call.backward(dout, attn_out, softmax_lse))
        return None, dq, dk, dv, *[None] * (len(operands) - 3)


def _backward_faults(call: FlashAttnCall) -> Iterator[Fault]:
    """Why a forward call, fine in itself, has no backward; the rest is for flash_attn_grad to say."""
    if not call.return_softmax_lse:
        text = "return_softmax_lse is False: gradients are computed from softmax_lse, so call flash_attn with True"
        yield Fault("return_softmax_lse", text)
    if call.softmax_scale == 0.0:
        text = "softmax_scale is 0.0: flash_attn uses it as it is, but flash_attn_grad would read it as 1/sqrt(D)"
        yield Fault("softmax_scale", text)
    if call.sinks is not None and call.sinks.requires_grad:
        text = (
            "sinks requires a gradient, and flash_attn_grad returns none for it: sinks.grad would stay None. Pass "
            "sinks.detach(), and compute it in a function of your own: dsinks[n] is minus the sum over head n of "
            "exp(sinks[n] - softmax_lse) * rowsum(dout * attn_out)"
        )
        yield Fault("sinks", text)
