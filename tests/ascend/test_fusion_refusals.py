"""What npu_fusion_attention refuses beside shapes: the order of checks, devices, chips; and what its gradient does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fusion_right_calls import NK, SKV, SQ, B, D, N, call, torch_npu, zeros

from kernels.ascend.device import soc

pytestmark = pytest.mark.usefixtures("chip_910b")


def test_the_order_of_the_host_code() -> None:
    """Of two faults the one that upstream meets first is told."""
    wrong: dict[str, Any] = {
        "head_num": 0, "query": zeros(SQ, D), "keep_prob": 2.0, "input_layout": "NBSD", "softmax_layout": "x",
        "sparse_mode": 9,
    }  # fmt: skip
    right: dict[str, Any] = {
        "head_num": N, "query": zeros(B, N, SQ, D), "keep_prob": 1.0, "input_layout": "BNSD", "softmax_layout": "",
        "sparse_mode": 0,
    }  # fmt: skip
    for name in tuple(wrong):
        with pytest.raises(RuntimeError, match=name):
            call(**wrong)
        wrong[name] = right[name]
    call(**wrong)


def test_cpu_tensors_and_mixed_devices() -> None:
    with pytest.raises(RuntimeError, match=r"device of query is cpu.*\.npu\(\)"):
        call(query=torch.zeros(B, N, SQ, D), key=torch.zeros(B, NK, SKV, D), value=torch.zeros(B, NK, SKV, D))
    with pytest.raises(RuntimeError, match=r"device of value is cpu, but query is on npu:0"):
        call(value=torch.zeros(B, NK, SKV, D, dtype=torch.float16))
    with pytest.raises(RuntimeError, match=r"device of atten_mask is cpu"):
        call(atten_mask=torch.zeros(SQ, SKV, dtype=torch.bool))


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("Ascend910A", False), ("Ascend910B", False), ("Ascend910B1", True), ("Ascend910B4", True),
        ("Ascend910_9392", True), ("Ascend950PR_9599", True), ("Ascend950DT_9591", True),
    ],
)  # fmt: skip
def test_the_chips_that_have_it(name: str, taken: bool) -> None:
    soc.use_soc(name)
    if taken:
        call()
    else:
        with pytest.raises(RuntimeError, match=f"the SoC is {name}.*Ascend910B1 to B4, Ascend910_93 and Ascend950"):
            call()
    sink = zeros(N, dtype=torch.float32)
    if soc.current_soc().family == "950":
        with pytest.raises(RuntimeError, match="sink is given, but it is not yet supported on Ascend950"):
            call(sink=sink)
    elif taken:
        call(sink=sink)


def test_a_sink_wants_16_bits() -> None:
    wide = {name: zeros(*shape, dtype=torch.float32) for name, shape in (
        ("query", (B, N, SQ, D)), ("key", (B, NK, SKV, D)), ("value", (B, NK, SKV, D)))}  # fmt: skip
    call(**wide)
    with pytest.raises(RuntimeError, match=r"dtype of query is torch\.float32, but with sink"):
        call(**wide, sink=zeros(N, dtype=torch.float32))


def grad(**changes: Any) -> Any:
    out, top, total, *_ = call()
    arguments: dict[str, Any] = {"softmax_max": top, "softmax_sum": total, "attention_in": out} | changes
    dy = arguments.pop("dy", out)
    key = zeros(B, NK, SKV, D)
    return torch_npu.npu_fusion_attention_grad(zeros(B, N, SQ, D), key, key, dy, N, "BNSD", **arguments)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(dy=zeros(SQ, D)), "rank of dy is 2"),
        (dict(dy=zeros(B, N, SQ, D, dtype=torch.bfloat16)), "dtype of dy is torch.bfloat16"),
        (dict(dy=zeros(B, N, SQ, 8)), r"shape of dy is \(2, 4, 9, 8\), but it must be \(2, 4, 9, 16\)"),
        (dict(softmax_sum=None), "softmax_sum is None"),
        (dict(softmax_max=zeros(B, N, SQ, dtype=torch.float32)), r"shape of softmax_max is \(2, 4, 9\)"),
        (dict(attention_in=None), "attention_in is None"),
        (dict(keep_prob=0.5, seed=1), "numels is 0"),
        (dict(keep_prob=-1.0), "keep_prob is -1"),
        (dict(sparse_mode=8), "sparse_mode is 8"),
    ],
)
def test_refused_by_the_gradient(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        grad(**changes)
