"""The module ops_transformer: the teaching facade. It is no package of Huawei's, there is none of this name."""

from __future__ import annotations

from kernels.ascend import facade
from kernels.ascend.packages import modules


def install() -> None:
    modules.add("ops_transformer", facade.__doc__, {"FlashAttention": facade.FlashAttention})
