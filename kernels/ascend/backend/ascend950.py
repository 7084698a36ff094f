"""Ascend 950: flash_attn_metadata, then flash_attn or flash_attn_grad of cann_ops_transformer.

Called by the signatures of torchapi_flash_attn.md and torchapi_flash_attn_grad.md, by keyword throughout: the document
and the registered schema do not agree on every position.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from kernels.ascend.backend.base import Backend, Scores, dims_of
from kernels.ascend.mask_templates import causal_template
from kernels.ascend.ops.arguments.forward_together import HEAD_DIMS


class Ascend950(Backend):
    """``ops``: the module cann_ops_transformer, or one with the same three functions."""

    name = "Ascend 950"

    def __init__(self, ops: ModuleType, device: torch.device | str = "npu"):
        self.ops, self.device = ops, torch.device(device)

    def check_head_dims(self, dim: int, dim_v: int) -> None:
        if (dim, dim_v) not in HEAD_DIMS:
            known = ", ".join(dims_of(*dims) for dims in HEAD_DIMS)
            raise RuntimeError(f"flash_attn does not take head dimension {dims_of(dim, dim_v)}; it takes {known}")

    def documents_backward(self, dtype: torch.dtype, mask_mode: int) -> bool:
        # torchapi_flash_attn_grad.md promises mask_mode 0; the kernel's source says that it covers float16 so far
        return dtype == torch.float16 and mask_mode == 0

    def _forward(self, how: Scores, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return self.ops.flash_attn(
            q, k, v, metadata=self._metadata(q, k, v, how), attn_mask=self._mask(how), softmax_scale=how.scale,
            return_softmax_lse=True, **_common(q, k, how),
        )  # fmt: skip

    def _backward(
        self, how: Scores, q: Tensor, k: Tensor, v: Tensor, dout: Tensor, attn_out: Tensor, softmax_lse: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        if how.mask_mode == 4:  # flash_attn_grad takes no -1 in a window: wider than everything is the same
            everything = q.shape[2] + k.shape[2]
            left, right = (everything if limit == -1 else limit for limit in (how.win_left, how.win_right))
            how = how._replace(win_left=left, win_right=right)
        return self.ops.flash_attn_grad(
            q, k, v, dout, attn_out, softmax_lse, metadata=self._metadata(q, k, v, how, is_grad_enabled=True),
            attn_mask=self._mask(how), softmax_scale=how.scale, **_common(q, k, how),
        )  # fmt: skip

    def _metadata(self, q: Tensor, k: Tensor, v: Tensor, how: Scores, **grad: bool) -> Tensor:
        of_value = {} if v.shape[3] == q.shape[3] else {"head_dim_v": v.shape[3]}  # older versions know no head_dim_v
        return self.ops.flash_attn_metadata(
            q.shape[1], k.shape[1], q.shape[3], batch_size=q.shape[0], **of_value, **_common(q, k, how), **grad
        )

    def _mask(self, how: Scores) -> Tensor | None:
        return None if how.mask_mode == 0 else causal_template(torch.int8, self.device)


def _common(q: Tensor, k: Tensor, how: Scores) -> dict[str, Any]:
    """What metadata and operator must be told alike."""
    return {
        "mask_mode": how.mask_mode, "win_left": how.win_left, "win_right": how.win_right,
        "max_seqlen_q": q.shape[2], "max_seqlen_kv": k.shape[2],
        "layout_q": "BNSD", "layout_kv": "BNSD", "layout_out": "BNSD",
    }  # fmt: skip
