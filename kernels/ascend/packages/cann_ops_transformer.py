"""The module cann_ops_transformer: the attention of the 950, under all the names that upstream gives it."""

from __future__ import annotations

from kernels.ascend import ops
from kernels.ascend.packages import modules

OPERATORS = {
    "flash_attn": ops.flash_attn,
    "flash_attn_metadata": ops.flash_attn_metadata,
    "flash_attn_grad": ops.flash_attn_grad,
}


def install() -> None:
    ops.register()
    modules.add("cann_ops_transformer", __doc__, OPERATORS)
    modules.add("cann_ops_transformer.ops", __doc__, OPERATORS)
    modules.add("cann_ops_transformer.ops.attention", __doc__, {})
    for name, operator in OPERATORS.items():
        modules.add(f"cann_ops_transformer.ops.attention.{name}", __doc__, {name: operator, "MaskMode": ops.MaskMode})
