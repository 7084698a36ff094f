"""Ascend 910B (A2) and 910_93 (A3): npu_fusion_attention of torch_npu and its gradient.

Called by the signatures of torch_npu-npu_fusion_attention.md. softmax_lse comes from softmax_max and softmax_sum, and
for the backward they come from it: P = exp(S - max) / sum is the same with max = lse and sum = 1.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from kernels.ascend.backend.base import Backend, Scores, dims_of
from kernels.ascend.fusion.constants import FLT_MAX, MAX_HEAD_DIM, NO_LIMIT
from kernels.ascend.mask_templates import causal_template


class Ascend910B(Backend):
    """``torch_npu``: that module, or one with the same two functions."""

    name = "Ascend 910B"

    def __init__(self, torch_npu: ModuleType, device: torch.device | str = "npu"):
        self.torch_npu, self.device = torch_npu, torch.device(device)

    def check_head_dims(self, dim: int, dim_v: int) -> None:
        if not 1 <= dim_v <= dim <= MAX_HEAD_DIM:
            raise RuntimeError(
                f"npu_fusion_attention does not take head dimension {dims_of(dim, dim_v)}; "
                f"it takes 1 to {MAX_HEAD_DIM}, and Dv not above D"
            )

    def _forward(self, how: Scores, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        out, softmax_max, softmax_sum, *_ = self.torch_npu.npu_fusion_attention(
            q, k, v, q.shape[1], "BNSD", scale=how.scale, **self._seen(how)
        )
        top, total = softmax_max[..., 0], softmax_sum[..., 0]
        return out, torch.where(top == -FLT_MAX, math.inf, top + total.log())

    def _backward(
        self, how: Scores, q: Tensor, k: Tensor, v: Tensor, dout: Tensor, attn_out: Tensor, softmax_lse: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        nothing = softmax_lse == math.inf
        top, total = torch.where(nothing, -FLT_MAX, softmax_lse), torch.where(nothing, FLT_MAX, 1.0)
        eight = {
            name: x.float()[..., None].expand(*x.shape, 8).contiguous()
            for name, x in (("softmax_max", top), ("softmax_sum", total))
        }
        dq, dk, dv, *_ = self.torch_npu.npu_fusion_attention_grad(
            q, k, v, dout, q.shape[1], "BNSD", attention_in=attn_out, scale_value=how.scale, **eight, **self._seen(how)
        )
        return dq, dk, dv

    def _seen(self, how: Scores) -> dict[str, Any]:
        """mask_mode, win_left, win_right as sparse_mode, pre_tockens, next_tockens, atten_mask (True = masked)."""
        if how.mask_mode == 0:
            return {"sparse_mode": 0}
        mask = causal_template(torch.bool, self.device)
        seen: dict[str, Any] = {"sparse_mode": how.mask_mode, "atten_mask": mask}
        if how.mask_mode == 4:
            limits = (NO_LIMIT if limit == -1 else limit for limit in (how.win_left, how.win_right))
            seen["pre_tockens"], seen["next_tockens"] = limits
        return seen
