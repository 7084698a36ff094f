"""``torch.autocast("npu")``: which operators compute in the low precision and which in float32, as on other devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
_Excluding = torch._C._ExcludeDispatchKeyGuard  # as it is now: who watches operators may take it from programs
_AUTOCAST = torch._C.DispatchKeySet(torch._C._dispatch_key_parse("AutocastPrivateUse1"))

LOW = (
    "mm", "bmm", "mv", "matmul", "linear", "addmm", "addmv", "addr", "addbmm", "baddbmm", "chain_matmul",
    "linalg_multi_dot", "linalg_vecdot", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d",
    "conv_transpose2d.input", "conv_transpose3d.input", "convolution", "prelu", "scaled_dot_product_attention",
    "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell",
)  # fmt: skip
FLOAT32 = (
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "sinh",
    "tan", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "softplus", "layer_norm", "native_layer_norm",
    "group_norm", "norm.Scalar", "norm.ScalarOpt_dim", "cosine_similarity",
    "poisson_nll_loss", "cosine_embedding_loss", "nll_loss", "nll_loss2d", "hinge_embedding_loss", "kl_div", "l1_loss",
    "smooth_l1_loss", "huber_loss", "mse_loss", "margin_ranking_loss", "multilabel_margin_loss", "soft_margin_loss",
    "triplet_margin_loss", "multi_margin_loss", "binary_cross_entropy_with_logits", "cross_entropy_loss", "dist",
    "pdist", "cdist", "renorm", "logsumexp", "softmax.int", "log_softmax.int", "_softmax", "_log_softmax", "prod",
    "prod.dim_int", "cumprod", "cumsum", "sum", "sum.dim_IntList",
)  # fmt: skip
WIDEST = ("addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sampler", "index_put", "tensordot",
          "scatter_add", "cat", "stack")  # fmt: skip
LOW_TYPES = (torch.float16, torch.bfloat16)

_libraries: list[torch.library.Library] = []


def register() -> None:
    ours = torch.library.Library("aten", "IMPL")
    for names, precision in ((LOW, _chosen), (FLOAT32, _float32), (WIDEST, _widest)):
        for name in names:
            base, _, overload = name.partition(".")
            op = getattr(getattr(aten, base), overload or "default")
            ours.impl(name, _casting(op, precision), "AutocastPrivateUse1")
    ours.impl("binary_cross_entropy", _refused, "AutocastPrivateUse1")
    _libraries.append(ours)


def _casting(op: Any, precision: Callable[[Any], torch.dtype]) -> Callable[..., Any]:
    def cast_and_call(*args: Any, **kwargs: Any) -> Any:
        with _Excluding(_AUTOCAST):
            dtype = precision(args)
            return op(*(_cast(value, dtype) for value in args), **{name: _cast(v, dtype) for name, v in kwargs.items()})

    return cast_and_call


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype) if _casts(value) else value
    if type(value) in (list, tuple):
        return [_cast(item, dtype) for item in value]
    return value


def _casts(value: Tensor) -> bool:
    return not value.is_cpu and value.is_floating_point() and value.dtype is not torch.float64


def _chosen(args: Any) -> torch.dtype:
    return torch.get_autocast_dtype("npu")


def _float32(args: Any) -> torch.dtype:
    return torch.float32


def _widest(args: Any) -> torch.dtype:
    """float32 when one of the tensors has it, else the low precision."""
    return torch.float32 if any(map(_is_float32, args)) else torch.get_autocast_dtype("npu")


def _is_float32(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.dtype is torch.float32
    return type(value) in (list, tuple) and any(map(_is_float32, value))


def _refused(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast. "
        "Use binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss."
    )
