"""Every solution against the float64 oracle, in every regime that the course promises."""

from __future__ import annotations

import math

import pytest
import torch

from grader.paths import SOLUTIONS
from kernels import oracle

# batch, N1, N2, S1, S2, D, Dv, mask_mode, win_left, win_right, block_q, block_kv
GEOMETRIES = {
    "plain": (2, 3, 3, 64, 64, 16, 16, 0, -1, -1, 32, 32),
    "tails": (1, 2, 2, 50, 37, 8, 8, 0, -1, -1, 16, 16),
    "single": (1, 1, 1, 1, 1, 4, 4, 3, -1, -1, 128, 128),
    "one query": (2, 4, 2, 1, 70, 8, 8, 3, -1, -1, 16, 32),
    "block larger": (1, 2, 2, 20, 30, 8, 8, 3, -1, -1, 128, 64),
    "gqa causal": (2, 6, 2, 33, 47, 8, 12, 3, -1, -1, 16, 8),
    "mqa": (1, 5, 1, 40, 24, 16, 8, 0, -1, -1, 16, 16),
    "hidden rows": (1, 2, 1, 45, 20, 8, 8, 3, -1, -1, 8, 8),
    "window": (1, 2, 2, 61, 61, 8, 8, 4, 9, 3, 8, 16),
    "window left": (1, 4, 2, 40, 55, 8, 8, 4, 12, -1, 16, 8),
    "window right": (1, 2, 1, 55, 40, 8, 8, 4, -1, 7, 8, 8),
    "window diagonal": (1, 2, 2, 31, 31, 8, 8, 4, 0, 0, 8, 8),
    "window hides": (1, 2, 1, 70, 30, 8, 8, 4, 4, 5, 16, 8),
    "window open": (1, 1, 1, 30, 40, 8, 8, 4, -1, -1, 8, 8),
}


def draw(name: str, dtype: torch.dtype = torch.float32):
    batch, n1, n2, s1, s2, d, dv, mode, left, right, block_q, block_kv = GEOMETRIES[name]
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    q, k, v, dout = (
        torch.randn(shape, generator=generator).to(dtype)
        for shape in [(batch, n1, s1, d), (batch, n2, s2, d), (batch, n2, s2, dv), (batch, n1, s1, dv)]
    )
    mask = {"mask_mode": mode, "win_left": left, "win_right": right}
    return q, k, v, dout, mask, {"block_q": block_q, "block_kv": block_kv}


def close(got: torch.Tensor, expected: torch.Tensor, tolerance: float) -> None:
    torch.testing.assert_close(got.double(), expected, atol=tolerance, rtol=tolerance)


TOLERANCES = {torch.float64: 1e-12, torch.float32: 3e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_forward_and_backward(s2, name, dtype):
    q, k, v, dout, mask, blocks = draw(name, dtype)
    expected, expected_lse = oracle.forward(q, k, v, **mask)
    out, lse = s2.flash_attention_forward(q, k, v, **mask, **blocks)
    assert (out.dtype, lse.dtype, lse.shape) == (dtype, torch.float32, expected_lse.shape)
    close(out, expected, TOLERANCES[dtype])
    close(lse, expected_lse, 3e-6)

    grads = s2.flash_attention_backward(q, k, v, dout, out, lse, **mask, **blocks)
    for grad, truth, like in zip(grads, oracle.backward(q, k, v, dout, **mask), (q, k, v)):
        assert (grad.dtype, grad.shape) == (like.dtype, like.shape)
        close(grad, truth, max(4 * TOLERANCES[dtype], 3e-6))  # float64 goes through the float32 lse


@pytest.mark.parametrize("name", ["gqa causal", "window"])
def test_memory_layout_of_the_inputs_does_not_matter_and_they_are_left_alone(s2, name):
    q, k, v, dout, mask, blocks = draw(name)
    strided = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v, dout)]
    before = [x.clone() for x in strided]
    out, lse = s2.flash_attention_forward(*strided[:3], **mask, **blocks)
    grads = s2.flash_attention_backward(*strided, out, lse, **mask, **blocks)
    assert all(torch.equal(a, b) for a, b in zip(strided, before))
    expected = s2.flash_attention_forward(q, k, v, **mask, **blocks)[0]
    torch.testing.assert_close(out, expected)
    for grad, truth in zip(grads, oracle.backward(q, k, v, dout, **mask)):
        close(grad, truth, 2e-5)


