"""The modules that appear with the emulated device: torch_npu, cann_ops_transformer, ops_transformer."""

from __future__ import annotations

import importlib.machinery
import sys
import types
from typing import Any

import torch

from kernels.ascend import facade, fusion, ops

VERSION = "0+emulated"


def make(name: str, doc: str, version: str = VERSION, **names: Any) -> types.ModuleType:
    """A module that can be imported from now on; it says that it is emulated."""
    module = types.ModuleType(name, doc)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    vars(module).update({"__path__": [], "__emulated__": True, "__version__": version, **names})
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
    return module


def install() -> None:
    release = torch.__version__.partition("+")[0]
    fusion.register()
    ops.register()
    make(
        "torch_npu",
        "torch_npu, as far as the emulated device goes",
        f"{release}+emulated",
        npu=torch.npu,  # type: ignore[attr-defined]
        **fusion.TORCH_NPU,
    )
    sys.modules["torch_npu.npu"] = torch.npu  # type: ignore[attr-defined]
    operators: dict[str, Any] = {f.__name__: f for f in (ops.flash_attn, ops.flash_attn_grad, ops.flash_attn_metadata)}
    make("cann_ops_transformer", ops.__doc__ or "", **operators)
    make("cann_ops_transformer.ops", ops.__doc__ or "", **operators)
    make("cann_ops_transformer.ops.attention", ops.__doc__ or "")
    make("cann_ops_transformer.ops.attention.flash_attn_grad", ops.__doc__ or "", MaskMode=ops.MaskMode, **operators)
    make("ops_transformer", facade.__doc__ or "", FlashAttention=facade.FlashAttention)
