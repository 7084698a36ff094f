"""Numbers of npu_fusion_attention that several modules need."""

from __future__ import annotations

import torch

FLT_MAX = torch.finfo(torch.float32).max  # softmax_max is -FLT_MAX and softmax_sum FLT_MAX in a row that sees no key
NO_LIMIT = 2147483647  # pre_tockens or next_tockens without a bound
MAX_HEAD_DIM = 768
