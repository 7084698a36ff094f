"""The mask tensors that the operators read tiles of, the same whatever the lengths: 1 (True) = hidden.

Built once for each dtype and device, because every call with a mask hands one in or compares with one. They are shared:
hand them to operators and read them, but never write into one.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

SIDE = 2048


@cache
@torch.inference_mode(False)  # whoever asks first, autograd may save it later
def causal_template(dtype: torch.dtype, device: torch.device) -> Tensor:
    """[2048, 2048], ones strictly above the diagonal: int8 for flash_attn, bool or uint8 for npu_fusion_attention."""
    return _built(dtype).to(device)


@cache
@torch.inference_mode(False)
def prefix_template(dtype: torch.dtype, device: torch.device) -> Tensor:
    """[3072, 2048]: causal_template, above 1024 rows whose right half is ones (npu_fusion_attention, sparse_mode 6)."""
    rows = torch.zeros(SIDE // 2, SIDE, dtype=dtype, device="cpu")
    rows[:, SIDE // 2 :] = 1
    return torch.cat([_built(dtype), rows]).to(device)


def _built(dtype: torch.dtype) -> Tensor:
    """On the CPU, where triu takes every dtype."""
    return torch.ones(SIDE, SIDE, dtype=dtype, device="cpu").triu(1)
