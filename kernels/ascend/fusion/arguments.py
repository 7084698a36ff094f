"""What npu_fusion_attention refuses, in the order of its host code; every error names argument, value and rule.

First the checks of the Python operator (FlashAttentionKernelNpuOpApi.cpp), then the chip, then what the operator behind
it wants of dtypes, shapes, masks (torch_npu-npu_fusion_attention.md, constraints). Stricter than upstream where
upstream computes something silently wrong: the content of a compressed mask, cumulative lengths that fall.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from kernels.ascend.device.alias import cpu_alias
from kernels.ascend.fusion.constants import MAX_HEAD_DIM
from kernels.ascend.fusion.masks import COMPRESSED
from kernels.ascend.fusion.shapes import RANKS, Shapes, sequence_ends
from kernels.ascend.mask_templates import causal_template, prefix_template
from kernels.machine.chips import RUNS_ON, has

FLOATS = (torch.float16, torch.bfloat16, torch.float32)
MILLION = 1 << 20  # the document's 1M


def require(condition: bool, argument: str, value: object, rule: str) -> None:
    if not condition:
        raise RuntimeError(f"npu_fusion_attention: {argument} is {value}, but {rule}")


def check_host(
    query: Tensor, key: Tensor, value: Tensor, head_num: int, input_layout: str, keep_prob: float,
    actual_seq_qlen: Sequence[int] | None, actual_seq_kvlen: Sequence[int] | None, sparse_mode: int,
    softmax_layout: str, dy: Tensor | None = None,
) -> None:  # fmt: skip
    """The checks that need no device."""
    require(head_num > 0, "head_num", head_num, "it must be greater than 0")
    for name, x in (("query", query), ("key", key), ("value", value), ("dy", dy)):
        if x is not None:
            require(x.dim() in (3, 4), f"the rank of {name}", x.dim(), "it must be 3 or 4")
    require(0 < keep_prob <= 1, "keep_prob", keep_prob, "it must be in (0, 1]")
    names = ", ".join(RANKS)
    require(input_layout.upper() in RANKS, "input_layout", repr(input_layout), f"it must be one of {names}")
    require(softmax_layout in ("", "TND"), "softmax_layout", repr(softmax_layout), 'it must be "" or "TND"')
    packed = input_layout == "TND"  # upstream compares before it upper-cases: "tnd" is judged as the other layouts
    require(packed or not softmax_layout, "softmax_layout", repr(softmax_layout), 'it is for input_layout "TND" only')
    if packed:
        fits, rule = 0 <= sparse_mode <= 8 and sparse_mode != 5, "with TND it must be in [0, 5) or (5, 8]"
    else:
        fits, rule = 0 <= sparse_mode <= 6, f"with {input_layout} it must be in [0, 6]"
    require(fits, "sparse_mode", sparse_mode, rule)
    if input_layout.upper() == "TND":
        ends_q, ends_kv = list(actual_seq_qlen or ()), list(actual_seq_kvlen or ())
        require(bool(ends_q), "actual_seq_qlen", actual_seq_qlen, "TND needs the cumulative lengths, e.g. [2, 5, 9]")
        require(bool(ends_kv), "actual_seq_kvlen", actual_seq_kvlen, "TND needs the cumulative lengths, e.g. [2, 5, 9]")
        rule = f"it must be as long as actual_seq_qlen, {len(ends_q)}"
        require(len(ends_q) == len(ends_kv), "the length of actual_seq_kvlen", len(ends_kv), rule)


def check_chip(soc: str, family: str, sink: Tensor | None) -> None:
    """Which chips have the operator: Atlas A2 (910B), A3 (910_93) and 950."""
    rule = f"npu_fusion_attention runs on {RUNS_ON['npu_fusion_attention']} only"
    require(has("npu_fusion_attention", family), "the SoC", soc, rule)
    require(sink is None or family != "950", "sink", "given", "it is not yet supported on Ascend950")


def shapes_of(
    query: Tensor, key: Tensor, value: Tensor, head_num: int, input_layout: str,
    actual_seq_qlen: Sequence[int] | None, actual_seq_kvlen: Sequence[int] | None,
) -> Shapes:  # fmt: skip
    """The sizes of the call; raises RuntimeError when query, key, value and the lengths do not fit together."""
    layout = input_layout.upper()
    tensors = {"query": query, "key": key, "value": value}
    require(query.dtype in FLOATS, "the dtype of query", query.dtype, "it must be float16, bfloat16 or float32")
    for name, x in tensors.items():
        require(x.dtype == query.dtype, f"the dtype of {name}", x.dtype, f"it must be that of query, {query.dtype}")
        rank = RANKS[layout]
        require(x.dim() == rank, f"the rank of {name}", x.dim(), f"layout {layout} has rank {rank}")
        require(0 not in x.shape, f"the shape of {name}", tuple(x.shape), "no dimension may be 0")
    (batch, seq_q, heads, dim), (batch_kv, seq_kv, heads_kv, dim_k), (batch_v, seq_v, heads_v, dim_v) = _sizes(
        query, key, value, layout, head_num
    )
    require(heads == head_num, "head_num", head_num, f"query {tuple(query.shape)} in {layout} has {heads} heads")
    require(batch_kv == batch, "the batch size of key", batch_kv, f"it must be that of query, {batch}")
    require(batch_v == batch, "the batch size of value", batch_v, f"it must be that of query, {batch}")
    require(seq_v == seq_kv, "the length of value", seq_v, f"it must be that of key, {seq_kv}")
    require(dim_k == dim, "the head dimension of key", dim_k, f"it must be that of query, {dim}")
    require(heads_v == heads_kv, "the number of heads of value", heads_v, f"it must be that of key, {heads_kv}")
    rule = f"it must divide the heads of query, {heads}"
    require(heads % heads_kv == 0, "the number of heads of key", heads_kv, rule)
    require(1 <= dim <= MAX_HEAD_DIM, "the head dimension of query", dim, f"it must be in [1, {MAX_HEAD_DIM}]")
    require(dim_v <= dim, "the head dimension of value", dim_v, f"it must not exceed that of key, {dim}")
    require(heads <= 256, "head_num", heads, "it must be in [1, 256]")
    require(batch <= 2 * MILLION, "the batch size of query", batch, f"it must be in [1, {2 * MILLION}]")
    for name, length in (("query", seq_q), ("key", seq_kv)):  # of all sequences together with TND
        require(length <= MILLION, f"the length of {name}", length, f"it must be in [1, {MILLION}]")
    if layout != "TND":
        return Shapes(layout, batch, heads, heads_kv, seq_q, seq_kv, dim, dim_v)
    ends_q = _ends("actual_seq_qlen", actual_seq_qlen or (), "query", seq_q)
    ends_kv = _ends("actual_seq_kvlen", actual_seq_kvlen or (), "key", seq_kv)
    both = max(len(ends_q), len(ends_kv))
    ends_q, ends_kv = (ends + ends[-1:] * (both - len(ends)) for ends in (ends_q, ends_kv))
    longest_q = max(b - a for a, b in pairwise(ends_q))
    longest_kv = max(b - a for a, b in pairwise(ends_kv))
    return Shapes(layout, both - 1, heads, heads_kv, longest_q, longest_kv, dim, dim_v, ends_q, ends_kv)


def check_mask(
    shapes: Shapes, sparse_mode: int, atten_mask: Tensor | None, pre_tockens: int, next_tockens: int,
    prefix: Sequence[int] | None, inner_precise: int, *, content: bool,
) -> None:  # fmt: skip
    """Mask, band and prefix. Without content only the form of the mask is judged: while tracing it has none."""
    require(inner_precise in (0, 1, 2), "inner_precise", inner_precise, "it must be 0, 1 or 2")
    if atten_mask is None:  # the band and the prefix then mean nothing
        return
    require(
        atten_mask.dtype in (torch.bool, torch.uint8), "the dtype of atten_mask", atten_mask.dtype,
        "it must be bool or uint8, True = masked",
    )  # fmt: skip
    shape = tuple(atten_mask.shape)
    if sparse_mode in COMPRESSED:
        need = COMPRESSED[sparse_mode]
        require(shape == need, "the shape of atten_mask", shape, f"sparse_mode {sparse_mode} needs {need}")
        if content:
            template = prefix_template if sparse_mode == 6 else causal_template
            right = _same(cpu_alias(atten_mask), template(torch.bool, torch.device("cpu")))
            rule = "it must be True strictly above the diagonal, as torch.ones(2048, 2048).triu(1)"
            if sparse_mode == 6:
                rule += ", above 1024 rows whose right half is True"
            require(right, "the content of atten_mask", "another", f"with sparse_mode {sparse_mode} {rule}")
    else:
        b, n, end = shapes.batch, shapes.heads, (shapes.seq_q, shapes.seq_kv)
        allowed = [(b, n, *end), (b, 1, *end), (1, 1, *end), end]
        if sparse_mode == 5:
            allowed = allowed[:2]
        if shapes.layout == "TND":
            allowed = [end]
        require(shape in allowed, "the shape of atten_mask", shape, f"it must be one of {allowed}")
    if sparse_mode in (0, 4, 7, 8):
        require(
            pre_tockens + next_tockens >= 0, "pre_tockens", pre_tockens,
            f"the band must not be empty: pre_tockens + next_tockens >= 0, next_tockens is {next_tockens}",
        )  # fmt: skip
    if sparse_mode in (5, 6):
        _check_prefix(shapes, prefix)


def check_extras(
    query: Tensor, shapes: Shapes, sparse_mode: int, pse: Tensor | None, padding_mask: Tensor | None,
    sink: Tensor | None,
) -> None:  # fmt: skip
    """pse, padding_mask and sink."""
    require(padding_mask is None, "padding_mask", "given", "it is not supported: use atten_mask")
    if pse is not None:
        require(pse.dtype == query.dtype, "the dtype of pse", pse.dtype, f"it must be that of query, {query.dtype}")
        require(sparse_mode not in (7, 8), "pse", "given", f"sparse_mode {sparse_mode} takes none")
        rule = "with TND it can only be a compressed ALiBi, which the emulated operator does not have"
        require(shapes.layout != "TND", "pse", "given", rule)
        b, n, q, kv = shapes.batch, shapes.heads, shapes.seq_q, shapes.seq_kv
        allowed = [(b, n, q, kv), (b, n, 1, kv), (1, n, q, kv)]
        rule = f"it must be one of {allowed}"
        if pse.dim() == 4 and pse.shape[2] == 1024 < q:
            rule += " (the last 1024 rows of an ALiBi are not taken by the emulated operator)"
        require(tuple(pse.shape) in allowed, "the shape of pse", tuple(pse.shape), rule)
    if sink is not None:
        require(sink.dtype == torch.float32, "the dtype of sink", sink.dtype, "it must be float32")
        rule = f"it must be (head_num,) = ({shapes.heads},)"
        require(tuple(sink.shape) == (shapes.heads,), "the shape of sink", tuple(sink.shape), rule)
        rule = "with sink it must be float16 or bfloat16"
        require(query.dtype != torch.float32, "the dtype of query", query.dtype, rule)


def _sizes(
    query: Tensor, key: Tensor, value: Tensor, layout: str, head_num: int
) -> tuple[tuple[int, int, int, int], ...]:
    """(B, S, N, D) of query, key and value. BSH and SBH take the head dimension from query and head_num."""
    if layout in ("BSH", "SBH"):
        wide = query.shape[-1]
        rule = f"it must divide the last dimension of query, {wide}"
        require(wide % head_num == 0, "head_num", head_num, rule)
        dim = wide // head_num
        rule = f"it must be a multiple of the head dimension, {dim}"
        require(key.shape[-1] % dim == 0, "the last dimension of key", key.shape[-1], rule)
        heads_kv = key.shape[-1] // dim
        rule = f"it must be a multiple of the heads of key, {heads_kv}"
        require(value.shape[-1] % heads_kv == 0, "the last dimension of value", value.shape[-1], rule)
        dims = (dim, dim, value.shape[-1] // heads_kv)
        batch_axis, seq_axis = (0, 1) if layout == "BSH" else (1, 0)
        return tuple(
            (x.shape[batch_axis], x.shape[seq_axis], x.shape[-1] // d, d) for x, d in zip((query, key, value), dims)
        )
    axes = {"BSND": (0, 1, 2, 3), "BNSD": (0, 2, 1, 3), "TND": (None, 0, 1, 2)}[layout]
    return tuple(
        tuple(1 if axis is None else x.shape[axis] for axis in axes)  # type: ignore[misc]
        for x in (query, key, value)
    )


def _ends(argument: str, cumulative: Sequence[int], tensor: str, total: int) -> tuple[int, ...]:
    ends = sequence_ends(cumulative)
    rule = "the lengths are cumulative and never fall, but for zeros at the end"
    require(all(a <= b for a, b in pairwise(ends)), argument, list(cumulative), rule)
    require(ends[-1] <= total, argument, list(cumulative), f"{tensor} has {total} tokens")
    require(len(cumulative) <= 2048, f"the length of {argument}", len(cumulative), "it must be in [1, 2048]")
    return ends


def _same(mask: Tensor, wanted: Tensor) -> bool:
    """Whether two masks hide the same; eight bytes at a time, for equal masks are what is compared most."""
    if mask.is_contiguous() and torch.equal(mask.view(torch.int64), wanted.view(torch.int64)):
        return True
    return torch.equal(mask.bool(), wanted)


def _check_prefix(shapes: Shapes, prefix: Sequence[int] | None) -> None:
    require(prefix is not None, "prefix", None, "sparse_mode 5 and 6 need one length per batch")
    lengths = shapes.lengths() if shapes.layout == "TND" else shapes.lengths() * shapes.batch
    assert prefix is not None
    rule = f"it needs one length per batch, {len(lengths)}"
    require(len(prefix) == len(lengths), "the length of prefix", len(prefix), rule)
    require(len(prefix) <= 32, "the length of prefix", len(prefix), "it must not exceed 32")
    for given, (seq_q, seq_kv) in zip(prefix, lengths):
        least = max(0, seq_kv - seq_q)
        require(least <= given <= seq_kv, "prefix", list(prefix), "each must be in [max(0, Skv - Sq), Skv]")
