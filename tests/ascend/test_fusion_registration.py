"""npu_fusion_attention as PyTorch sees it: schema, tracing, autograd."""

from __future__ import annotations

import pytest
import torch
from fusion_calls import causal_mask, draw, torch_npu

pytestmark = pytest.mark.usefixtures("chip_910b")


def test_it_can_be_differentiated_once():
    q = draw(1, 2, 8, 16).npu().requires_grad_()
    out = torch_npu.npu_fusion_attention(q, q, q, 2, "BNSD", scale=0.25)
    assert [x.requires_grad for x in out[:4]] == [True, False, False, False]
    (gradient,) = torch.autograd.grad(out[0].sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="has only a first one"):
        gradient.sum().backward()


@pytest.mark.parametrize("case", ["plain", "mask", "pse", "sink", "TND", "dropout"])
def test_opcheck(case):
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_static")
    q, k = (draw(1, n, 6, 16, dtype=torch.float16, seed=n).npu().requires_grad_() for n in (4, 2))
    arguments, options = (q, k, k, 4, "BNSD"), {"scale": 0.25}
    if case == "mask":
        options |= {"sparse_mode": 3, "atten_mask": causal_mask()}
    if case == "pse":
        options["pse"] = draw(1, 4, 6, 6, dtype=torch.float16).npu().requires_grad_()
    if case == "sink":
        options["sink"] = draw(4).npu().requires_grad_()
    if case == "dropout":
        options |= {"keep_prob": 0.5, "seed": 3}
    if case == "TND":
        arguments = (*(x.detach()[0].transpose(0, 1).contiguous().requires_grad_() for x in (q, k, k)), 4, "TND")
        options |= {"actual_seq_qlen": [2, 6], "actual_seq_kvlen": [2, 6]}
    torch.library.opcheck(torch.ops.npu.npu_fusion_attention.default, arguments, options, test_utils=tests)
