"""The tiled kernels against the float64 oracle, and their memory."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import kernels
from kernels import oracle

masks = st.one_of(
    st.just((0, -1, -1)), st.just((3, -1, -1)), st.tuples(st.just(4), st.integers(-1, 40), st.integers(-1, 40))
)


def draw(shape, dtype=torch.float64, seed=0):
    batch, heads_q, heads_kv, seq_q, seq_kv, dim, dim_v = shape
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(size, generator=generator).to(dtype)
        for size in [
            (batch, heads_q, seq_q, dim),
            (batch, heads_kv, seq_kv, dim),
            (batch, heads_kv, seq_kv, dim_v),
            (batch, heads_q, seq_q, dim_v),
        ]
    ]


@settings(max_examples=60)
@given(
    st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 3)),
    st.tuples(*[st.integers(1, 40)] * 2),
    st.tuples(*[st.integers(1, 9)] * 2),
    masks,
    st.tuples(*[st.integers(1, 48)] * 2),
    st.sampled_from([None, 0.0, 0.7]),
)
def test_random_geometry(heads, seqs, dims, mask, blocks, scale):
    batch, heads_kv, group = heads
    q, k, v, dout = draw((batch, heads_kv * group, heads_kv, *seqs, *dims))
    options = {"scale": scale, **dict(zip(("mask_mode", "win_left", "win_right"), mask))}
    tiles = dict(zip(("block_q", "block_kv"), blocks))
    out, lse = kernels.flash_attention_forward(q, k, v, **options, **tiles)
    truth, truth_lse = oracle.forward(q, k, v, **options)
    torch.testing.assert_close(out, truth, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(lse, truth_lse.float())
    gradients = kernels.flash_attention_backward(q, k, v, dout, out, lse, **options, **tiles)
    for gradient, exact in zip(gradients, oracle.backward(q, k, v, dout, **options)):
        torch.testing.assert_close(gradient, exact, rtol=1e-5, atol=2e-6)  # the lse between the two is float32


@pytest.mark.parametrize("mask", [(0, -1, -1), (3, -1, -1), (4, 5, 2)])
def test_the_oracle_backward_is_the_derivative_of_its_forward(mask):
    q, k, v, dout = draw((1, 4, 2, 9, 7, 3, 5))
    options = dict(zip(("mask_mode", "win_left", "win_right"), mask))
    inputs = [x.requires_grad_() for x in (q, k, v)]
    by_autograd = torch.autograd.grad(oracle.forward(*inputs, **options)[0], inputs, dout)
    for gradient, exact in zip(oracle.backward(q, k, v, dout, **options), by_autograd):
        torch.testing.assert_close(gradient, exact.nan_to_num(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mask", [(0, -1, -1), (3, -1, -1), (4, 3, 1)])
def test_gradcheck(mask):
    inputs = [x.requires_grad_() for x in draw((1, 4, 2, 9, 7, 3, 2))[:3]]
    options = (0.4, *mask, 4, 3)
    assert torch.autograd.gradcheck(lambda *x: kernels.FlashAttentionFunction.apply(*x, *options)[0], inputs)
    _, lse = kernels.FlashAttentionFunction.apply(*inputs)
    assert not lse.requires_grad


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_over_many_tiles(dtype):
    q, k, v, dout = draw((1, 2, 1, 40, 2000, 16, 16), dtype)
    out, lse = kernels.flash_attention_forward(q, k, v, block_q=16, block_kv=16)
    gradients = kernels.flash_attention_backward(q, k, v, dout, out, lse, block_q=16, block_kv=16)
    assert (out.dtype, lse.dtype, *(g.dtype for g in gradients)) == (dtype, torch.float32, dtype, dtype, dtype)
    eps = torch.finfo(dtype).eps
    for got, exact in zip((out, *gradients), (oracle.forward(q, k, v)[0], *oracle.backward(q, k, v, dout))):
        assert (got.double() - exact).abs().max() <= eps * exact.abs().max()


@pytest.mark.parametrize("logit", [1e4, -1e4])
def test_extreme_logits(logit):
    q, k, v, _ = draw((1, 2, 2, 30, 50, 8, 8), torch.float32)
    q[..., 0], k[..., 0] = 1.0, logit
    out, lse = kernels.flash_attention_forward(q, k, v, scale=1.0, mask_mode=3, block_q=8, block_kv=8)
    truth, truth_lse = oracle.forward(q, k, v, scale=1.0, mask_mode=3)
    torch.testing.assert_close(out.double(), truth, rtol=0, atol=1e-2)
    torch.testing.assert_close(lse.double(), truth_lse, rtol=1e-6, atol=0)


def test_strided_inputs_are_read_right_and_left_alone():
    tensors = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in draw((2, 4, 2, 30, 20, 8, 8))]
    copies = [x.clone() for x in tensors]
    out, lse = kernels.flash_attention_forward(*tensors[:3], mask_mode=3, block_q=8, block_kv=8)
    gradients = kernels.flash_attention_backward(*tensors, out, lse, mask_mode=3, block_q=8, block_kv=8)
    torch.testing.assert_close(out, oracle.forward(*tensors[:3], mask_mode=3)[0])
    for gradient, exact in zip(gradients, oracle.backward(*tensors, mask_mode=3)):
        torch.testing.assert_close(gradient, exact, rtol=1e-5, atol=1e-6)
    assert all(torch.equal(a, b) for a, b in zip(tensors, copies))


class Largest(TorchDispatchMode):
    """Remembers the most elements that one operator's result had."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.elements = max(self.elements, result.numel())
        return result


