"""Cases in the manner of the operator's own tests: our rows, rows from a file, cut to size, drawn as tensors."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Row:
    """One sequence of a batch. used: the prefix that counts (None: no seqused was given)."""

    seq_q: int
    seq_kv: int
    used_q: int | None = None
    used_kv: int | None = None


@dataclass(frozen=True)
class Case:
    id: str
    rows: tuple[Row, ...]
    heads_q: int
    heads_kv: int
    dim: int = 128
    dim_v: int = 0  # 0: as dim
    dtype: str = "float16"
    layout_q: str = "BSND"  # of q; keys and values have the same one
    layout_out: str = ""  # "": as layout_q
    mask_mode: int = 0
    win_left: int = -1
    win_right: int = -1
    scale: float | None = None
    ranges: tuple[tuple[float, float], ...] = ((-5.0, 5.0),) * 3

    @property
    def value_dim(self) -> int:
        return self.dim_v or self.dim

    @property
    def flops(self) -> int:
        return 2 * self.heads_q * (self.dim + self.value_dim) * sum(row.seq_q * row.seq_kv for row in self.rows)


def cut(case: Case, limit: float) -> Case:
    """The same case with fewer sequences, then fewer heads, then shorter sequences, until flops <= limit.

    Layout, mask, head dims and the ratios between lengths stay; 3 sequences and a group of 2 heads stay, too.
    """
    if case.flops > limit and len(case.rows) > 3:
        by_work = sorted(case.rows, key=lambda row: row.seq_q * row.seq_kv)
        case = replace(case, rows=(by_work[0], by_work[len(by_work) // 2], by_work[-1]))
    if case.flops > limit:
        group = case.heads_q // case.heads_kv
        kv = max(1, int(case.heads_kv * limit / case.flops))
        case = replace(case, heads_q=kv * group, heads_kv=kv)
    if case.flops > limit:
        group = max(min(2, case.heads_q), int(case.heads_q * limit / case.flops))
        case = replace(case, heads_q=group, heads_kv=1)
    while case.flops > limit:
        shrink = min(0.97, math.sqrt(limit / case.flops))
        case = replace(
            case,
            rows=tuple(Row(*(n and math.ceil(n * shrink) for n in vars(row).values())) for row in case.rows),
            win_left=math.ceil(case.win_left * shrink) if case.win_left > 0 else case.win_left,
            win_right=math.ceil(case.win_right * shrink) if case.win_right > 0 else case.win_right,
        )
    return case


def read_cases(path: str | Path) -> list[Case]:
    """The cases of a .jsonl file, one object a line with the operator's argument names; paged ones are left out."""
    objects = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    return [_from_json(x) for x in objects if not x["layout_kv"].startswith("PA_")]


def _from_json(x: dict[str, Any]) -> Case:
    def lengths(shape: list[int], cu_seqlens: list[int] | None) -> list[int]:
        if cu_seqlens is not None:
            return [b - a for a, b in pairwise(cu_seqlens)]
        return [shape[1 if x["layout_q"] == "BSND" else 2]] * shape[0]

    seqs_q, seqs_kv = lengths(x["q"], x.get("cu_seqlens_q")), lengths(x["k"], x.get("cu_seqlens_kv"))
    nothing = [None] * len(seqs_q)
    used_q, used_kv = x.get("seqused_q") or nothing, x.get("seqused_kv") or nothing
    head_axis = -3 if x["layout_q"] == "BNSD" else -2
    return Case(
        id=x["id"],
        rows=tuple(map(Row, seqs_q, seqs_kv, used_q, used_kv)),
        heads_q=x["q"][head_axis],
        heads_kv=x["k"][head_axis],
        dim=x["q"][-1],
        dim_v=x["v"][-1],
        dtype=x["dtype"],
        layout_q=x["layout_q"],
        layout_out=x["layout_out"],
        mask_mode=x["mask_mode"],
        win_left=x["win_left"],
        win_right=x["win_right"],
        scale=x["softmax_scale"],
        ranges=(x["range_q"], x["range_k"], x["range_v"]),
    )


@dataclass
class Drawn:
    """The tensors of a case: sequences as [1, N, length, D], and the call's arguments in the case's layout."""

    q: list[Tensor]
    k: list[Tensor]
    v: list[Tensor]
    arguments: dict[str, Any] = field(default_factory=dict)

    def pack(self, case: Case, sequences: list[Tensor]) -> Tensor:
        if case.layout_q == "TND":
            return torch.cat([x[0].transpose(0, 1) for x in sequences])
        together = torch.cat(sequences)
        return together if case.layout_q == "BNSD" else together.transpose(1, 2).contiguous()


