"""How the operators may be called: by position, mask modes by name, devices, strides, scale."""

from __future__ import annotations

import math

import pytest
import torch
from operator_inputs import OPTIONS, grad_metadata, qkv

from kernels.ascend import ops


def test_optional_arguments_by_position():
    tensors = qkv()
    metadata = grad_metadata(tensors)
    nothing = [None] * 7
    by_position = ops.flash_attn(*tensors.values(), *nothing, metadata, 0.125, 0, -1, -1, 33, 47, *["BSND"] * 3, True)
    by_name = ops.flash_attn(**tensors, **OPTIONS, metadata=metadata, return_softmax_lse=True)
    for x, y in zip(by_position, by_name):
        assert torch.equal(x.cpu(), y.cpu())
    dout = torch.ones_like(by_name[0])
    got = ops.flash_attn_grad(*tensors.values(), dout, *by_name, *[None] * 6, metadata, 0.125)
    results = {"dout": dout, "attn_out": by_name[0], "softmax_lse": by_name[1]}
    named = ops.flash_attn_grad(**tensors, **results, metadata=metadata, softmax_scale=0.125)
    for x, y in zip(got, named):
        assert torch.equal(x.cpu(), y.cpu())


@pytest.mark.parametrize("mask", [3, "causal", "Causal", "CAUSAL", ops.MaskMode.CAUSAL])
def test_mask_modes_by_name(mask):
    tensors = qkv()
    sizes = {"batch_size": 2, "max_seqlen_q": 33, "max_seqlen_kv": 47}
    metadata = ops.flash_attn_metadata(4, 2, 64, **sizes, mask_mode=mask, is_grad_enabled=True)
    options = {"mask_mode": mask, "attn_mask": ops.causal_mask_tensor(), "metadata": metadata, "softmax_scale": 0.125}
    out, lse = ops.flash_attn(**tensors, **options, return_softmax_lse=True)
    assert ops.flash_attn_grad(**tensors, dout=out, attn_out=out, softmax_lse=lse, **options)[0].any()


def test_mask_modes():
    assert {mode.name: int(mode) for mode in ops.MaskMode} == {"NO_MASK": 0, "CAUSAL": 3, "SLIDING_WINDOW": 4}
    with pytest.raises(RuntimeError, match=r"mask_mode 'band' is no mask; known are NO_MASK \(0\), CAUSAL \(3\)"):
        ops.flash_attn(**qkv(), mask_mode="band")
    mask = ops.causal_mask_tensor("cpu")
    assert (mask.dtype, mask.shape) == (torch.int8, (2048, 2048))
    assert torch.equal(mask == 1, ~torch.ones(2048, 2048, dtype=torch.bool).tril())
    mask.zero_()  # the caller's own: nobody else's changes
    assert ops.causal_mask_tensor("cpu").any()


def test_wrong_devices_are_refused():
    tensors = qkv()
    on_cpu = {name: x.cpu() for name, x in tensors.items()}
    with pytest.raises(RuntimeError, match=r"flash_attn: q, k and v are on the CPU.*\.npu\(\)"):
        ops.flash_attn(**on_cpu)
    with pytest.raises(RuntimeError, match="flash_attn: k is on cpu: all tensors must be on npu:0"):
        ops.flash_attn(**tensors | {"k": on_cpu["k"]}, metadata=grad_metadata(tensors))
    mask = ops.causal_mask_tensor("cpu")
    with pytest.raises(RuntimeError, match="flash_attn: attn_mask is on cpu"):
        ops.flash_attn(**tensors, metadata=grad_metadata(tensors, mask_mode=3), mask_mode=3, attn_mask=mask)
    with pytest.raises(RuntimeError, match="flash_attn: q is float32"):
        ops.flash_attn(**{name: x.float() for name, x in tensors.items()}, metadata=grad_metadata(tensors))


def test_q_is_made_contiguous_and_k_is_not():
    tensors = qkv()
    strided = {name: x.transpose(1, 2).contiguous().transpose(1, 2) for name, x in tensors.items()}
    metadata = grad_metadata(tensors)
    expected, _ = ops.flash_attn(**tensors, **OPTIONS, metadata=metadata)
    got, _ = ops.flash_attn(**tensors | {"q": strided["q"]}, **OPTIONS, metadata=metadata)
    assert torch.equal(got.cpu(), expected.cpu())
    assert got.is_contiguous()
    with pytest.raises(RuntimeError, match=r"flash_attn: k is .* needs it contiguous"):
        ops.flash_attn(**tensors | {"k": strided["k"]}, **OPTIONS, metadata=metadata)


def test_inputs_stay_as_they_are_and_calls_repeat():
    tensors = qkv()
    before = {name: x.cpu().clone() for name, x in tensors.items()}
    arguments = tensors | OPTIONS | {"metadata": grad_metadata(tensors), "return_softmax_lse": True}
    one, other = ops.flash_attn(**arguments), ops.flash_attn(**arguments)
    assert all(torch.equal(x.cpu(), y.cpu()) for x, y in zip(one, other))
    assert all(torch.equal(x.cpu(), before[name]) for name, x in tensors.items())


def test_scale_is_literal_in_the_forward():
    tensors = qkv()
    metadata = grad_metadata(tensors)
    _, default = ops.flash_attn(**tensors, metadata=metadata, return_softmax_lse=True)
    _, one = ops.flash_attn(**tensors, metadata=metadata, return_softmax_lse=True, softmax_scale=1.0)
    _, usual = ops.flash_attn(**tensors, metadata=metadata, return_softmax_lse=True, softmax_scale=1 / math.sqrt(64))
    assert torch.equal(default.cpu(), one.cpu())
    assert not torch.allclose(default.cpu(), usual.cpu(), atol=0.5)
