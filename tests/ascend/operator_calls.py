"""Cases of tests/kernels/operator_table.py as calls of the operators, and more of them: paged keys, sinks, strides."""

from __future__ import annotations

import json
import math
from ast import literal_eval
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from operator_table import TABLE, Case, Drawn, Row, cut, draw
from torch import Tensor

from kernels.ascend import ops

PAD = {"BNSD": 2, "BSND": 1}  # the axis of S


@dataclass(frozen=True)
class NpuCase:
    """What operator_table's Case cannot say. gaps: how much longer the storage of the pages is, axis by axis."""

    case: Case
    layout_kv: str = ""  # "": as the queries'
    block_size: int = 0
    gaps: tuple[int, ...] = ()
    sinks: bool = False

    @property
    def paged(self) -> bool:
        return self.layout_kv.startswith("PA_")


@dataclass
class Call:
    """flash_attn's arguments on the CPU, and what they were made from."""

    drawn: Drawn
    arguments: dict[str, Any]

    def on_npu(self) -> dict[str, Any]:
        return {name: strided_to_npu(x) if isinstance(x, Tensor) else x for name, x in self.arguments.items()}


def strided_to_npu(x: Tensor) -> Tensor:
    """x on the device with its own strides: .to() would close the gaps."""
    base = x if x._base is None else x._base
    return base.to("npu").as_strided(x.shape, x.stride(), x.storage_offset())


def call_of(npu: NpuCase) -> Call:
    case, drawn = npu.case, draw(npu.case)
    arguments = dict(drawn.arguments)
    scale = arguments.pop("scale")
    arguments |= {
        "softmax_scale": 1 / math.sqrt(case.dim) if scale is None else scale,
        "layout_q": case.layout_q,
        "layout_kv": npu.layout_kv or case.layout_q,
        "layout_out": case.layout_out or case.layout_q,
        "return_softmax_lse": True,
        "q": drawn.pack(case, drawn.q),
    }
    if npu.paged:
        arguments.pop("cu_seqlens_kv", None)
        arguments |= pages(npu, drawn)
    else:
        arguments |= {"k": drawn.pack(case, drawn.k), "v": drawn.pack(case, drawn.v)}
    if case.mask_mode:
        arguments["attn_mask"] = ops.causal_mask_tensor("cpu")
    if npu.sinks:
        generator = torch.Generator().manual_seed(3)
        arguments["sinks"] = torch.randn(case.heads_q, generator=generator) * 2
    return Call(drawn, arguments)


