"""The operators as their documents sign them, and stand-ins that record every call and check it against that.

A stand-in computes what its document says, on the CPU and from the arguments alone, so that a wrong mask, scale or
layout shows in the values.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import fusion_golden as golden
import torch
from torch import Tensor

from kernels import oracle

FLT_MAX = torch.finfo(torch.float32).max


# torchapi_flash_attn.md
def flash_attn_metadata(
    num_heads_q, num_heads_kv, head_dim, *, head_dim_v=None, cu_seqlens_q=None, cu_seqlens_kv=None, seqused_q=None,
    seqused_kv=None, batch_size=None, max_seqlen_q=None, max_seqlen_kv=None, mask_mode=None, win_left=None,
    win_right=None, layout_q=None, layout_kv=None, layout_out=None, is_grad_enabled=False,
): ...  # fmt: skip


def flash_attn(
    q, k, v, block_table=None, cu_seqlens_q=None, cu_seqlens_kv=None, seqused_q=None, seqused_kv=None, sinks=None,
    attn_mask=None, metadata=None, softmax_scale=1.0, mask_mode=0, win_left=-1, win_right=-1, max_seqlen_q=-1,
    max_seqlen_kv=-1, layout_q="BSND", layout_kv="BSND", layout_out="BSND", return_softmax_lse=False,
): ...  # fmt: skip


# torchapi_flash_attn_grad.md
def flash_attn_grad(
    q, k, v, dout, attn_out, softmax_lse, cu_seqlens_q=None, cu_seqlens_kv=None, seqused_q=None, seqused_kv=None,
    sinks=None, attn_mask=None, metadata=None, softmax_scale=0.0, mask_mode=0, win_left=-1, win_right=-1,
    max_seqlen_q=-1, max_seqlen_kv=-1, layout_q="BSND", layout_kv="BSND", layout_out="BSND",
): ...  # fmt: skip


# torch_npu-npu_fusion_attention.md
def npu_fusion_attention(
    query, key, value, head_num, input_layout, pse=None, padding_mask=None, atten_mask=None, scale=1.0, keep_prob=1.0,
    pre_tockens=2147483647, next_tockens=2147483647, inner_precise=0, prefix=None, actual_seq_qlen=None,
    actual_seq_kvlen=None, sparse_mode=0, gen_mask_parallel=True, sync=False, softmax_layout="", sink=None,
    dropout_mask=None, seed=0, offset=0,
): ...  # fmt: skip


def npu_fusion_attention_grad(
    query, key, value, dy, head_num, input_layout, *, pse=None, padding_mask=None, atten_mask=None, softmax_max=None,
    softmax_sum=None, softmax_in=None, attention_in=None, scale_value=1.0, keep_prob=1.0, pre_tockens=2147483647,
    next_tockens=2147483647, inner_precise=0, seed=0, offset=0, numels=0, prefix=None, actual_seq_qlen=None,
    actual_seq_kvlen=None, sparse_mode=0, gen_mask_parallel=True, sync=False, softmax_layout="", sink=None,
): ...  # fmt: skip


SAME_AS_METADATA = ("mask_mode", "win_left", "win_right", "max_seqlen_q", "max_seqlen_kv", "layout_q", "layout_kv",
                    "layout_out")  # fmt: skip


class StandIn(ModuleType):
    """A module whose functions have a documented signature. ``calls``: (name, arguments by name) in order."""

    def __init__(self, name: str, functions: dict[Callable[..., Any], tuple[int, Callable[..., Any]]]):
        """``functions``: documented signature -> (how many arguments may go by position, what it computes)."""
        super().__init__(name)
        self.calls: list[tuple[str, dict[str, Any]]] = []
        for documented, (positional, compute) in functions.items():
            setattr(self, documented.__name__, self._recording(documented, positional, compute))

    def _recording(self, documented: Callable[..., Any], positional: int, compute: Callable[..., Any]) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            assert len(args) <= positional, f"{documented.__name__}: argument {positional + 1} must go by keyword"
            bound = inspect.signature(documented).bind(*args, **kwargs)  # TypeError for what is not in the document
            bound.apply_defaults()
            self.calls.append((documented.__name__, dict(bound.arguments)))
            return compute(self, **bound.arguments)

        return call


def cann_ops_transformer() -> StandIn:
    return StandIn("cann_ops_transformer", {
        flash_attn_metadata: (3, _metadata), flash_attn: (3, _flash_attn), flash_attn_grad: (6, _flash_attn_grad),
    })  # fmt: skip


def torch_npu() -> StandIn:
    return StandIn("torch_npu", {npu_fusion_attention: (5, _fusion), npu_fusion_attention_grad: (6, _fusion_grad)})


def _metadata(module: StandIn, **told: Any) -> Tensor:
    assert told["mask_mode"] in (0, 3, 4)
    assert told["batch_size"] > 0
    return torch.full((4096,), len(module.calls) - 1, dtype=torch.int32)  # which call it came from


def _judge(module: StandIn, told: dict[str, Any]) -> dict[str, Any]:
    name, metadata = module.calls[int(told["metadata"][0])]
    assert name == "flash_attn_metadata"
    for argument in SAME_AS_METADATA:
        assert metadata[argument] == told[argument], argument
    q, k, v = told["q"], told["k"], told["v"]
    assert told["layout_q"] == told["layout_kv"] == told["layout_out"] == "BNSD"
    assert (metadata["num_heads_q"], metadata["num_heads_kv"]) == (q.shape[1], k.shape[1])
    assert (metadata["head_dim"], metadata["head_dim_v"] or metadata["head_dim"]) == (q.shape[3], v.shape[3])
    assert (metadata["batch_size"], told["max_seqlen_q"], told["max_seqlen_kv"]) == (q.shape[0], q.shape[2], k.shape[2])
    assert q.dtype == k.dtype == v.dtype
    assert q.dtype in (torch.float16, torch.bfloat16)
    assert k.is_contiguous()
    assert v.is_contiguous()
    _mask(told["mask_mode"], told["attn_mask"], torch.int8)
    if told["mask_mode"] != 4:
        assert told["win_left"] == told["win_right"] == -1
    window = {name: told[name] for name in ("mask_mode", "win_left", "win_right")}
    return {"scale": told["softmax_scale"], **window}


def _mask(mode: int, mask: Tensor | None, dtype: torch.dtype) -> None:
    if mode == 0:
        assert mask is None
    else:
        assert mask is not None
        assert mask.dtype == dtype
        assert torch.equal(mask.int(), torch.ones(2048, 2048).triu(1).int())


def _flash_attn(module: StandIn, **told: Any) -> tuple[Tensor, Tensor]:
    assert told["return_softmax_lse"]
    out, lse = oracle.forward(told["q"], told["k"], told["v"], **_judge(module, told))
    return out.to(told["q"].dtype), lse.float()


def _flash_attn_grad(module: StandIn, **told: Any) -> tuple[Tensor, ...]:
    how = _judge(module, told)
    assert module.calls[int(told["metadata"][0])][1]["is_grad_enabled"]
    assert how["scale"] != 0.0
    if how["mask_mode"] == 4:  # stricter than the forward: fag_attr_checker
        assert how["win_left"] >= 0
        assert how["win_right"] >= 0
    wanted = oracle.forward(told["q"], told["k"], told["v"], **how)
    assert torch.allclose(told["attn_out"].double(), wanted[0], atol=2e-2)
    assert torch.allclose(told["softmax_lse"].double(), wanted[1], atol=1e-4)
    gradients = oracle.backward(told["q"], told["k"], told["v"], told["dout"], **how)
    return tuple(x.to(told["q"].dtype) for x in gradients)


def _fusion_scores(told: dict[str, Any]) -> dict[str, Any]:
    q, k = told["query"], told["key"]
    assert told["input_layout"] == "BNSD"
    assert told["head_num"] == q.shape[1]
    mode, corner, rows, cols = told["sparse_mode"], k.shape[2] - q.shape[2], q.shape[2], k.shape[2]
    _mask(mode, told["atten_mask"], torch.bool)
    left, right = told["pre_tockens"], told["next_tockens"]
    rules: dict[int, Callable[[int, int], bool]] = {
        0: lambda i, j: True,
        3: lambda i, j: j <= i + corner,
        4: lambda i, j: i + corner - left <= j <= i + corner + right,
    }
    return {"visible": golden.seen(rows, cols, rules[mode])}


def _fusion(module: StandIn, **told: Any) -> tuple[Any, ...]:
    out, top, total = golden.attention(
        told["query"], told["key"], told["value"], scale=told["scale"], **_fusion_scores(told)
    )
    eight = (x.float()[..., None].expand(*x.shape, 8).contiguous() for x in (top, total))
    return out.to(told["query"].dtype), *eight, torch.empty(0), 0, 0, out.numel()


def _fusion_grad(module: StandIn, **told: Any) -> tuple[Any, ...]:
    """From softmax_max and softmax_sum alone, as the operator does it."""
    q, k, v, dy, out = (told[name].double() for name in ("query", "key", "value", "dy", "attention_in"))
    group = q.shape[1] // k.shape[1]
    keys, values = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = (told["scale_value"] * (q @ keys.mT)).masked_fill(~_fusion_scores(told)["visible"], -math.inf)
    for name in ("softmax_max", "softmax_sum"):
        assert told[name].shape == (*q.shape[:3], 8)
        assert told[name].dtype == torch.float32
        assert torch.isfinite(told[name]).all()
    p = torch.exp(scores - told["softmax_max"][..., :1].double()) / told["softmax_sum"][..., :1].double()
    ds = p * (dy @ values.mT - (dy * out).sum(dim=-1, keepdim=True))
    dq = told["scale_value"] * ds @ keys
    dk, dv = told["scale_value"] * ds.mT @ q, p.mT @ dy
    per_head = (dk.unflatten(1, (k.shape[1], -1)).sum(2), dv.unflatten(1, (k.shape[1], -1)).sum(2))
    return *(x.to(told["query"].dtype) for x in (dq, *per_head)), None, torch.empty(0)
