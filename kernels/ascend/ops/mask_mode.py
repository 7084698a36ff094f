"""Which keys a query sees, by number or by name; and the mask tensor that the hardware reads tiles of."""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

from kernels.ascend.mask_templates import SIDE, causal_template

MASK_SHAPE = (SIDE, SIDE)  # the one shape that the operators take, whatever the lengths


class MaskMode(IntEnum):
    """NO_MASK: every key. CAUSAL and SLIDING_WINDOW: counted from the bottom right corner of the score matrix."""

    NO_MASK = 0
    CAUSAL = 3
    SLIDING_WINDOW = 4


def mask_mode_number(mask_mode: MaskMode | int | str, operator: str) -> int:
    """The number that the operator takes. A name may be in any case (flash_attn_grad, newest document).

    Raises RuntimeError for another name or type; whether a number is a mask is for the argument checks to say.
    """
    if isinstance(mask_mode, int):
        return int(mask_mode)
    if isinstance(mask_mode, str) and mask_mode.upper() in MaskMode.__members__:
        return MaskMode[mask_mode.upper()].value
    known = ", ".join(f"{mode.name} ({mode.value})" for mode in MaskMode)
    raise RuntimeError(f"{operator}: mask_mode {mask_mode!r} is no mask; known are {known}")


def causal_mask_tensor(device: torch.device | str = "npu") -> Tensor:
    """int8 [2048, 2048], 1 = hidden, ones above the diagonal: what attn_mask is for mask_mode 3 and 4 alike.

    The caller's own copy.
    """
    return causal_template(torch.int8, torch.device(device)).clone()
