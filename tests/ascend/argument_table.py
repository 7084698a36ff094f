"""Calls that the operators take, and for each rule a change that breaks it, in the order in which upstream looks.

A change says which argument the refusal must begin with. Its place in the list is its precedence: of two faults at once
the one that stands earlier is told first (test_ops_arguments.py tries all pairs that fit together).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


def meta(dtype: torch.dtype) -> Callable[..., Tensor]:
    return lambda *shape: torch.empty(shape, dtype=dtype, device="meta")


half, brain, single, i32, i64, i8 = map(
    meta, (torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.int64, torch.int8)
)
MASK = i8(2048, 2048)


@dataclass(frozen=True)
class Change:
    """id, what replaces the good arguments, and the argument that the refusal begins with; "": it is still fine."""

    id: str
    arguments: dict[str, Any]
    names: str


def change(id: str, names: str, **arguments: Any) -> Change:
    return Change(id, arguments, names)


def kv(*shape: int, make: Callable[..., Tensor] = half) -> dict[str, Tensor]:
    return {"k": make(*shape), "v": make(*shape)}


BSND = {"q": half(2, 64, 8, 128), **kv(2, 96, 2, 128), "metadata": i32(8192)}
BNSD = {"q": half(2, 8, 64, 128), **kv(2, 2, 96, 128), "metadata": i32(8192),
        "layout_q": "BNSD", "layout_kv": "BNSD", "layout_out": "BNSD"}  # fmt: skip
TND = {"q": half(100, 8, 128), **kv(150, 2, 128), "cu_seqlens_q": i32(4), "cu_seqlens_kv": i32(4),
       "metadata": i32(8192), "layout_q": "TND", "layout_kv": "TND", "layout_out": "TND"}  # fmt: skip
BBND = {"q": half(2, 64, 8, 128), **kv(9, 32, 2, 128), "block_table": i32(2, 4), "seqused_kv": i32(2),
        "metadata": i32(8192), "layout_kv": "PA_BBND"}  # fmt: skip
NZ = {**BBND, **kv(9, 2, 8, 32, 16), "layout_kv": "PA_NZ"}
BNBD = {**BBND, **kv(9, 2, 32, 128), "layout_kv": "PA_BNBD"}
CAUSAL = {**BSND, "mask_mode": 3, "attn_mask": MASK}
BAND = {**BSND, "mask_mode": 4, "attn_mask": MASK, "win_left": 8, "win_right": 0}

FORWARD: dict[str, tuple[dict[str, Any], list[Change]]] = {
    "BSND": (BSND, [
        change("q missing", "q", q=None),
        change("k missing", "k", k=None),
        change("v missing", "v", v=None),
        change("layout_q unknown", "layout_q", layout_q="BSH"),
        change("layout_kv unknown", "layout_kv", layout_kv="SBH"),
        change("layout_out unknown", "layout_out", layout_out="bsnd"),
        change("q of 3 axes", "q", q=half(128, 8, 128)),
        change("no kv head", "k", **kv(2, 96, 0, 128)),
        change("heads no multiple", "q", **kv(2, 96, 3, 128)),
        change("fewer heads in q", "q", **kv(2, 96, 16, 128)),
        change("q empty", "q", q=half(2, 0, 8, 128)),
        change("B 0", "q", q=half(0, 64, 8, 128), **kv(0, 96, 2, 128)),
        change("k and v empty", "k", **kv(2, 0, 2, 128)),
        change("attn_out empty", "attn_out", attn_out=half(2, 64, 0, 128)),
        change("layout_q paged", "layout_q", layout_q="PA_BBND"),
        change("layout_out paged", "layout_out", layout_out="PA_BNBD"),
        change("seqused_q int64", "seqused_q", seqused_q=i64(2)),
        change("seqused_q 2-D", "seqused_q", seqused_q=i32(2, 1)),
        change("seqused_q too long", "seqused_q", seqused_q=i32(3)),
        change("seqused_q empty", "seqused_q", seqused_q=i32(0)),
        change("seqused_kv float", "seqused_kv", seqused_kv=half(2)),
        change("seqused_kv too short", "seqused_kv", seqused_kv=i32(1)),
        change("max_seqlen_q -2", "max_seqlen_q", max_seqlen_q=-2),
        change("max_seqlen_kv -2", "max_seqlen_kv", max_seqlen_kv=-2),
        change("mask_mode 1", "mask_mode", mask_mode=1),
        change("mask_mode 2", "mask_mode", mask_mode=2),
        change("mask_mode -1", "mask_mode", mask_mode=-1),
        change("attn_mask bool", "attn_mask", attn_mask=meta(torch.bool)(2048, 2048)),
        change("attn_mask 1-D", "attn_mask", attn_mask=i8(2048)),
        change("attn_mask of the scores' shape", "attn_mask", attn_mask=i8(64, 96)),
        change("win_left -2", "win_left", win_left=-2),
        change("win_right -2", "win_right", win_right=-2),
        change("sinks float16", "sinks", sinks=half(8)),
        change("sinks 2-D", "sinks", sinks=single(1, 8)),
        change("sinks of the kv heads", "sinks", sinks=single(2)),
        change("metadata missing", "metadata", metadata=None),
        change("metadata int64", "metadata", metadata=i64(8192)),
        change("metadata 2-D", "metadata", metadata=i32(2, 4096)),
        change("metadata empty", "metadata", metadata=i32(0)),
        change("return_softmax_lse 2", "return_softmax_lse", return_softmax_lse=2),
        change("softmax_lse float16", "softmax_lse", return_softmax_lse=1, attn_out=half(2, 64, 8, 128),
               softmax_lse=half(2, 8, 64)),
        change("cu_seqlens_q without TND", "cu_seqlens_q", cu_seqlens_q=i32(3)),
        change("cu_seqlens_kv without TND", "cu_seqlens_kv", cu_seqlens_kv=i32(3)),
        change("block_table without pages", "block_table", block_table=i32(2, 4)),
        change("mask without mode", "attn_mask", attn_mask=MASK),
        change("window without mode, left", "win_left", win_left=4),
        change("window without mode, right", "win_right", win_right=0),
        change("softmax_lse not given", "softmax_lse", return_softmax_lse=1, attn_out=half(2, 64, 8, 128)),
        change("layout_kv BNSD", "layout_kv", layout_kv="BNSD", **kv(2, 2, 96, 128)),
        change("layout_out BNSD", "layout_out", layout_out="BNSD"),
        change("layout_out TND", "layout_out", layout_out="TND"),
        change("float32", "q", q=single(2, 64, 8, 128), **kv(2, 96, 2, 128, make=single)),
        change("k float32", "k", k=single(2, 96, 2, 128)),
        change("v int32", "v", v=i32(2, 96, 2, 128)),
        change("attn_out float32", "attn_out", attn_out=single(2, 64, 8, 128)),
        change("k bfloat16", "k", k=brain(2, 96, 2, 128)),
        change("v bfloat16", "v", v=brain(2, 96, 2, 128)),
        change("attn_out bfloat16", "attn_out", attn_out=brain(2, 64, 8, 128)),
        change("k of another batch", "k", **kv(3, 96, 2, 128)),
        change("k of another D", "k", **kv(2, 96, 2, 64)),
        change("v of another batch", "v", v=half(1, 96, 2, 128)),
        change("v of another length", "v", v=half(2, 95, 2, 128)),
        change("v of other heads", "v", v=half(2, 96, 1, 128)),
        change("B 65536", "q", q=half(65536, 1, 1, 64), **kv(65536, 1, 1, 64)),
        change("D 80", "q", q=half(2, 64, 8, 80), **kv(2, 96, 2, 80)),
        change("D 512", "q", q=half(2, 64, 8, 512), **kv(2, 96, 2, 512)),
        change("Dv 64 with D 128", "v", v=half(2, 96, 2, 64)),
        change("D 192 with Dv 192", "v", q=half(2, 64, 8, 192), **kv(2, 96, 2, 192)),
        change("attn_out of another length", "attn_out", attn_out=half(2, 96, 8, 128)),
        change("attn_out as BNSD", "attn_out", attn_out=half(2, 8, 64, 128)),
        change("k expanded", "k", k=half(2, 96, 1, 128).expand(2, 96, 2, 128)),
        change("k transposed", "k", k=half(2, 2, 96, 128).transpose(1, 2)),
        change("v sliced", "v", v=half(2, 96, 2, 256)[..., :128]),
    ]),
    "BNSD": (BNSD, [
        change("layout_out BSND", "", layout_out="BSND"),
        change("attn_out in the order of layout_out", "", layout_out="BSND", attn_out=half(2, 64, 8, 128)),
        change("shapes as BSND", "k", q=half(2, 64, 8, 128), **kv(3, 2, 96, 128)),
        change("layout_kv BSND", "layout_kv", layout_kv="BSND", **kv(2, 96, 2, 128)),
        change("layout_kv TND", "layout_kv", layout_kv="TND", **kv(192, 2, 128), cu_seqlens_kv=i32(3)),
        change("attn_out in another order", "attn_out", attn_out=half(2, 64, 8, 128)),
    ]),
    "TND": (TND, [
        change("cu_seqlens_q missing", "cu_seqlens_q", cu_seqlens_q=None),
        change("cu_seqlens_q of one value", "cu_seqlens_q", cu_seqlens_q=i32(1)),
        change("cu_seqlens_q empty", "cu_seqlens_q", cu_seqlens_q=i32(0)),
        change("T 0", "q", q=half(0, 8, 128)),
        change("seqused_q of T", "seqused_q", seqused_q=i32(100)),
        change("cu_seqlens_q int64", "cu_seqlens_q", cu_seqlens_q=i64(4)),
        change("cu_seqlens_q 2-D", "cu_seqlens_q", cu_seqlens_q=i32(4, 1)),
        change("cu_seqlens_kv int64", "cu_seqlens_kv", cu_seqlens_kv=i64(4)),
        change("cu_seqlens_kv 2-D", "cu_seqlens_kv", cu_seqlens_kv=i32(2, 2)),
        change("cu_seqlens_kv of another batch", "cu_seqlens_kv", cu_seqlens_kv=i32(5)),
        change("cu_seqlens_kv missing", "cu_seqlens_kv", cu_seqlens_kv=None),
        change("layout_out BSND", "layout_out", layout_out="BSND"),
        change("v of another T", "v", v=half(149, 2, 128)),
        change("attn_out of another T", "attn_out", attn_out=half(99, 8, 128)),
        change("seqused_q", "", seqused_q=i32(3)),
        change("lse [N1, T1]", "", return_softmax_lse=1, attn_out=half(100, 8, 128), softmax_lse=single(8, 100)),
        change("D 192, Dv 128", "", q=half(100, 8, 192), k=half(150, 2, 192)),
    ]),
    "PA_BBND": (BBND, [
        change("block_table missing", "block_table", block_table=None),
        change("block_size 2048", "k", **kv(9, 2048, 2, 128)),
        change("block_size 8", "k", **kv(9, 8, 2, 128)),
        change("block_size 40", "k", **kv(9, 40, 2, 128)),
        change("block_table int64", "block_table", block_table=i64(2, 4)),
        change("block_table 1-D", "block_table", block_table=i32(8)),
        change("seqused_kv missing", "seqused_kv", seqused_kv=None),
        change("cu_seqlens_kv", "cu_seqlens_kv", cu_seqlens_kv=i32(3)),
        change("layout_out TND", "layout_out", layout_q="BNSD", q=half(2, 8, 64, 128), layout_out="TND"),
        change("v of other blocks", "v", v=half(8, 32, 2, 128)),
        change("v of another block_size", "v", v=half(9, 48, 2, 128)),
        change("block_table of another batch", "block_table", block_table=i32(3, 4)),
        change("strided inside", "k", k=half(9, 32, 3, 128)[:, :, :2]),
        change("stride 0", "k", k=half(1, 32, 2, 128).expand(9, 32, 2, 128)),
        change("blocks strided", "", k=half(9, 40, 2, 128)[:, :32], v=half(9, 40, 2, 128)[:, :32]),
    ]),
    "PA_BNBD": (BNBD, [
        change("heads strided", "", k=half(9, 2, 40, 128)[:, :, :32], v=half(9, 3, 32, 128)[:, :2]),
        change("tokens strided", "v", v=half(9, 2, 32, 256)[..., :128]),
    ]),
    "PA_NZ": (NZ, [
        change("4 axes", "k", **kv(9, 2, 32, 128)),
        change("last axis 8", "k", k=half(9, 2, 16, 32, 8)),
        change("D 72", "k", q=half(2, 64, 8, 72)),
        change("D 192, Dv 128", "", q=half(2, 64, 8, 192), k=half(9, 2, 12, 32, 16)),
        change("pieces strided", "v", v=half(9, 2, 8, 40, 16)[:, :, :, :32]),
    ]),
    "causal": (CAUSAL, [
        change("attn_mask missing", "attn_mask", attn_mask=None),
        change("attn_mask int32", "attn_mask", attn_mask=i32(2048, 2048)),
        change("attn_mask of 1024", "attn_mask", attn_mask=i8(1024, 1024)),
        change("win_left", "win_left", win_left=0),
        change("win_right", "win_right", win_right=0),
    ]),
    "band": (BAND, [
        change("win_left -2", "win_left", win_left=-2),
        change("win_right -5", "win_right", win_right=-5),
        change("attn_mask missing", "attn_mask", attn_mask=None),
        change("unbounded", "", win_left=-1, win_right=-1),
    ]),
}  # fmt: skip


def results(q: Tensor, v: Tensor, lse: Tensor) -> dict[str, Tensor]:
    shape = (*q.shape[:-1], v.shape[-1])
    return {"dout": q.new_empty(shape), "attn_out": q.new_empty(shape), "softmax_lse": lse}


G_BSND = {**BSND, **results(BSND["q"], BSND["v"], single(2, 8, 64))}
G_BNSD = {**BNSD, **results(BNSD["q"], BNSD["v"], single(2, 8, 64))}
G_TND = {**TND, **results(TND["q"], TND["v"], single(8, 100))}
G_BAND = {**G_BSND, "mask_mode": 4, "attn_mask": MASK, "win_left": 8, "win_right": 0}

GRAD: dict[str, tuple[dict[str, Any], list[Change]]] = {
    "BSND": (G_BSND, [
        *(change(f"{x} missing", x, **{x: None}) for x in ("q", "k", "v", "dout", "attn_out", "softmax_lse")),
        change("float32", "q", q=single(2, 64, 8, 128)),
        change("dout float32", "dout", dout=single(2, 64, 8, 128)),
        change("softmax_lse float16", "softmax_lse", softmax_lse=half(2, 8, 64)),
        change("sinks float16", "sinks", sinks=half(8)),
        change("attn_mask bool", "attn_mask", attn_mask=meta(torch.bool)(2048, 2048)),
        change("metadata int64", "metadata", metadata=i64(8192)),
        change("seqused_q int64", "seqused_q", seqused_q=i64(2)),
        change("k bfloat16", "k", k=brain(2, 96, 2, 128)),
        change("v bfloat16", "v", v=brain(2, 96, 2, 128)),
        change("dout bfloat16", "dout", dout=brain(2, 64, 8, 128)),
        change("attn_out bfloat16", "attn_out", attn_out=brain(2, 64, 8, 128)),
        change("mask_mode 1", "mask_mode", mask_mode=1),
        change("win_left -2", "win_left", win_left=-2),
        change("win_right -2", "win_right", win_right=-2),
        change("max_seqlen_q -2", "max_seqlen_q", max_seqlen_q=-2),
        change("max_seqlen_kv -2", "max_seqlen_kv", max_seqlen_kv=-2),
        change("mask without mode", "attn_mask", attn_mask=MASK),
        change("causal without mask", "attn_mask", mask_mode=3),
        change("causal with a window", "win_left", mask_mode=3, attn_mask=MASK, win_left=1),
        change("window without mode", "win_right", win_right=1),
        change("causal with a small mask", "attn_mask", mask_mode=3, attn_mask=i8(64, 96)),
        change("layout_q unknown", "layout_q", layout_q="SBH"),
        change("layout_kv paged", "layout_kv", layout_kv="PA_BBND"),
        change("layout_kv BNSD", "layout_kv", layout_kv="BNSD"),
        change("layout_out BNSD", "layout_out", layout_out="BNSD"),
        change("q of 3 axes", "q", q=half(128, 8, 128)),
        change("dout of 3 axes", "dout", dout=half(128, 8, 128)),
        change("k of another D", "k", k=half(2, 96, 2, 64)),
        change("dout of another Dv", "dout", dout=half(2, 64, 8, 64)),
        change("D 256", "q", q=half(2, 64, 8, 256), k=half(2, 96, 2, 256)),
        change("Dv 192 with D 128", "v", v=half(2, 96, 2, 192),
               **results(half(2, 64, 8, 192), half(2, 96, 2, 192), single(2, 8, 64))),
        change("dout of other heads", "dout", dout=half(2, 64, 4, 128)),
        change("attn_out of other heads", "attn_out", attn_out=half(2, 64, 4, 128)),
        change("v of other heads", "v", v=half(2, 96, 1, 128)),
        change("heads no multiple", "k", **kv(2, 96, 3, 128)),
        change("no kv head", "k", **kv(2, 96, 0, 128)),
        change("dout of another length", "dout", dout=half(2, 63, 8, 128)),
        change("v of another length", "v", v=half(2, 95, 2, 128)),
        change("k of another batch", "k", k=half(3, 96, 2, 128)),
        change("cu_seqlens_q without TND", "cu_seqlens_q", cu_seqlens_q=i32(3)),
        change("cu_seqlens_kv without TND", "cu_seqlens_kv", cu_seqlens_kv=i32(3)),
        change("softmax_lse as BSN", "softmax_lse", softmax_lse=single(2, 64, 8)),
        change("seqused_q of another batch", "seqused_q", seqused_q=i32(3)),
        change("sinks of other heads", "sinks", sinks=single(2)),
        change("metadata missing", "metadata", metadata=None),
        change("D 80, Dv 48", "", q=half(2, 64, 8, 80), k=half(2, 96, 2, 80), v=half(2, 96, 2, 48),
               **results(half(2, 64, 8, 80), half(2, 96, 2, 48), single(2, 8, 64))),
        change("strided", "", k=half(2, 2, 96, 128).transpose(1, 2), dout=half(2, 64, 8, 1).expand(2, 64, 8, 128)),
        change("causal", "", mask_mode=3, attn_mask=MASK),
        change("sinks", "", sinks=single(8)),
    ]),
    "BNSD": (G_BNSD, [change("layout_out BSND", "layout_out", layout_out="BSND")]),
    "TND": (G_TND, [
        change("cu_seqlens_q int64", "cu_seqlens_q", cu_seqlens_q=i64(4)),
        change("softmax_lse of 3 axes", "softmax_lse", softmax_lse=single(8, 100, 1)),
        change("cu_seqlens_q missing", "cu_seqlens_q", cu_seqlens_q=None),
        change("cu_seqlens_q 2-D", "cu_seqlens_q", cu_seqlens_q=i32(4, 1)),
        change("cu_seqlens_kv missing", "cu_seqlens_kv", cu_seqlens_kv=None),
        change("cu_seqlens_kv 2-D", "cu_seqlens_kv", cu_seqlens_kv=i32(2, 2)),
        change("softmax_lse [T1, N1]", "softmax_lse", softmax_lse=single(100, 8)),
        change("dout of another T", "dout", dout=half(99, 8, 128)),
        change("v of another T", "v", v=half(149, 2, 128)),
        change("cu_seqlens_kv of another batch", "cu_seqlens_kv", cu_seqlens_kv=i32(5)),
    ]),
    "band": (G_BAND, [
        change("attn_mask missing", "attn_mask", attn_mask=None),
        change("win_left -1", "win_left", win_left=-1),
        change("win_right -1", "win_right", win_right=-1),
    ]),
}  # fmt: skip

M_BSND = {"num_heads_q": 8, "num_heads_kv": 2, "head_dim": 128, "batch_size": 2, "max_seqlen_q": 64,
          "max_seqlen_kv": 96, "mask_mode": 0}  # fmt: skip
M_TND = {"num_heads_q": 8, "num_heads_kv": 2, "head_dim": 128, "mask_mode": 0, "cu_seqlens_q": i32(4),
         "cu_seqlens_kv": i32(4), "layout_q": "TND", "layout_kv": "TND", "layout_out": "TND"}  # fmt: skip
M_PAGES = {**M_BSND, "layout_kv": "PA_NZ", "seqused_kv": i32(2), "max_seqlen_kv": None}

METADATA: dict[str, tuple[dict[str, Any], list[Change]]] = {
    "BSND": (M_BSND, [
        change("mask_mode None", "mask_mode", mask_mode=None),
        change("batch_size 0", "batch_size", batch_size=0),
        change("batch_size 65536", "batch_size", batch_size=65536),
        change("max_seqlen_q -2", "max_seqlen_q", max_seqlen_q=-2),
        change("max_seqlen_kv -2", "max_seqlen_kv", max_seqlen_kv=-2),
        change("num_heads_q 0", "num_heads_q", num_heads_q=0),
        change("num_heads_kv 0", "num_heads_kv", num_heads_kv=0),
        change("num_heads_kv -1", "num_heads_kv", num_heads_kv=-1),
        change("head_dim 80", "head_dim", head_dim=80),
        change("head_dim_v 64", "head_dim", head_dim_v=64),
        change("layout_q paged", "layout_q", layout_q="PA_NZ"),
        change("layout_out unknown", "layout_out", layout_out="SBH"),
        change("layout_kv unknown", "layout_kv", layout_kv="BSH"),
        change("PA_NZ with D 72", "head_dim", layout_kv="PA_NZ", head_dim=72, seqused_kv=i32(2)),
        change("mask_mode 2", "mask_mode", mask_mode=2),
        change("win_left without window", "win_left", win_left=5),
        change("win_right in causal", "win_right", mask_mode=3, win_right=0),
        change("win_left -2", "win_left", mask_mode=4, win_left=-2),
        change("cu_seqlens_q without TND", "cu_seqlens_q", cu_seqlens_q=i32(3)),
        change("no length of q", "max_seqlen_q", max_seqlen_q=None),
        change("length of q 0", "max_seqlen_q", max_seqlen_q=0),
        change("cu_seqlens_kv without TND", "cu_seqlens_kv", cu_seqlens_kv=i32(3)),
        change("no length of k", "max_seqlen_kv", max_seqlen_kv=None),
        change("seqused_kv of another batch", "seqused_kv", seqused_kv=i32(3)),
        change("seqused_kv 2-D", "seqused_kv", seqused_kv=i32(2, 1)),
        change("heads no multiple", "num_heads_q", num_heads_q=9),
        change("layouts that do not go together", "", layout_q="BNSD", layout_kv="BSND"),
        change("seqused_q in place of batch and length", "", batch_size=None, max_seqlen_q=None, seqused_q=i32(2)),
        change("heads no multiple, no batch_size", "", batch_size=None, seqused_q=i32(2), num_heads_q=9),
        change("band", "", mask_mode=4, win_left=3),
        change("D 192, Dv 128", "", head_dim=192, head_dim_v=128),
    ]),
    "TND": (M_TND, [
        change("cu_seqlens_q missing", "cu_seqlens_q", cu_seqlens_q=None, batch_size=3),
        change("cu_seqlens_kv missing", "cu_seqlens_kv", cu_seqlens_kv=None),
        change("cu_seqlens_kv of another batch", "cu_seqlens_kv", cu_seqlens_kv=i32(9), batch_size=3),
        change("batch_size of another batch", "cu_seqlens_q", batch_size=5),
    ]),
    "PA_NZ": (M_PAGES, [change("seqused_kv missing", "seqused_kv", seqused_kv=None)]),
}  # fmt: skip