def draw(case: Case) -> Drawn:
    """Uniform inputs in the case's ranges, the same at every run."""
    generator = torch.Generator().manual_seed(sum(map(ord, case.id)))
    dtype = getattr(torch, case.dtype)

    def sequence(heads: int, length: int, dim: int, limits: tuple[float, float]) -> Tensor:
        low, high = limits
        return (torch.rand(1, heads, length, dim, generator=generator) * (high - low) + low).to(dtype)

    drawn = Drawn(
        q=[sequence(case.heads_q, row.seq_q, case.dim, case.ranges[0]) for row in case.rows],
        k=[sequence(case.heads_kv, row.seq_kv, case.dim, case.ranges[1]) for row in case.rows],
        v=[sequence(case.heads_kv, row.seq_kv, case.value_dim, case.ranges[2]) for row in case.rows],
    )
    lengths: dict[str, Tensor] = {}
    for name in ("q", "kv"):
        if case.layout_q == "TND":
            starts = torch.tensor([0, *(getattr(row, f"seq_{name}") for row in case.rows)]).cumsum(0)
            lengths[f"cu_seqlens_{name}"] = starts.int()
        used = [getattr(row, f"used_{name}") for row in case.rows]
        if None not in used:
            lengths[f"seqused_{name}"] = torch.tensor(used, dtype=torch.int32)
    mask = {"mask_mode": case.mask_mode, "win_left": case.win_left, "win_right": case.win_right}
    drawn.arguments = {**lengths, **mask, "scale": case.scale}
    return drawn


def _table() -> list[Case]:
    """Every layout, mask and head dim, ragged lengths, groups, prefixes and empty sequences; each case is small."""
    one = lambda s1, s2: (Row(s1, s2),)  # noqa: E731
    pair = lambda s1, s2: (Row(s1, s2),) * 2  # noqa: E731
    ragged = tuple(Row(a, b) for a, b in [(1, 300), (129, 129), (0, 17), (77, 0), (200, 63)])
    prefixes = (Row(130, 260, 100, 259), Row(130, 260, 0, 130), Row(130, 260, 130, 0), Row(130, 260, 17, 1))
    packed = tuple(Row(a, b, c, d) for a, b, c, d in [(64, 128, 64, 100), (33, 200, 1, 200), (50, 10, 49, 0)])
    return [
        Case("bnsd", pair(200, 200), 3, 3, layout_q="BNSD"),
        Case("bsnd bf16", pair(129, 255), 2, 2, 64, dtype="bfloat16"),
        Case("bnsd to bsnd", pair(64, 513), 4, 1, layout_q="BNSD", layout_out="BSND"),
        Case("tnd", ragged, 2, 2, 64, layout_q="TND"),
        Case("tnd gqa causal bf16", ragged, 6, 2, layout_q="TND", mask_mode=3, dtype="bfloat16"),
        Case("decode", one(1, 1100), 8, 1),
        Case("decode causal", one(1, 700), 8, 2, dtype="bfloat16", layout_q="BNSD", mask_mode=3),
        Case("causal square", one(384, 384), 2, 2, mask_mode=3),
        Case("causal long keys", one(100, 400), 4, 2, layout_q="BNSD", mask_mode=3, dtype="bfloat16"),
        Case("causal hidden rows", one(300, 120), 4, 2, mask_mode=3),
        Case("band", one(257, 257), 2, 1, mask_mode=4, win_left=60, win_right=20),
        Case("band left only", one(200, 300), 2, 2, 64, mask_mode=4, win_left=100, layout_q="BNSD"),
        Case("band right only", one(300, 200), 2, 2, 64, mask_mode=4, win_right=6, dtype="bfloat16"),
        Case("band open", one(150, 150), 2, 2, 64, mask_mode=4),
        Case("band diagonal", one(140, 140), 2, 2, mask_mode=4, win_left=0, win_right=0),
        Case("band wider than the keys", one(90, 70), 2, 2, mask_mode=4, win_left=50000, win_right=50000),
        Case("d72", pair(63, 257), 3, 1, 72, mask_mode=3),
        Case("d72 tnd", ragged, 3, 3, 72, layout_q="TND", dtype="bfloat16"),
        Case("d192 v128", pair(127, 255), 2, 1, 192, 128, mask_mode=3, dtype="bfloat16"),
        Case("d192 v128 tnd", ragged, 2, 2, 192, 128, layout_q="TND"),
        Case("d256", one(65, 193), 2, 2, 256, layout_q="BNSD"),
        Case("d256 band gqa", one(129, 129), 4, 1, 256, mask_mode=4, win_left=3, win_right=2, dtype="bfloat16"),
        Case("prefixes", prefixes, 2, 2, 64),
        Case("prefixes causal bnsd", prefixes, 4, 2, 64, layout_q="BNSD", mask_mode=3, dtype="bfloat16"),
        Case("prefixes in tnd", packed, 4, 2, layout_q="TND", mask_mode=3),
        Case("wide range", one(128, 300), 2, 2, ranges=((-10.0, 10.0),) * 3, scale=0.08838834764831843),
        Case("scale 0", one(30, 40), 2, 2, scale=0.0),
    ]


TABLE = _table()
