"""npu_fusion_attention and npu_fusion_attention_grad as torch.ops.npu.*: schema, device kernel, Meta, autograd.

The schemas are op-plugin's (op_plugin_functions.yaml). ``register()`` defines them, once, where no torch_npu did.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from kernels.ascend.device.memory import on_npu
from kernels.ascend.fusion.arguments import require
from kernels.ascend.fusion.constants import NO_LIMIT
from kernels.ascend.fusion.dropout import make_dropout_mask
from kernels.ascend.fusion.run import backward, backward_meta, forward, forward_meta

FORWARD = (
    "npu_fusion_attention(Tensor query, Tensor key, Tensor value, int head_num, str input_layout, Tensor? pse=None, "
    "Tensor? padding_mask=None, Tensor? atten_mask=None, float scale=1., float keep_prob=1., "
    f"int pre_tockens={NO_LIMIT}, int next_tockens={NO_LIMIT}, int inner_precise=0, int[]? prefix=None, "
    "int[]? actual_seq_qlen=None, int[]? actual_seq_kvlen=None, int sparse_mode=0, bool gen_mask_parallel=True, "
    'bool sync=False, str softmax_layout="", Tensor? sink=None, Tensor? dropout_mask=None, int seed=0, int offset=0) '
    "-> (Tensor, Tensor, Tensor, Tensor, int, int, int)"
)
BACKWARD = (
    "npu_fusion_attention_grad(Tensor query, Tensor key, Tensor value, Tensor dy, int head_num, str input_layout, *, "
    "Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, Tensor? softmax_max=None, "
    "Tensor? softmax_sum=None, Tensor? softmax_in=None, Tensor? attention_in=None, float scale_value=1., "
    f"float keep_prob=1., int pre_tockens={NO_LIMIT}, int next_tockens={NO_LIMIT}, int inner_precise=0, int seed=0, "
    "int offset=0, int numels=0, int[]? prefix=None, int[]? actual_seq_qlen=None, int[]? actual_seq_kvlen=None, "
    'int sparse_mode=0, bool gen_mask_parallel=True, bool sync=False, str softmax_layout="", Tensor? sink=None) '
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_library: torch.library.Library | None = None


def npu_fusion_attention(
    query: Tensor, key: Tensor, value: Tensor, head_num: int, input_layout: str, pse: Tensor | None = None,
    padding_mask: Tensor | None = None, atten_mask: Tensor | None = None, scale: float = 1.0, keep_prob: float = 1.0,
    pre_tockens: int = NO_LIMIT, next_tockens: int = NO_LIMIT, inner_precise: int = 0,
    prefix: Sequence[int] | None = None, actual_seq_qlen: Sequence[int] | None = None,
    actual_seq_kvlen: Sequence[int] | None = None, sparse_mode: int = 0, gen_mask_parallel: bool = True,
    sync: bool = False, softmax_layout: str = "", sink: Tensor | None = None, dropout_mask: Tensor | None = None,
    seed: int = 0, offset: int = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor, int, int, int]:  # fmt: skip
    """(attention_out, softmax_max, softmax_sum, softmax_out, seed, offset, numels).

    attention_out has the layout and dtype of query; softmax_max and softmax_sum are float32 [B, N, Sq, 8] ([T, N, 8]
    for TND), every number eight times, -FLT_MAX and +FLT_MAX in a row that sees no key; softmax_out is empty. The last
    three are what the backward needs to make the dropout mask again. Raises RuntimeError for what upstream refuses.
    """
    return torch.ops.npu.npu_fusion_attention(
        query, key, value, head_num, input_layout, pse, padding_mask, atten_mask, scale, keep_prob, pre_tockens,
        next_tockens, inner_precise, prefix, actual_seq_qlen, actual_seq_kvlen, sparse_mode, gen_mask_parallel, sync,
        softmax_layout, sink, dropout_mask, seed, offset,
    )  # fmt: skip


def npu_fusion_attention_grad(
    query: Tensor, key: Tensor, value: Tensor, dy: Tensor, head_num: int, input_layout: str, *,
    pse: Tensor | None = None, padding_mask: Tensor | None = None, atten_mask: Tensor | None = None,
    softmax_max: Tensor | None = None, softmax_sum: Tensor | None = None, softmax_in: Tensor | None = None,
    attention_in: Tensor | None = None, scale_value: float = 1.0, keep_prob: float = 1.0, pre_tockens: int = NO_LIMIT,
    next_tockens: int = NO_LIMIT, inner_precise: int = 0, seed: int = 0, offset: int = 0, numels: int = 0,
    prefix: Sequence[int] | None = None, actual_seq_qlen: Sequence[int] | None = None,
    actual_seq_kvlen: Sequence[int] | None = None, sparse_mode: int = 0, gen_mask_parallel: bool = True,
    sync: bool = False, softmax_layout: str = "", sink: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor]:  # fmt: skip
    """(dq, dk, dv, dpse, dsink) from dy and what the forward returned; dpse is None without pse, dsink then empty."""
    return torch.ops.npu.npu_fusion_attention_grad(
        query, key, value, dy, head_num, input_layout, pse=pse, padding_mask=padding_mask, atten_mask=atten_mask,
        softmax_max=softmax_max, softmax_sum=softmax_sum, softmax_in=softmax_in, attention_in=attention_in,
        scale_value=scale_value, keep_prob=keep_prob, pre_tockens=pre_tockens, next_tockens=next_tockens,
        inner_precise=inner_precise, seed=seed, offset=offset, numels=numels, prefix=prefix,
        actual_seq_qlen=actual_seq_qlen, actual_seq_kvlen=actual_seq_kvlen, sparse_mode=sparse_mode,
        gen_mask_parallel=gen_mask_parallel, sync=sync, softmax_layout=softmax_layout, sink=sink,
    )  # fmt: skip


def _npu_dropout_gen_mask(
    like: Tensor, size: Sequence[int], p: float, seed: int, offset: int, parallel: bool = True, sync: bool = False
) -> Tensor:
    """The bits that dropout_mask takes, for weights of this size, each dropped with probability p; like: any tensor."""
    require(like.device.type == "npu", "the device of self", like.device, "only npu tensors are supported")
    return on_npu(make_dropout_mask(math.prod(size), 1 - p, seed, offset))


_FORWARD = inspect.signature(npu_fusion_attention)
_BACKWARD = inspect.signature(npu_fusion_attention_grad)


def register() -> None:
    """Defines both operators for the emulated device. Called twice, it does nothing the second time."""
    global _library
    if _library is not None:
        return
    library = torch.library.Library("npu", "DEF")
    for schema in (FORWARD, BACKWARD):
        library.define(schema)
    library.impl("npu_fusion_attention", _by_name(_FORWARD, forward), "PrivateUse1")
    library.impl("npu_fusion_attention_grad", _by_name(_BACKWARD, backward), "PrivateUse1")
    for name in ("npu_fusion_attention", "npu_fusion_attention_grad"):
        library.impl(name, _not_on_the_cpu, "CPU")
    torch.library.register_fake("npu::npu_fusion_attention", _by_name(_FORWARD, forward_meta), lib=library)
    torch.library.register_fake("npu::npu_fusion_attention_grad", _by_name(_BACKWARD, backward_meta), lib=library)
    torch.library.register_autograd("npu::npu_fusion_attention", _autograd, setup_context=_remember, lib=library)
    _library = library


def _not_on_the_cpu(query: Tensor, *_rest: Any, **_options: Any) -> Any:
    require(False, "the device of query", query.device, "only npu tensors are supported: move it with .npu()")


def _by_name(signature: inspect.Signature, run: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    """run(arguments by name) as a kernel: the dispatcher leaves out arguments that have their default."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return run(bound.arguments)

    return kernel


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    options = dict(zip(_FORWARD.parameters, inputs, strict=True))
    out, row_max, row_sum, empty, seed, offset, numels = output
    ctx.mark_non_differentiable(row_max, row_sum, empty)
    names = ("query", "key", "value", "pse", "atten_mask", "sink")
    ctx.save_for_backward(*(options[name] for name in names), out, row_max, row_sum)
    handed_on = inspect.signature(npu_fusion_attention_grad).parameters.keys() & options.keys() - {*names}
    ctx.options = {name: options[name] for name in handed_on} | {
        "scale_value": options["scale"], "seed": seed, "offset": offset, "numels": numels,
    }  # fmt: skip


class _Last(torch.autograd.Function):
    """A gradient that is asked for its own derivative, which nobody computes."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, _gradient: Tensor) -> Any:
        raise RuntimeError("npu_fusion_attention_grad has no derivative: npu_fusion_attention has only a first one")


def _autograd(ctx: Any, dy: Tensor, *_unused: Any) -> tuple[Any, ...]:
    query, key, value, pse, atten_mask, sink, out, row_max, row_sum = ctx.saved_tensors
    options = dict(ctx.options)
    twice = torch.is_grad_enabled()  # backward(create_graph=True)
    with torch.no_grad():
        gradients = npu_fusion_attention_grad(
            query, key, value, dy, options.pop("head_num"), options.pop("input_layout"), pse=pse,
            atten_mask=atten_mask, sink=sink, softmax_max=row_max, softmax_sum=row_sum, attention_in=out, **options,
        )  # fmt: skip
    dq, dk, dv, dpse, dsink = (_Last.apply(x.requires_grad_()) if twice and x is not None else x for x in gradients)
    found = {"query": dq, "key": dk, "value": dv, "pse": dpse, "sink": None if sink is None else dsink}
    return tuple(found.get(name) for name in _FORWARD.parameters)
