"""npu_fusion_attention and its gradient against the formula in float64: layouts, dtypes, groups of heads, sinks."""

from __future__ import annotations

import fusion_golden as golden
import pytest
import torch
from fusion_calls import LAYOUTS, causal_mask, check, draw, everything, torch_npu

pytestmark = pytest.mark.usefixtures("chip_910b")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_dtypes(layout, dtype):
    check(everything(), layout=layout, dtype=dtype)


@pytest.mark.parametrize(("n", "nk"), [(4, 4), (4, 1), (6, 3)])
def test_groups_of_query_heads(n, nk):
    check(golden.seen(9, 13, lambda i, j: j <= i + 4), n=n, nk=nk, sparse_mode=3, atten_mask=causal_mask())


def test_value_heads_may_be_narrower():
    for layout in LAYOUTS:
        check(everything(), dv=8, layout=layout)


def test_layout_names_in_any_case():
    check(everything(), layout="BSND")
    q = draw(2, 9, 4, 16).npu()
    small, large = (torch_npu.npu_fusion_attention(q, q, q, 4, name)[0].cpu() for name in ("bsnd", "BSND"))
    assert torch.equal(small, large)


def test_views_are_read_as_they_are():
    wide = draw(2, 9, 3, 4, 16).npu()  # query, key and value of one projection, [B, S, 3, N, D]
    views = [wide[:, :, i] for i in range(3)]
    copies = [x.contiguous() for x in views]
    for heads_first in (False, True):
        layout = "BNSD" if heads_first else "BSND"
        pairs = [[x.transpose(1, 2) if heads_first else x for x in xs] for xs in (views, copies)]
        one, other = (torch_npu.npu_fusion_attention(*xs, 4, layout, scale=0.3)[0].cpu() for xs in pairs)
        assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_sink_is_one_more_logit_without_a_value(dtype):
    sink = draw(4, seed=5)
    check(everything(), sink=sink, dtype=dtype)
    visible = golden.seen(13, 9, lambda i, j: j <= i - 4)
    outputs = check(visible, sq=13, skv=9, sink=sink, dtype=dtype, sparse_mode=3, atten_mask=causal_mask())
    assert (outputs[0].cpu()[:, :, :4] == 0).all()
    assert torch.equal(outputs[1].cpu()[0, :, 0, 0], sink)


def test_the_gradient_operator_itself():
    q, k = draw(2, 4, 9, 16, seed=1).npu(), draw(2, 2, 13, 16, seed=2).npu()
    out, top, total, *_ = torch_npu.npu_fusion_attention(q, k, k, 4, "BNSD", scale=0.25)
    dq, dk, dv, dpse, dsink = torch_npu.npu_fusion_attention_grad(
        q, k, k, out, 4, "BNSD", softmax_max=top, softmax_sum=total, attention_in=out, scale_value=0.25
    )
    assert (dq.shape, dk.shape, dv.shape) == (q.shape, k.shape, k.shape)
    assert dpse is None
    assert dsink.shape == (0,)
    assert dsink.dtype == torch.float32
    with pytest.raises(RuntimeError, match="softmax_max is None"):
        torch_npu.npu_fusion_attention_grad(q, k, k, out, 4, "BNSD", attention_in=out)
