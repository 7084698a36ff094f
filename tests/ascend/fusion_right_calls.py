"""Calls of npu_fusion_attention that are right, and one change each."""

from __future__ import annotations

from typing import Any

import torch

import kernels.ascend

kernels.ascend.install()
import torch_npu  # noqa: E402

B, N, NK, SQ, SKV, D = 2, 4, 2, 9, 13, 16


def zeros(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.zeros(*shape, dtype=dtype, device="npu")


def call(**changes: Any) -> Any:
    arguments: dict[str, Any] = {
        "query": zeros(B, N, SQ, D), "key": zeros(B, NK, SKV, D), "value": zeros(B, NK, SKV, D), "head_num": N,
        "input_layout": "BNSD",
    }  # fmt: skip
    return torch_npu.npu_fusion_attention(**arguments | changes)


def packed(**changes: Any) -> Any:
    arguments: dict[str, Any] = {
        "query": zeros(5, N, D), "key": zeros(7, NK, D), "value": zeros(7, NK, D), "head_num": N,
        "input_layout": "TND", "actual_seq_qlen": [2, 5], "actual_seq_kvlen": [3, 7],
    }  # fmt: skip
    return torch_npu.npu_fusion_attention(**arguments | changes)


def mask(*shape: int, dtype: torch.dtype = torch.bool) -> torch.Tensor:
    return torch.ones(*shape).triu(1).to(dtype).npu()
