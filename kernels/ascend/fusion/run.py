"""One call of either operator, its arguments by name: judged, run over memory of the CPU, handed back to the device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kernels.ascend.device import rng
from kernels.ascend.device.alias import cpu_alias
from kernels.ascend.device.memory import on_npu
from kernels.ascend.device.soc import current_soc
from kernels.ascend.fusion.arguments import check_chip, check_extras, check_host, check_mask, require, shapes_of
from kernels.ascend.fusion.backward import attend_backward
from kernels.ascend.fusion.constants import FLT_MAX
from kernels.ascend.fusion.dropout import Kept, make_dropout_mask
from kernels.ascend.fusion.forward import Group, attend
from kernels.ascend.fusion.masks import visibilities
from kernels.ascend.fusion.shapes import Shapes


def _groups(options: dict[str, Any], shapes: Shapes, kept_bits: Tensor | None) -> list[Group]:
    """One group of sequences for each view of the query, over memory of the CPU."""
    query, key, value = (cpu_alias(options[name]) for name in ("query", "key", "value"))
    pse, sink, atten_mask = (
        None if options[name] is None else cpu_alias(options[name]) for name in ("pse", "sink", "atten_mask")
    )
    lengths = shapes.lengths()
    seen = visibilities(
        lengths, options["sparse_mode"], atten_mask, options["pre_tockens"], options["next_tockens"], options["prefix"]
    )
    groups, first = [], 0
    views = (shapes.of_queries(query), shapes.of_keys(key), shapes.of_keys(value))
    for q, k, v, visibility, (seq_q, seq_kv) in zip(*views, seen, lengths, strict=True):
        batch = q.shape[0]
        kept = None if kept_bits is None else Kept(kept_bits, first, batch, shapes.heads, seq_q, seq_kv)
        first += batch * shapes.heads * seq_q * seq_kv
        groups.append(Group(q, k, v, visibility, options["scale"], pse, sink, kept, options["keep_prob"]))
    return groups


def forward(options: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor, Tensor, int, int, int]:
    shapes = _judge(options)
    query, seed, offset, numels = options["query"], options["seed"], options["offset"], shapes.numels()
    bits = None
    if options["keep_prob"] < 1:
        if options["dropout_mask"] is None:
            seed = seed or _drawn_seed()
        bits = make_dropout_mask(numels, options["keep_prob"], seed, offset)
        if options["dropout_mask"] is not None:
            _check_bits(options["dropout_mask"], bits, numels)
    out = torch.zeros(shapes.out_shape(query), dtype=query.dtype)
    row_max = torch.full(shapes.softmax_shape(query), -FLT_MAX)
    row_sum = torch.full(shapes.softmax_shape(query), FLT_MAX)
    tops, totals = (shapes.of_softmax(x, options["softmax_layout"]) for x in (row_max, row_sum))
    for group, *targets in zip(_groups(options, shapes, bits), shapes.of_queries(out), tops, totals, strict=True):
        attend(group, *targets)
    empty = torch.empty(0, dtype=query.dtype)
    return on_npu(out), on_npu(row_max), on_npu(row_sum), on_npu(empty), seed, offset, numels


def _drawn_seed() -> int:
    """From the device's generator, as upstream: torch.npu.manual_seed repeats it, and the CPU's numbers stay theirs."""
    return int(torch.randint(1, 1 << 62, (), generator=rng.checked(None), device="cpu"))


def _check_bits(mask: Tensor, bits: Tensor, numels: int) -> None:
    """The backward makes the mask again from keep_prob, seed and offset: it would not meet one of another origin."""
    require(mask.dtype == torch.uint8, "the dtype of dropout_mask", mask.dtype, "it must be uint8, one bit per weight")
    rule = f"{numels} weights need {bits.numel()} bytes: make it with _npu_dropout_gen_mask"
    require(mask.numel() >= bits.numel(), "the size of dropout_mask", mask.numel(), rule)
    same = torch.equal(cpu_alias(mask).flatten()[: bits.numel()], bits)
    rule = "it must be made with the same p = 1 - keep_prob, seed and offset: the backward makes it again from those"
    require(same, "the content of dropout_mask", "another", rule)


def backward(options: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor]:
    shapes, dy, pse, sink = _judge_grad(options), options["dy"], options["pse"], options["sink"]
    bits = None
    if options["keep_prob"] < 1:
        numels, rule = shapes.numels(), "the shapes give another number: hand on what the forward returned"
        require(options["numels"] == numels, "numels", options["numels"], rule)
        bits = make_dropout_mask(numels, options["keep_prob"], options["seed"], options["offset"])
    tensors = {name: cpu_alias(options[name]) for name in ("query", "key", "value", "dy", "attention_in")}
    row_max, row_sum = (cpu_alias(options[name]).contiguous() for name in ("softmax_max", "softmax_sum"))
    dq, dk, dv = (torch.zeros(tensors[name].shape, dtype=dy.dtype) for name in ("query", "key", "value"))
    dpse = None if pse is None else torch.zeros(pse.shape)
    dsink = None if sink is None else torch.zeros(sink.shape)
    views = (
        shapes.of_queries(tensors["dy"]),
        shapes.of_queries(tensors["attention_in"]),
        shapes.of_softmax(row_max, options["softmax_layout"]),
        shapes.of_softmax(row_sum, options["softmax_layout"]),
        zip(shapes.of_queries(dq), shapes.of_keys(dk), shapes.of_keys(dv), strict=True),
    )
    for group, dout, out, top, total, gradients in zip(_groups(options, shapes, bits), *views, strict=True):
        attend_backward(group, dout, out, top[..., :1], total[..., :1], gradients, dpse, dsink)
    of_pse = None if dpse is None else on_npu(dpse.to(pse.dtype))
    return on_npu(dq), on_npu(dk), on_npu(dv), of_pse, on_npu(torch.empty(0) if dsink is None else dsink)


def _judge_grad(options: dict[str, Any], *, content: bool = True) -> Shapes:
    options["scale"] = options["scale_value"]
    shapes = _judge(options, options["dy"], content=content)
    query, dy = options["query"], options["dy"]
    require(dy.dtype == query.dtype, "the dtype of dy", dy.dtype, f"it must be that of query, {query.dtype}")
    of_out, of_softmax = shapes.out_shape(query), shapes.softmax_shape(query)
    for name, shape in (("dy", of_out), ("attention_in", of_out), ("softmax_max", of_softmax),
                        ("softmax_sum", of_softmax)):  # fmt: skip
        x = options[name]
        require(x is not None, name, None, "the backward needs what the forward returned")
        require(tuple(x.shape) == shape, f"the shape of {name}", tuple(x.shape), f"it must be {shape}")
    return shapes


def forward_meta(options: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor, Tensor, int, int, int]:
    shapes, query = _judge(options, content=False), options["query"]
    statistics = (query.new_empty(shapes.softmax_shape(query), dtype=torch.float32) for _ in range(2))
    return (
        query.new_empty(shapes.out_shape(query)), *statistics, query.new_empty(0), options["seed"], options["offset"],
        shapes.numels(),
    )  # fmt: skip


def backward_meta(options: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor]:
    _judge_grad(options, content=False)
    query, key, value, pse, sink = (options[name] for name in ("query", "key", "value", "pse", "sink"))
    of_sink = query.new_empty(0, dtype=torch.float32) if sink is None else torch.empty_like(sink)
    dq, dk, dv = (x.new_empty(x.shape) for x in (query, key, value))
    return dq, dk, dv, None if pse is None else pse.new_empty(pse.shape), of_sink


def _judge(options: dict[str, Any], dy: Tensor | None = None, *, content: bool = True) -> Shapes:
    """All checks in upstream's order. ``options`` are the forward's, by name."""
    query, key, value, sink = (options[name] for name in ("query", "key", "value", "sink"))
    sizes = query, key, value, options["head_num"], options["input_layout"]
    lengths = options["actual_seq_qlen"], options["actual_seq_kvlen"]
    check_host(*sizes, options["keep_prob"], *lengths, options["sparse_mode"], options["softmax_layout"], dy)
    for name, x in (*options.items(), ("dy", dy)):
        if isinstance(x, Tensor):
            rule = f"query is on {query.device}: all tensors must be on one device"
            require(x.device == query.device, f"the device of {name}", x.device, rule)
    soc = current_soc()
    check_chip(soc.name, soc.family, sink)
    shapes = shapes_of(*sizes, *lengths)
    check_mask(
        shapes, options["sparse_mode"], options["atten_mask"], options["pre_tockens"], options["next_tockens"],
        options["prefix"], options["inner_precise"], content=content,
    )  # fmt: skip
    check_extras(query, shapes, options["sparse_mode"], options["pse"], options["padding_mask"], sink)
    return shapes