@pytest.mark.parametrize("size", [1e3, 1e4])
def test_extreme_logits(s1, s2, size):
    q, k, v, _, mask, blocks = draw("gqa causal")
    q[..., 0], k[..., 0] = 1.0, -size  # every logit is about -size
    q[:, :, 5], k[:, :, 3] = 30.0, 30.0  # and one is large
    expected = oracle.forward(q, k, v, **mask)[0]
    close(s2.flash_attention_forward(q, k, v, **mask, **blocks)[0], expected, 1e-3)
    close(s1.scaled_dot_product_attention(q, k, v, causal=True), expected, 1e-3)


def test_update_and_merge(s2):
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(2, 5, 12, generator=generator, dtype=torch.float64) * 10
    values = torch.randn(2, 12, 3, generator=generator, dtype=torch.float64)
    scores[:, 1, :8] = -math.inf  # hidden in the first two tiles
    scores[:, 2] = -math.inf  # hidden everywhere
    empty = (torch.full((2, 5, 1), -math.inf).double(), torch.zeros(2, 5, 1).double(), torch.zeros(2, 5, 3).double())

    parts, state = [], empty
    for tile in (slice(0, 5), slice(5, 8), slice(8, 12)):
        state = s2.online_softmax_update(state, scores[..., tile], values[:, tile])
        parts.append(s2.online_softmax_update(empty, scores[..., tile], values[:, tile]))
    left = s2.merge_states(s2.merge_states(parts[0], parts[1]), s2.merge_states(parts[2], empty))
    right = s2.merge_states(parts[0], s2.merge_states(parts[1], parts[2]))
    for merged in (left, right):
        for a, b in zip(merged, state):
            torch.testing.assert_close(a, b)
    rows = [0, 1, 3, 4]
    close((state[2] / state[1])[:, rows], (torch.softmax(scores, -1) @ values)[:, rows], 1e-12)
    close((state[0] + state[1].log())[:, rows, 0], scores.logsumexp(-1)[:, rows], 1e-12)
    assert torch.equal(state[0][:, 2], empty[0][:, 2])
    assert not state[1][:, 2].any()
    assert not state[2][:, 2].any()


