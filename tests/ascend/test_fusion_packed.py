"""npu_fusion_attention on packed sequences: layout TND, with every sparse_mode and both orders of the statistics."""

from __future__ import annotations

import itertools

import fusion_golden as golden
import pytest
import torch
from fusion_calls import FLT_MAX, causal_mask, close, draw, pieces, torch_npu

pytestmark = pytest.mark.usefixtures("chip_910b")


LENGTHS = ([3, 0, 5, 2], [4, 2, 5, 6])


@pytest.mark.parametrize("softmax_layout", ["", "TND"])
@pytest.mark.parametrize("mode", [0, 2, 3, 4, 6, 7, 8])
def test_packed_sequences(mode, softmax_layout):
    lengths_q, lengths_kv = LENGTHS
    n, nk, d, scale = 4, 2, 16, 0.3
    q, k, v = draw(10, n, d, seed=1), draw(17, nk, d, seed=2), draw(17, nk, d, seed=3)
    dy = draw(10, n, d, seed=4)
    ends = [list(itertools.accumulate(x)) for x in LENGTHS]
    prefix = [2, 2, 1, 6]
    ahead = 1 if mode == 8 else -1
    options = {"pre_tockens": 6, "next_tockens": ahead} if mode in (4, 7, 8) else {}
    if mode == 6:
        options["prefix"] = prefix
    mask = None if mode == 0 else causal_mask(3072 if mode == 6 else 2048)

    def rule(index, corner):
        band = lambda i, j: i + corner - 6 <= j <= i + corner + ahead  # noqa: E731
        if mode == 4 or (mode, index) in ((7, 3), (8, 0)):
            return band
        if mode in (2, 8):
            return lambda i, j: j <= i
        if mode in (3, 7):
            return lambda i, j: j <= i + corner
        if mode == 6:
            return lambda i, j: j <= i + corner or j < prefix[index]
        return lambda i, j: True

    given = [x.clone().npu().requires_grad_() for x in (q, k, v)]
    out, softmax_max, softmax_sum, *_ = torch_npu.npu_fusion_attention(
        *given, n, "TND", scale=scale, sparse_mode=mode, atten_mask=mask, softmax_layout=softmax_layout,
        actual_seq_qlen=ends[0], actual_seq_kvlen=ends[1], **options,
    )  # fmt: skip
    assert softmax_max.shape == softmax_sum.shape == (10, n, 8)
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    wanted = [
        golden.attention(*one, visible=golden.seen(a, b, rule(index, b - a)), scale=scale)
        for index, (one, a, b) in enumerate(
            zip(zip(*(pieces(x, y) for x, y in zip(leaves, (lengths_q, lengths_kv, lengths_kv)))), *LENGTHS)
        )
    ]
    want = torch.cat([x[0][0].transpose(0, 1) for x in wanted])
    close(out, want.detach(), torch.float32)
    for got, which in ((softmax_max, 1), (softmax_sum, 2)):
        if softmax_layout == "TND":
            blocks = torch.cat([x[which][0].mT for x in wanted])
        else:  # in memory one [N, S, 8] block per sequence, whatever the shape says
            got, blocks = got.flatten(0, 1), torch.cat([x[which].flatten() for x in wanted])
        assert torch.allclose(
            got.cpu().double(), blocks.detach()[..., None].expand(*blocks.shape, 8), rtol=1e-4, atol=1e-5
        )
    want.backward(dy.double())
    out.backward(dy.npu())
    for x, leaf in zip(given, leaves):
        close(x.grad, leaf.grad, torch.float32, factor=8)


def test_batches_that_take_no_part():
    x = draw(9, 2, 16).npu()
    short = torch_npu.npu_fusion_attention(x, x, x, 2, "TND", actual_seq_qlen=[2, 5], actual_seq_kvlen=[2, 5])
    zeros = torch_npu.npu_fusion_attention(
        x, x, x, 2, "TND", actual_seq_qlen=[2, 5, 0, 0], actual_seq_kvlen=[2, 5, 0, 0]
    )
    assert torch.equal(short[0].cpu(), zeros[0].cpu())
    assert (zeros[0].cpu()[5:] == 0).all()
    assert (zeros[1].cpu()[:5] > -FLT_MAX).all()
