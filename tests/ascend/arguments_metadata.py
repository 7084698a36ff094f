"""flash_attn_metadata: calls that it takes, and changes that break its rules in the order in which it looks."""

from __future__ import annotations

from typing import Any

from argument_changes import Change, change, i32

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
