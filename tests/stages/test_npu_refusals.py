"""What the checks of stage 3 take an operator's refusal for, held to what the emulated operators really say."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch

import kernels.ascend
from grader.course import catalog

LENGTHS = {"max_seqlen_q": 8, "max_seqlen_kv": 8}


def calls() -> Any:
    return import_module(f"flashdojo_stages.{catalog.load().stage('s3').folder}.npu_calls")


def attend(plan: dict[str, Any] | None = None, size: int = 8, **changes: Any) -> Any:
    """One call of flash_attn, right but for ``changes``; ``plan``: other arguments for the metadata."""
    from cann_ops_transformer import flash_attn, flash_attn_metadata

    q, k, v = (torch.randn(1, size, 2, 64).half().npu() for _ in range(3))
    layouts = dict.fromkeys(("layout_q", "layout_kv", "layout_out"), "BSND")
    shared = {"mask_mode": 0, "win_left": -1, "win_right": -1, **LENGTHS, **layouts}
    planned = {"batch_size": 1, **shared, **(plan or {})}
    given = {"q": q, "k": k, "v": v, "softmax_scale": 0.125, "return_softmax_lse": True, **shared, **changes}
    given.setdefault("metadata", None)
    if plan is not None:
        given["metadata"] = flash_attn_metadata(2, 2, 64, **planned)
    return flash_attn(**given)


def template() -> torch.Tensor:
    return torch.ones(2048, 2048, dtype=torch.int8).triu(1).npu()


def differentiated() -> None:
    q = torch.randn(1, 8, 2, 64).half().npu().requires_grad_()
    attend({"is_grad_enabled": False}, q=q)[0].sum().backward()


def packed(first: int) -> None:
    from cann_ops_transformer import flash_attn_metadata

    cu = torch.tensor([first, 3, 8], dtype=torch.int32).npu()
    layouts = dict.fromkeys(("layout_q", "layout_kv", "layout_out"), "TND")
    flash_attn_metadata(2, 2, 64, cu_seqlens_q=cu, cu_seqlens_kv=cu, mask_mode=0, win_left=-1, win_right=-1, **layouts)


def fused(**changes: Any) -> None:
    import torch_npu

    kernels.ascend.device.soc.use_soc("Ascend910B3")
    try:
        q, k, v = (torch.randn(1, 8, 2, 64).half().npu() for _ in range(3))
        torch_npu.npu_fusion_attention(q, k, v, 2, "BSND", **changes)
    finally:
        kernels.ascend.device.soc.use_soc("Ascend950PR_9589")


def some(dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.randn(1, 8, 2, 64).to(dtype)


def by_position() -> None:
    from cann_ops_transformer import flash_attn

    q, k, v = (some().npu() for _ in range(3))
    flash_attn(q, k, v, template(), None, 0.125)


REFUSED: list[tuple[str, Callable[[], Any]]] = [
    ("operator-by-position", by_position),
    ("mixed-devices", lambda: attend({}, k=some())),
    ("mixed-devices", lambda: attend({}, q=some(), k=some(), v=some())),
    ("mixed-devices", lambda: fused(atten_mask=torch.ones(8, 8, dtype=torch.bool))),
    ("mixed-devices", lambda: attend({"mask_mode": 3}, mask_mode=3, attn_mask=template().cpu())),
    ("metadata-without-gradients", differentiated),
    ("metadata-missing", attend),
    ("metadata-missing", lambda: attend(metadata=torch.zeros(64, dtype=torch.int32).npu())),
    ("metadata-mismatch", lambda: attend({"max_seqlen_kv": 7})),
    ("mask-tensor-missing", lambda: attend({"mask_mode": 3}, mask_mode=3)),
    ("mask-tensor-unwanted", lambda: attend({}, attn_mask=template())),
    ("mask-tensor-wrong", lambda: attend({"mask_mode": 3}, mask_mode=3, attn_mask=template()[:8, :8].contiguous())),
    ("mask-tensor-wrong", lambda: fused(atten_mask=torch.ones(8, 8).npu())),
    ("kv-not-contiguous", lambda: attend({}, k=some().transpose(1, 2).contiguous().transpose(1, 2).npu())),
    ("operator-dtype", lambda: attend({}, q=some(torch.float32).npu())),
    ("window-without-mode", lambda: attend({"win_left": 3}, win_left=3)),
    ("layout-arguments", lambda: attend({"layout_q": "TND", "layout_kv": "TND", "layout_out": "TND"})),
    ("varlen-no-leading-zero", lambda: packed(1)),
]


@pytest.mark.parametrize(("idea", "call"), REFUSED, ids=[f"{idea}-{n}" for n, (idea, _) in enumerate(REFUSED)])
def test_a_refusal_of_the_operators_has_its_name(idea: str, call: Callable[[], Any]) -> None:
    kernels.ascend.install()
    with pytest.raises(RuntimeError) as refused:
        call()
    assert calls().idea_behind(str(refused.value)) == idea, str(refused.value)


def test_every_row_is_tried() -> None:
    assert {name for _, name in calls().REFUSALS} == {idea for idea, _ in REFUSED}


def test_the_first_fault_is_what_counts() -> None:
    told = "flash_attn: q is float32: it must be float16 or bfloat16\n  also: metadata was made for other arguments"
    assert calls().idea_behind(told) == "operator-dtype"
