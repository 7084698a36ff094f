"""flash_attn_grad: calls that it takes, and changes that break its rules in the order in which it looks."""

from __future__ import annotations

from typing import Any

import torch
from argument_changes import MASK, Change, brain, change, half, i8, i32, i64, kv, meta, single
from arguments_forward import BNSD, BSND, TND
from torch import Tensor


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