def pages(npu: NpuCase, drawn: Drawn) -> dict[str, Tensor]:
    """k and v in shuffled blocks, one block more than needed, full of nan where no token is; block_table."""
    size = npu.block_size
    counts = [-(-row.seq_kv // size) for row in npu.case.rows]
    generator = torch.Generator().manual_seed(5)
    order = torch.randperm(sum(counts) + 1, generator=generator).tolist()
    table = torch.full((len(counts), max(1, *counts) + 1), -1, dtype=torch.int32)
    pools = {}
    for name, sequences in (("k", drawn.k), ("v", drawn.v)):
        dim = sequences[0].shape[-1]
        pool = torch.full((len(order), npu.case.heads_kv, size, dim), math.nan, dtype=sequences[0].dtype)
        blocks = iter(order)
        for b, (x, count) in enumerate(zip(sequences, counts)):
            for n in range(count):
                block = next(blocks)
                table[b, n] = block
                part = x[0, :, n * size : (n + 1) * size]
                pool[block, :, : part.shape[1]] = part
        pools[name] = _with_gaps(_in_layout(pool, npu.layout_kv), npu.gaps)
    used = torch.tensor([row.seq_kv for row in npu.case.rows], dtype=torch.int32)
    return {**pools, "block_table": table, "seqused_kv": used}


def _in_layout(pool: Tensor, layout: str) -> Tensor:
    if layout == "PA_BBND":
        return pool.transpose(1, 2).contiguous()
    if layout == "PA_NZ":  # element d of a token: piece d // 16, place d % 16
        return pool.unflatten(-1, (-1, 16)).transpose(2, 3).contiguous()
    return pool


def _with_gaps(pool: Tensor, gaps: tuple[int, ...]) -> Tensor:
    """The same values in a storage that is longer along some axes."""
    if not gaps:
        return pool
    storage = torch.full([n + gap for n, gap in zip(pool.shape, gaps, strict=True)], math.nan, dtype=pool.dtype)
    view = storage[tuple(slice(n) for n in pool.shape)]
    view.copy_(pool)
    return view


def metadata_of(arguments: dict[str, Any], **more: Any) -> Tensor:
    """flash_attn_metadata for arguments of flash_attn that are on the device."""
    layout_q, layout_kv = arguments["layout_q"], arguments["layout_kv"]
    q, k = arguments["q"], arguments["k"]
    head_axis = {"BNSD": 1, "BSND": 2, "TND": 1, "PA_BBND": 2, "PA_BNBD": 1, "PA_NZ": 1}
    v_dim = arguments["v"].shape[-1] if layout_kv != "PA_NZ" else arguments["v"].shape[2] * 16
    given = {name: arguments.get(name) for name in ("cu_seqlens_q", "cu_seqlens_kv", "seqused_q", "seqused_kv")}
    sizes = {} if layout_q == "TND" else {"batch_size": q.shape[0], "max_seqlen_q": q.shape[PAD[layout_q]]}
    if layout_kv in PAD:
        sizes["max_seqlen_kv"] = k.shape[PAD[layout_kv]]
    same = ("mask_mode", "win_left", "win_right", "layout_q", "layout_kv", "layout_out")
    options = given | sizes | {name: arguments[name] for name in same} | more
    heads = q.shape[head_axis[layout_q]], k.shape[head_axis[layout_kv]]
    return ops.flash_attn_metadata(*heads, q.shape[-1], head_dim_v=v_dim, **options)


def lse_of_each(lse: Tensor, cu_seqlens: Tensor | None) -> list[Tensor]:
    """softmax_lse [1, N1, length] of each sequence."""
    if cu_seqlens is None:
        return list(lse.split(1))
    return [lse[None, :, a:b] for a, b in pairwise(cu_seqlens.tolist())]


def read_calls(path: str | Path, limit: float) -> list[NpuCase]:
    """The rows of a .jsonl file with the operator's argument names, one object a line, each cut to limit flops."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    read = [_from_json(json.loads(line)) for line in lines]
    return [replace(npu, case=cut(npu.case, limit)) for npu in read]


def _from_json(x: dict[str, Any]) -> NpuCase:
    paged = x["layout_kv"].startswith("PA_")
    seqs_q = _lengths(x["q"], x["layout_q"], x.get("cu_seqlens_q"))
    used_q = x.get("seqused_q") or [None] * len(seqs_q)
    used_kv = x.get("seqused_kv") or [None] * len(seqs_q)
    seqs_kv = used_kv if paged else _lengths(x["k"], x["layout_kv"], x.get("cu_seqlens_kv"))
    dim_v = x["v"][2] * x["v"][4] if x["layout_kv"] == "PA_NZ" else x["v"][-1]
    case = Case(
        id=x["id"], rows=tuple(map(Row, seqs_q, seqs_kv, used_q, used_kv)),
        heads_q=x["q"][1 if x["layout_q"] == "BNSD" else -2],
        heads_kv=x["k"][{"BNSD": 1, "BSND": 2, "TND": 1, "PA_BBND": 2, "PA_BNBD": 1, "PA_NZ": 1}[x["layout_kv"]]],
        dim=x["q"][-1], dim_v=dim_v, dtype=x["dtype"], layout_q=x["layout_q"], layout_out=x["layout_out"],
        mask_mode=x["mask_mode"], win_left=x["win_left"], win_right=x["win_right"], scale=x["softmax_scale"],
        ranges=(x["range_q"], x["range_k"], x["range_v"]),
    )  # fmt: skip
    gaps: tuple[int, ...] = ()
    if "storage_shapes" in x:
        gaps = tuple(n - m for n, m in zip(literal_eval(x["storage_shapes"])[1], x["k"], strict=True))
    return NpuCase(case, x["layout_kv"] if paged else "", x.get("block_size") or 0, gaps)


def _lengths(shape: list[int], layout: str, cu_seqlens: list[int] | None) -> list[int]:
    if cu_seqlens is not None:
        return [b - a for a, b in pairwise(cu_seqlens)]
    return [shape[PAD[layout]]] * shape[0]


def _own() -> list[NpuCase]:
    """The table of the course's kernels, then what they do not have: pages and sinks."""
    ragged = tuple(Row(a, b, used_kv=b) for a, b in [(1, 300), (129, 129), (5, 0), (77, 31), (200, 63)])
    decode = tuple(Row(1, b, used_kv=b) for b in (1, 16, 700, 129))
    short = tuple(Row(90, b, a, b) for a, b in [(90, 64), (0, 100), (33, 190)])
    own = [
        NpuCase(Case("bbnd", ragged, 4, 2, 64, layout_q="TND"), "PA_BBND", 16),
        NpuCase(Case("bnbd causal", ragged, 2, 2, layout_q="TND", mask_mode=3, dtype="bfloat16"), "PA_BNBD", 128),
        NpuCase(Case("nz band", ragged, 6, 2, layout_q="TND", mask_mode=4, win_left=20, win_right=5), "PA_NZ", 48),
        NpuCase(Case("nz d192", ragged, 2, 1, 192, 128, layout_q="TND", mask_mode=3), "PA_NZ", 256),
        NpuCase(Case("decode bbnd", decode, 8, 1, dtype="bfloat16"), "PA_BBND", 128),
        NpuCase(Case("decode nz", decode, 8, 2, layout_q="BNSD", layout_out="BSND", mask_mode=3), "PA_NZ", 1024),
        NpuCase(Case("decode bnbd d256", decode, 4, 4, 256, layout_q="BNSD"), "PA_BNBD", 512),
        NpuCase(Case("prefixes bbnd d72", short, 3, 1, 72, mask_mode=3), "PA_BBND", 32),
        NpuCase(Case("prefixes bnbd", short, 4, 2, 64, layout_q="BNSD", mask_mode=4, win_left=7), "PA_BNBD", 64),
        NpuCase(Case("strided bbnd", decode, 2, 2, 64, layout_q="BNSD"), "PA_BBND", 64, (0, 1, 0, 0)),
        NpuCase(Case("strided bnbd", short, 4, 2), "PA_BNBD", 128, (0, 1, 0, 0)),
        NpuCase(Case("strided nz", short, 4, 2, dtype="bfloat16", mask_mode=3), "PA_NZ", 128, (1, 0, 1, 0, 0)),
    ]
    by_id = {case.id: case for case in TABLE}
    names = ("bnsd", "tnd gqa causal bf16", "causal hidden rows", "band left only", "prefixes", "d192 v128", "decode")
    sinks = [NpuCase(replace(by_id[name], id=f"{name} sinks"), sinks=True) for name in names]
    pages_and_sinks = replace(own[1], case=replace(own[1].case, id="pages, sinks"), sinks=True)
    return [*map(NpuCase, TABLE), *own, *sinks, pages_and_sinks]


CASES = _own()
