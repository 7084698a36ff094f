"""The modules that appear with the emulated device: torch_npu, cann_ops_transformer, ops_transformer. All say that they
are emulated (``__emulated__``, a version that ends in ``+emulated``)."""

from __future__ import annotations

from kernels.ascend.packages import cann_ops_transformer, ops_transformer, torch_npu


def install() -> None:
    """Let the three be imported from now on, and define their operators."""
    torch_npu.install()
    cann_ops_transformer.install()
    ops_transformer.install()
