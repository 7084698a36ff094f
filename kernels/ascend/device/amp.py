"""``torch.npu.amp``: mixed precision under its older names; new code writes ``torch.autocast("npu")``."""

from __future__ import annotations

import types
from typing import Any

import torch


class autocast(torch.autocast):
    """``torch.autocast("npu")``, float16 unless another dtype is given."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True):
        super().__init__("npu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler("npu")``."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__("npu", *args, **kwargs)


namespace = types.SimpleNamespace(autocast=autocast, GradScaler=GradScaler)
