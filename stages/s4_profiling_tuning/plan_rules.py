"""The host side of flash_attn_grad: the checks in their order, the route to a template, and what wrong ideas give.

Order of the checks, routes and their thresholds are those of ops-transformer (attention/flash_attn_grad/op_host,
commit 421809ee). Swizzle is a question of the L2 there; here the call says whether it is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import key_rules

Call = dict[str, Any]
Pair = tuple[int, int]
TENSORS = ("q", "k", "v", "dout", "attn_out")
LAYOUTS = ("BSND", "BNSD", "TND")
BLOCK, SMALL, MEDIUM, BN2_DIM = 128, 128, 640, 128


def make_call(
    layout: str, batch: int, heads: Pair, lengths: Pair, dims: Pair, mask_mode: int = 0, window: Pair = (-1, -1),
    *, swizzle: bool = False, max_seqlen: Pair = (-1, -1),
) -> Call:  # fmt: skip
    """A call that every check lets pass. lengths are S1, S2; for TND the totals T1, T2 of ``batch`` sequences."""
    (n1, n2), (s1, s2), (d, dv) = heads, lengths, dims

    def shape(n: int, s: int, width: int) -> list[int]:
        sizes = {"B": batch, "N": n, "S": s, "T": s, "D": width}
        return [sizes[axis] for axis in layout]

    tnd = layout == "TND"
    shapes = {"q": shape(n1, s1, d), "k": shape(n2, s2, d), "v": shape(n2, s2, dv)}
    shapes |= {"dout": shape(n1, s1, dv), "attn_out": shape(n1, s1, dv)}
    return {
        "deterministic": False,
        "dtypes": dict.fromkeys(TENSORS, "float16") | {"softmax_lse": "float32"},
        "shapes": shapes | {"softmax_lse": [n1, s1] if tnd else [batch, n1, s1]},
        "attn_mask": [2048, 2048] if mask_mode else None,
        "cu_seqlens_q": [batch + 1] if tnd else None,
        "cu_seqlens_kv": [batch + 1] if tnd else None,
        "mask_mode": mask_mode,
        "win_left": window[0],
        "win_right": window[1],
        "max_seqlen_q": max_seqlen[0],
        "max_seqlen_kv": max_seqlen[1],
        "layout_q": layout,
        "layout_kv": layout,
        "layout_out": layout,
        "swizzle": swizzle,
    }


def sizes(call: Call) -> dict[str, int]:
    """B, N1, N2, S1, S2, D, Dv of a call whose shapes have the right number of axes."""
    layout = call["layout_q"]
    q, k, v = (dict(zip(layout, call["shapes"][name], strict=True)) for name in ("q", "k", "v"))
    s1, s2 = (q["T"], k["T"]) if layout == "TND" else (q["S"], k["S"])
    if layout == "TND":
        s1 = call["max_seqlen_q"] if call["max_seqlen_q"] > 0 else s1
        s2 = call["max_seqlen_kv"] if call["max_seqlen_kv"] > 0 else s2
    return {"B": q.get("B", 0), "N1": q["N"], "N2": k["N"], "S1": s1, "S2": s2, "D": q["D"], "Dv": v["D"]}


def _shape_holds(call: Call) -> bool:
    layout, shapes = call["layout_q"], call["shapes"]
    if any(len(shapes[name]) != len(layout) for name in TENSORS):
        return False
    axes = {name: dict(zip(layout, shapes[name], strict=True)) for name in TENSORS}
    q, k, v = axes["q"], axes["k"], axes["v"]
    counted = [axis for axis in layout if axis in "NS"]
    alike = all(axes[name][axis] == q[axis] for name in ("dout", "attn_out") for axis in counted)
    alike = alike and all(v[axis] == k[axis] for axis in counted) and k["D"] == q["D"]
    alike = alike and axes["dout"]["D"] == axes["attn_out"]["D"] == v["D"]
    alike = alike and len({axis.get("B") for axis in axes.values()}) == 1
    packed = [call[name] is not None for name in ("cu_seqlens_q", "cu_seqlens_kv")]
    return (
        alike
        and 0 < v["D"] <= q["D"] <= 192
        and k["N"] > 0
        and q["N"] % k["N"] == 0
        and packed == [layout == "TND"] * 2
        and (layout != "TND" or len(shapes["softmax_lse"]) == 2)
    )


def _mask_holds(call: Call) -> bool:
    window, mask = (call["win_left"], call["win_right"]), call["attn_mask"]
    if call["mask_mode"] == 0:
        return mask is None and window == (-1, -1)
    return mask == [2048, 2048] and (window == (-1, -1) if call["mask_mode"] == 3 else min(window) >= 0)


# in upstream's order
CHECKS: dict[str, Callable[[Call], bool]] = {
    "deterministic": lambda c: not c["deterministic"],
    "inputs": lambda c: all(shape is not None for shape in c["shapes"].values()),
    "dtype": lambda c: (
        c["dtypes"]["q"] in ("float16", "bfloat16")
        and len({c["dtypes"][name] for name in TENSORS}) == 1
        and c["dtypes"]["softmax_lse"] == "float32"
    ),
    "attributes": lambda c: (
        c["mask_mode"] in (0, 3, 4) and min(c["win_left"], c["win_right"], c["max_seqlen_q"], c["max_seqlen_kv"]) >= -1
    ),
    "mask": _mask_holds,
    "layout": lambda c: c["layout_q"] in LAYOUTS and c["layout_q"] == c["layout_kv"] == c["layout_out"],
    "shape": _shape_holds,
}


def empty_block(size: Mapping[str, int], call: Call, *, of_keys: bool = True) -> bool:
    """Is there a block of 128 queries, or (with ``of_keys``) of 128 keys, without one visible pair?"""
    s1, s2 = size["S1"], size["S2"]
    left, right = (s1 + s2, 0) if call["mask_mode"] == 3 else (call["win_left"], call["win_right"])
    rows, columns = set(), set()
    for query in range(s1):
        first, last = max(0, query + s2 - s1 - left), min(s2 - 1, query + s2 - s1 + right)
        if first <= last:
            rows.add(query // BLOCK)
            columns.update(range(first // BLOCK, last // BLOCK + 1))
    return len(rows) < -(-s1 // BLOCK) or (of_keys and len(columns) < -(-s2 // BLOCK))


def fields_of(call: Call, mistake: str = "") -> key_rules.Fields:
    """The plan of a call that passes the checks; ``mistake`` names the wrong idea to follow."""
    size, tnd, mode = sizes(call), call["layout_q"] == "TND", call["mask_mode"]
    if mistake == "plan-axes" and call["layout_q"] == "BNSD":  # taken for BSND
        size = size | {"S1": size["N1"], "S2": size["N2"], "N1": size["S1"], "N2": size["S2"]}
    s1, s2, d, dv, heads = size["S1"], size["S2"], size["D"], size["Dv"], size["B"] * size["N1"]
    family = (
        (not tnd or mistake == "plan-bn2-tnd")
        and (size["N1"] == size["N2"] or mistake == "plan-bn2-gqa")
        and (d <= BN2_DIM or mistake == "plan-bn2-wide")
    )
    single = family and max(s1, s2) <= SMALL - (mistake == "plan-limit")
    if mistake == "plan-one-length":
        single = family and s1 <= SMALL
    worth = heads >= 256 or (heads >= 128 and ((s1 % 128 == 0 and s2 % 128 == 0) or mistake == "plan-unaligned"))
    multiblk = family and not single and max(s1, s2) <= MEDIUM and mistake != "plan-no-multiblk"
    multiblk = multiblk and (d == dv or mistake == "plan-multiblk-dv") and (worth or mistake == "plan-never-worth")
    bn2 = single or multiblk
    empty = mistake == "plan-zero-always" or empty_block(size, call, of_keys=mistake != "plan-zero-rows")
    need_zero = multiblk and mode != 0 and empty and mistake != "plan-zero-never"
    swizzle = call["swizzle"] and (mistake == "plan-swizzle-kept" or not (bn2 or tnd or (d > 128 and mode != 0)))
    return {
        "template": "BN2" if bn2 else "BN2GS1S2",
        "tnd": tnd,
        "mask_mode": mode,
        "swizzle": swizzle,
        "d_align": 64 if d <= 64 else 128 if d <= 128 else 192,
        "dv_align": 128 if dv <= 128 and mistake != "plan-dv-align" else 192 if d > 128 else 128,
        "is_bn2_multiblk": multiblk,
        "bn2_need_zero": need_zero,
    }


def right(call: Call, mistake: str = "", *, any_key: bool = False) -> dict[str, Any]:
    """What ``plan_backward(call)`` must return; with ``any_key`` if tiling_key took every combination."""
    for word, holds in CHECKS.items():
        if not holds(call):
            return {"refused": word, "fields": None, "key": None}
    fields = fields_of(call, mistake)
    key = key_rules.right(fields)
    if key is None and not any_key:
        return {"refused": "binary", "fields": None, "key": None}
    return {"refused": None, "fields": fields, "key": key}


ROUTE_IDEAS = (
    "plan-bn2-gqa", "plan-bn2-tnd", "plan-bn2-wide", "plan-axes", "plan-limit", "plan-one-length", "plan-unaligned",
    "plan-never-worth", "plan-no-multiblk", "plan-multiblk-dv",
)  # fmt: skip
WRITE_IDEAS = ("plan-swizzle-kept", "plan-zero-always", "plan-zero-never", "plan-zero-rows", "plan-dv-align")
