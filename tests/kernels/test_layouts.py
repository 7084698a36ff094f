"""What the layouts promise beyond the values, which test_operator_cases.py judges."""

from __future__ import annotations

import pytest
import torch

from kernels import flash_attention_varlen, oracle
from kernels.layouts import attention_forward, sequences


def test_sequences_are_views():
    x = torch.zeros(2, 5, 3, 4)
    for view in sequences(x, "BSND", seqused=torch.tensor([2, 5])):
        view += 1
    assert x[0, :2].all()
    assert x[1].all()
    assert not x[0, 2:].any()
    packed = torch.arange(24.0).view(6, 2, 2)
    views = sequences(packed, "TND", torch.tensor([0, 2, 2, 6]))
    assert [view.shape for view in views] == [(1, 2, 2, 2), (1, 2, 0, 2), (1, 2, 4, 2)]
    assert torch.equal(views[2][0, 1], packed[2:, 1])


@pytest.mark.parametrize(("layout", "cu_seqlens"), [("TND", None), ("BSND", torch.tensor([0, 1])), ("BSH", None)])
def test_what_does_not_go_together_is_refused(layout, cu_seqlens):
    with pytest.raises(ValueError, match="layout"):
        sequences(torch.zeros(1, 2, 3, 4), layout, cu_seqlens)


@pytest.mark.parametrize("mask_mode", [0, 3])
def test_varlen(mask_mode):
    lengths_q, lengths_kv = torch.tensor([3, 0, 9, 4]), torch.tensor([5, 6, 2, 0])
    starts_q, starts_kv = (torch.cat([torch.zeros(1), x.cumsum(0)]).int() for x in (lengths_q, lengths_kv))
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(n, heads, 4, generator=generator) for n, heads in ((16, 4), (13, 2), (13, 2)))
    out, lse = flash_attention_varlen(q, k, v, starts_q, starts_kv, mask_mode=mask_mode, block_q=4, block_kv=4)
    assert out.shape == (16, 4, 4)
    assert lse.shape == (4, 16)
    for a, b, c, d in zip(starts_q, starts_q[1:], starts_kv, starts_kv[1:]):
        one = [x.transpose(0, 1)[None] for x in (q[a:b], k[c:d], v[c:d])]
        truth, truth_lse = oracle.forward(*one, mask_mode=mask_mode)
        torch.testing.assert_close(out[a:b].transpose(0, 1).double(), truth[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(lse[:, a:b], truth_lse[0].float())


def test_layouts_of_one_problem_agree():
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(2, n, heads, 8, generator=generator) for n, heads in ((7, 4), (9, 2), (9, 2)))
    out, lse = attention_forward(q, k, v, mask_mode=3)
    q_n, k_n, v_n = (x.transpose(1, 2) for x in (q, k, v))
    for layout_out in ("BNSD", "BSND"):
        other, other_lse = attention_forward(
            q_n, k_n, v_n, layout_q="BNSD", layout_kv="BNSD", layout_out=layout_out, mask_mode=3
        )
        torch.testing.assert_close(other if layout_out == "BSND" else other.transpose(1, 2), out)
        torch.testing.assert_close(other_lse, lse)
    packed, packed_lse = flash_attention_varlen(
        q.flatten(0, 1),
        k.flatten(0, 1),
        v.flatten(0, 1),
        torch.tensor([0, 7, 14]),
        torch.tensor([0, 9, 18]),
        mask_mode=3,
    )
    torch.testing.assert_close(packed.view(out.shape), out)
    torch.testing.assert_close(packed_lse.view(4, 2, 7).transpose(0, 1), lse)
