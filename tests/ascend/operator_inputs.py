"""Small inputs of flash_attn on the device, its usual options, and their metadata."""

from __future__ import annotations

from typing import Any

import torch
from operator_calls import metadata_of

OPTIONS: dict[str, Any] = {
    "mask_mode": 0, "win_left": -1, "win_right": -1, "layout_q": "BSND", "layout_kv": "BSND", "layout_out": "BSND",
    "softmax_scale": 0.125,
}  # fmt: skip


def qkv(requires_grad: bool = False) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(2, length, heads, 64, generator=generator).half().npu().requires_grad_(requires_grad)
            for name, length, heads in (("q", 33, 4), ("k", 47, 2), ("v", 47, 2))}  # fmt: skip


def grad_metadata(tensors: dict[str, torch.Tensor], **changed: Any) -> torch.Tensor:
    return metadata_of(tensors | OPTIONS | changed, is_grad_enabled=True)