def test_nothing_larger_than_a_tile_or_an_input():
    q, k, v, dout = draw((1, 4, 2, 1024, 1024, 16, 16), torch.float32)
    with Largest() as seen:
        out, lse = kernels.flash_attention_forward(q, k, v, block_q=64, block_kv=64)
        kernels.flash_attention_backward(q, k, v, dout, out, lse, block_q=64, block_kv=64)
    assert 0 < seen.elements <= max(q.numel(), 2 * 4 * 64 * 64)  # the backward pass keeps two tiles for each head


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_standard_attention(causal, dtype):
    q, k, v, _ = draw((2, 6, 2, 12, 9, 8, 5), dtype)
    out = kernels.scaled_dot_product_attention(q, k, v, causal=causal)
    truth = oracle.forward(q, k, v, mask_mode=3 if causal else 0)[0]
    torch.testing.assert_close(out.double(), truth, rtol=1e-3, atol=torch.finfo(dtype).eps)


def test_modules_share_parameters_and_results():
    torch.manual_seed(0)
    standard, flash = kernels.StandardAttention(96, 12), kernels.FlashAttentionV1(96, 12, block_size=32)
    flash.load_state_dict(standard.state_dict())
    x = torch.randn(2, 75, 96)
    torch.testing.assert_close(flash(x), standard(x))
    for a, b in zip(*(torch.autograd.grad(m(x).square().sum(), list(m.parameters())) for m in (standard, flash))):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)

    library = torch.nn.MultiheadAttention(96, 12, batch_first=True)
    projections = (standard.q_proj, standard.k_proj, standard.v_proj)
    with torch.no_grad():
        library.in_proj_weight.copy_(torch.cat([p.weight for p in projections]))
        library.in_proj_bias.copy_(torch.cat([p.bias for p in projections]))
        library.out_proj.load_state_dict(standard.out_proj.state_dict())
    torch.testing.assert_close(standard(x), library(x, x, x)[0])
    for module in (kernels.StandardAttention, kernels.FlashAttentionV1):
        with pytest.raises(ValueError, match="100"):
            module(100, 12)


def test_softmax():
    x = torch.randn(3, 4, 5) * 1e4
    for dim in (0, 1, -1):
        torch.testing.assert_close(kernels.softmax(x, dim), torch.softmax(x, dim))
    assert kernels.softmax(x.bfloat16()).dtype == torch.bfloat16


def test_costs():
    assert kernels.attention_cost(2, 3, 5, 7, 4, 2) == {"flops": 3360, "hbm_bytes": 2832, "score_bytes": 420}
    traffic = kernels.flash_traffic(1, 1, 4096, 4096, 64, 256, 128, 4)
    assert traffic["flops"] == 4 * 4096 * 4096 * 64
    assert traffic["hbm_bytes"] == 4 * (2 * 4096 * 64) * (1 + 4096 // 256) + 4 * 4096
    assert kernels.flash_traffic(2, 3, 5, 7, 4, 2, 3, 2)["hbm_bytes"] == 2616


def test_empty_sequences():
    nothing = torch.zeros(1, 2, 0, 4)
    some = torch.randn(1, 2, 3, 4)
    out, lse = kernels.flash_attention_forward(some, nothing, nothing)
    assert not out.any()
    assert (lse == math.inf).all()
    out, lse = kernels.flash_attention_forward(nothing, some, some)
    assert out.shape == nothing.shape
    assert lse.shape == (1, 2, 0)