@pytest.mark.parametrize("name", GEOMETRIES)
def test_visible_tiles(s2, name):
    *_, s1, s2_, _, _, mode, left, right, block_q, block_kv = GEOMETRIES[name]
    seen = oracle.visible(s1, s2_, mode, left, right)
    expected = [
        (i, j)
        for i in range(-(-s1 // block_q))
        for j in range(-(-s2_ // block_kv))
        if seen[i * block_q : (i + 1) * block_q, j * block_kv : (j + 1) * block_kv].any()
    ]
    assert s2.visible_tiles(s1, s2_, block_q, block_kv, mode, left, right) == expected


@pytest.mark.parametrize("mask_mode", [0, 3])
def test_function(s2, mask_mode):
    q, k, v, *_ = draw("gqa causal", torch.float64)
    inputs = [x[:1, :, :9, :3].clone().requires_grad_() for x in (q, k, v)]
    options = (0.3, mask_mode, -1, -1, 4, 4)
    assert torch.autograd.gradcheck(lambda *x: s2.FlashAttentionFunction.apply(*x, *options)[0], inputs)
    out, lse = s2.FlashAttentionFunction.apply(*inputs)
    assert out.requires_grad
    assert not lse.requires_grad
    out.sum().backward()


@pytest.mark.parametrize("mask_mode", [0, 3])
def test_varlen(s2, mask_mode):
    lengths_q, lengths_kv = [7, 0, 19, 5, 1], [7, 4, 12, 0, 9]
    generator = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(sum(n), heads, 8, generator=generator) for n, heads in
               [(lengths_q, 4), (lengths_kv, 2), (lengths_kv, 2)])  # fmt: skip
    cu_q, cu_kv = (torch.tensor([0, *n]).cumsum(0).int() for n in (lengths_q, lengths_kv))
    out, lse = s2.flash_attention_varlen(q, k, v, cu_q, cu_kv, mask_mode=mask_mode, block_q=8, block_kv=8)
    for b in range(len(lengths_q)):
        one = [x[cu[b] : cu[b + 1]].transpose(0, 1)[None] for x, cu in ((q, cu_q), (k, cu_kv), (v, cu_kv))]
        expected, expected_lse = oracle.forward(*one, mask_mode=mask_mode)
        close(out[cu_q[b] : cu_q[b + 1]].transpose(0, 1), expected[0], 3e-6)
        close(lse[:, cu_q[b] : cu_q[b + 1]], expected_lse[0], 3e-6)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("name", ["plain", "gqa causal", "hidden rows", "single", "one query", "mqa"])
def test_standard_attention(s1, name, dtype, causal):
    q, k, v, *_ = draw(name, dtype)
    out = s1.scaled_dot_product_attention(q, k, v, scale=0.4, causal=causal)
    assert out.dtype == dtype
    close(out, oracle.forward(q, k, v, scale=0.4, mask_mode=3 if causal else 0)[0], TOLERANCES[dtype])


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2])
def test_softmax(s1, dim):
    x = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(3)) * 1e4
    torch.testing.assert_close(s1.softmax(x, dim), torch.softmax(x, dim))
    assert s1.softmax(x.half(), dim=dim).dtype == torch.float16


def test_modules(s1, s2):
    torch.manual_seed(4)
    standard, library = s1.StandardAttention(96, 12), torch.nn.MultiheadAttention(96, 12, batch_first=True)
    projections = [standard.q_proj, standard.k_proj, standard.v_proj]
    with torch.no_grad():
        library.in_proj_weight.copy_(torch.cat([p.weight for p in projections]))
        library.in_proj_bias.copy_(torch.cat([p.bias.normal_() for p in projections]))
        library.out_proj.load_state_dict(standard.out_proj.state_dict())
    x = torch.randn(2, 75, 96)
    torch.testing.assert_close(standard(x), library(x, x, x)[0])
    flash = s2.FlashAttentionV1(96, 12, block_size=32)
    flash.load_state_dict(standard.state_dict())
    torch.testing.assert_close(flash(x), standard(x))
    for cls in (s1.StandardAttention, s2.FlashAttentionV1):
        with pytest.raises(ValueError, match="97"):
            cls(97, 12)


def test_costs(s1, s2):
    assert s1.attention_cost(2, 3, 5, 7, 4, 2) == {"flops": 3360, "hbm_bytes": 2832, "score_bytes": 420}
    assert s2.flash_traffic(2, 3, 5, 7, 4, 2, 3, 2) == {"flops": 3360, "hbm_bytes": 2616}


@pytest.mark.parametrize("path", sorted(SOLUTIONS.glob("s[12]_*/*.py")), ids=lambda p: f"{p.parent.name[:2]}-{p.stem}")
def test_regions_are_paired_and_both_languages_guide(path):
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    marks = [line for line in lines if line.startswith("### ")]
    assert marks
    assert marks == ["### BEGIN SOLUTION", "### END SOLUTION"] * (len(marks) // 2)
    assert any(line.startswith("# zh: ") for line in lines)
    assert any(line.startswith("# en: ") for line in lines)
