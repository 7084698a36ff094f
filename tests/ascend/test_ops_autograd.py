"""flash_attn under autograd: its backward is flash_attn_grad, and what has none says so."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from operator_calls import metadata_of
from operator_inputs import OPTIONS, grad_metadata, qkv

from kernels.ascend import ops
from kernels.ascend.ops import autograd, backward, forward
from kernels.ascend.ops.calls import FlashAttnCall


def test_autograd_is_flash_attn_grad():
    tensors = qkv(True)
    metadata = grad_metadata(tensors)
    out, lse = ops.flash_attn(**tensors, **OPTIONS, metadata=metadata, return_softmax_lse=True)
    assert out.requires_grad
    assert not lse.requires_grad
    out.sum().backward()  # its gradient is an expanded 1, with strides of 0
    detached = {name: x.detach() for name, x in tensors.items()}
    dout = torch.ones_like(out)
    gradients = ops.flash_attn_grad(
        **detached, dout=dout, attn_out=out.detach(), softmax_lse=lse, metadata=metadata, **OPTIONS
    )
    for x, gradient in zip(tensors.values(), gradients):
        assert torch.equal(x.grad.cpu(), gradient.cpu())


def test_only_some_inputs_need_a_gradient():
    tensors = qkv()
    tensors["k"].requires_grad_()
    out, _ = ops.flash_attn(**tensors, **OPTIONS, metadata=grad_metadata(tensors), return_softmax_lse=True)
    out.sum().backward()
    assert tensors["k"].grad.any()
    assert tensors["q"].grad is None


def backward_refusal(tensors: dict[str, torch.Tensor], **options: Any) -> str:
    out, _ = ops.flash_attn(**tensors, **OPTIONS | options)
    with pytest.raises(RuntimeError) as caught:
        out.sum().backward()
    return str(caught.value)


def test_what_has_no_backward_says_so():
    tensors = qkv(True)
    metadata, lse = grad_metadata(tensors), {"return_softmax_lse": True}
    assert "return_softmax_lse is False" in backward_refusal(tensors, metadata=metadata)
    forward_only = metadata_of(tensors | OPTIONS)
    assert "is_grad_enabled is False there" in backward_refusal(tensors, metadata=forward_only, **lse)
    assert "softmax_scale is 0.0" in backward_refusal(tensors, metadata=metadata, **lse, softmax_scale=0.0)
    in_heads = {name: x.detach().transpose(1, 2).contiguous().requires_grad_() for name, x in tensors.items()}
    mixed = {"layout_q": "BNSD", "layout_kv": "BNSD", "layout_out": "BSND"}
    text = backward_refusal(in_heads, metadata=grad_metadata(in_heads, **mixed), **lse, **mixed)
    assert "layout_out is BSND and layout_q is BNSD: all three must be equal" in text
    pages = {"layout_kv": "PA_BBND", "seqused_kv": torch.tensor([16, 3], dtype=torch.int32).npu()}
    pool = {"q": tensors["q"], "k": torch.zeros(2, 16, 2, 64, dtype=torch.float16, device="npu", requires_grad=True)}
    pool["v"] = pool["k"]
    table = torch.tensor([[0], [1]], dtype=torch.int32).npu()
    text = backward_refusal(pool, metadata=grad_metadata(pool, **pages), block_table=table, **lse, **pages)
    assert "no gradient goes through pages" in text
    band = {"mask_mode": 4, "win_left": 5, "attn_mask": ops.causal_mask_tensor()}
    text = backward_refusal(tensors, metadata=grad_metadata(tensors, mask_mode=4, win_left=5), **lse, **band)
    assert "win_right is -1: flash_attn_grad takes windows of 0 or more only" in text


def test_sinks_have_no_gradient_and_say_so():
    tensors = qkv(True)
    sinks = torch.zeros(4, device="npu", requires_grad=True)
    metadata, lse = grad_metadata(tensors), {"return_softmax_lse": True}
    options = OPTIONS | {"metadata": metadata, **lse}
    text = backward_refusal(tensors, sinks=sinks, metadata=metadata, **lse)
    assert text.startswith("flash_attn, backward: sinks requires a gradient, and flash_attn_grad returns none for it")
    out, _ = ops.flash_attn(**{name: x.detach() for name, x in tensors.items()}, sinks=sinks, **options)
    with pytest.raises(RuntimeError, match="sinks requires a gradient"):
        out.sum().backward()
    with torch.no_grad():
        expected, _ = ops.flash_attn(**tensors, sinks=sinks, **options)  # without a backward it is as good as any
    out, _ = ops.flash_attn(**tensors, sinks=sinks.detach(), **options)
    out.sum().backward()
    assert torch.equal(out.detach().cpu(), expected.cpu())
    assert tensors["q"].grad.any()


def test_the_gradient_of_sinks_is_what_the_refusal_says():
    generator = torch.Generator().manual_seed(0)
    q, k, v, dout = (torch.randn(1, 2, n, 8, generator=generator, dtype=torch.float64) for n in (5, 7, 7, 5))
    sinks = torch.randn(2, generator=generator, dtype=torch.float64, requires_grad=True)
    scores = torch.cat([q @ k.mT, sinks[:, None, None].expand(1, 2, 5, 1)], dim=-1)
    out, lse = scores.softmax(dim=-1)[..., :-1] @ v, scores.logsumexp(dim=-1)
    out.backward(dout)
    dsinks = -(torch.exp(sinks[:, None] - lse) * (dout * out).sum(dim=-1)).sum(dim=(0, 2))
    assert torch.allclose(sinks.grad, dsinks)


def test_no_second_derivative():
    tensors = qkv(True)
    out, _ = ops.flash_attn(**tensors, **OPTIONS, metadata=grad_metadata(tensors), return_softmax_lse=True)
    (dq,) = torch.autograd.grad(out.float().square().sum(), tensors["q"], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dq.float().sum().backward()


@pytest.mark.parametrize("mask", [(0, -1, -1), (3, -1, -1), (4, 2, 1)])
@pytest.mark.parametrize("layout", ["BNSD", "BSND", "TND"])
def test_gradcheck_of_the_same_function_on_the_cpu(layout, mask):
    """The operators' autograd function with their arithmetic in place of the device's kernels, in float64."""
    generator = torch.Generator().manual_seed(0)
    heads_q, heads_kv, seq_q, seq_kv, dim = 4, 2, 3, 5, 4
    shapes = {"BNSD": lambda n, s: (1, n, s, dim), "BSND": lambda n, s: (1, s, n, dim), "TND": lambda n, s: (s, n, dim)}
    q, k, v = (torch.randn(shapes[layout](n, s), generator=generator, dtype=torch.float64, requires_grad=True)
               for n, s in ((heads_q, seq_q), (heads_kv, seq_kv), (heads_kv, seq_kv)))  # fmt: skip
    packed = layout == "TND"
    call = FlashAttnCall(
        q, k, v, softmax_scale=0.7, layout_q=layout, layout_kv=layout, layout_out=layout, return_softmax_lse=True,
        cu_seqlens_q=torch.tensor([0, 1, 3]) if packed else None,
        cu_seqlens_kv=torch.tensor([0, 4, 5]) if packed else None,
        **dict(zip(("mask_mode", "win_left", "win_right"), mask)),
    )  # fmt: skip
    kernels = autograd.Kernels(forward.compute, backward.compute)

    def attn_out(*tensors: torch.Tensor) -> torch.Tensor:
        return autograd.FlashAttnFunction.apply(kernels, *tensors, *call.operands()[3:])[0]

    assert torch.autograd.gradcheck(attn_out, (q, k, v), atol=2e-5, rtol=1e-3)
