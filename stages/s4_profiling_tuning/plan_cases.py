"""Calls of flash_attn_grad with something wrong in them, and calls for every route."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from grader.text import Text, say

from .plan_rules import TENSORS, Call, make_call


@dataclass(frozen=True)
class Fault:
    """Something wrong: the check that finds it, what it is, the call to begin with, and the change."""

    word: str
    told: Text
    spoil: Callable[[Call], None]
    mask_mode: int = 0
    layout: str = "BSND"
    misconception: str | None = None

    def base(self, rng: np.random.Generator) -> Call:
        batch, group, heads = int(rng.integers(2, 5)), int(rng.integers(2, 4)), int(rng.integers(2, 5))
        lengths = (int(rng.integers(65, 400)), int(rng.integers(401, 700)))
        window = (int(rng.integers(0, 90)), int(rng.integers(0, 90))) if self.mask_mode == 4 else (-1, -1)
        return make_call(self.layout, batch, (heads * group, heads), lengths, (128, 96), self.mask_mode, window)


def _set(**changes: object) -> Callable[[Call], None]:
    return lambda call: call.update(changes)


def _dtype(*names: str, to: str) -> Callable[[Call], None]:
    return lambda call: call["dtypes"].update(dict.fromkeys(names, to))


def _missing(name: str) -> Callable[[Call], None]:
    return lambda call: call["shapes"].update({name: None})


def _axis(names: tuple[str, ...], axis: int, add: int) -> Callable[[Call], None]:
    def spoil(call: Call) -> None:
        for name in names:
            call["shapes"][name][axis] += add

    return spoil


def _without_batch(call: Call) -> None:
    for name in TENSORS:
        del call["shapes"][name][0]


FAULTS = (
    Fault("deterministic", say("要求确定性", "deterministic wanted"), _set(deterministic=True)),
    Fault("inputs", say("没有 softmax_lse", "no softmax_lse"), _missing("softmax_lse")),
    Fault("inputs", say("没有 attn_out", "no attn_out"), _missing("attn_out")),
    Fault("dtype", say("k 是 bfloat16，q 是 float16", "k bfloat16, q float16"), _dtype("k", to="bfloat16")),
    Fault("dtype", say("全部是 float32", "all float32"), _dtype(*TENSORS, to="float32")),
    Fault("dtype", say("softmax_lse 是 float16", "softmax_lse float16"), _dtype("softmax_lse", to="float16")),
    Fault("attributes", say("mask_mode 是 2", "mask_mode 2"), _set(mask_mode=2)),
    Fault("attributes", say("win_left 是 -2", "win_left -2"), _set(win_left=-2)),
    Fault("attributes", say("max_seqlen_kv 是 -3", "max_seqlen_kv -3"), _set(max_seqlen_kv=-3)),
    Fault("mask", say("mask_mode 0 而有 attn_mask", "mask_mode 0 with an attn_mask"), _set(attn_mask=[2048, 2048])),
    Fault("mask", say("mask_mode 0 而有窗口", "mask_mode 0 with a window"), _set(win_right=0)),
    Fault("mask", say("mask_mode 3 没有 attn_mask", "mask_mode 3 without attn_mask"), _set(attn_mask=None), 3),
    Fault("mask", say("mask_mode 3 而有窗口", "mask_mode 3 with a window"), _set(win_left=64), 3),
    Fault(
        "mask", say("mask_mode 4 的 win_left 是 -1", "win_left -1 with mask_mode 4"), _set(win_left=-1), 4,
        misconception="plan-window-open",
    ),
    Fault(
        "mask", say("mask_mode 4 的 win_right 是 -1", "win_right -1 with mask_mode 4"), _set(win_right=-1), 4,
        misconception="plan-window-open",
    ),
    Fault("mask", say("attn_mask 是 [S1, S2] 而不是 [2048, 2048]", "attn_mask [S1, S2], not [2048, 2048]"),
          _set(attn_mask=[512, 512]), 3, misconception="plan-mask-size"),
    Fault("layout", say("layout_kv 与 layout_q 不同", "layout_kv unlike layout_q"), _set(layout_kv="BNSD")),
    Fault("layout", say("layout_out 与 layout_q 不同", "layout_out unlike layout_q"), _set(layout_out="BNSD")),
    Fault("layout", say("layout 是 SBND", "layout SBND"), _set(layout_q="SBND", layout_kv="SBND", layout_out="SBND")),
    Fault("shape", say("k 的 D 与 q 不同", "D of k unlike q"), _axis(("k",), 3, -8)),
    Fault("shape", say("dout 的 Dv 与 v 不同", "Dv of dout unlike v"), _axis(("dout",), 3, 8)),
    Fault("shape", say("Dv > D", "Dv > D"), _axis(("v", "dout", "attn_out"), 3, 64)),
    Fault("shape", say("D = 256", "D = 256"), _axis(("q", "k"), 3, 128)),
    Fault("shape", say("N1 不是 N2 的倍数", "N1 no multiple of N2"), _axis(("q", "dout", "attn_out"), 2, 1)),
    Fault("shape", say("attn_out 的 N 与 q 不同", "N of attn_out unlike q"), _axis(("attn_out",), 2, 1)),
    Fault("shape", say("BNSD 布局，v 的 S 与 k 不同", "BNSD, S of v unlike k"), _axis(("v",), 2, 1), layout="BNSD"),
    Fault("shape", say("v 的 B 与其他不同", "B of v unlike the others"), _axis(("v",), 0, 1)),
    Fault("shape", say("BSND 而张量只有 3 轴", "BSND with 3 axes"), _without_batch),
    Fault("shape", say("BSND 而给了 cu_seqlens_kv", "BSND with cu_seqlens_kv"), _set(cu_seqlens_kv=[5])),
    Fault("shape", say("TND 没有 cu_seqlens_kv", "TND without cu_seqlens_kv"), _set(cu_seqlens_kv=None), layout="TND"),
)  # fmt: skip


def spoilt(rng: np.random.Generator, *faults: Fault) -> Call:
    """A call with these faults, the one that is found first given first."""
    call = max(faults, key=lambda fault: fault.mask_mode).base(rng)
    for fault in reversed(faults):
        fault.spoil(call)
    return call


def routes(rng: np.random.Generator) -> list[Call]:
    """Twice every way through the table of routes, in both dense layouts, on the limits and beside them."""

    def n(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    calls = []
    for layout in ("BSND", "BNSD"):
        heads = n(9, 40)
        few, many = (heads, heads), (16, 16)
        calls += [
            make_call(layout, 2, few, (n(60, 128), n(60, 128)), (64, 64)),
            make_call(layout, 1, (n(129, 200),) * 2, (128, n(100, 129)), (128, n(70, 128))),
            make_call(layout, 2, (4 * heads, heads), (n(60, 129), n(60, 129)), (128, 128)),  # GQA
            make_call(layout, 2, few, (n(60, 129), n(60, 129)), (n(129, 193), 96)),  # too wide
            make_call(layout, 16, many, (n(129, 641), n(129, 641)), (128, 128)),  # 256 heads
            make_call(layout, 8, many, (128 * n(2, 6), 128 * n(1, 6)), (64, 64)),  # 128 heads, aligned
            make_call(layout, 8, many, (128 * n(2, 5) + n(1, 120), 128 * n(1, 6)), (128, 128)),  # not aligned
            make_call(layout, n(2, 7), many, (128 * n(2, 6), 128 * n(2, 6)), (128, 128)),  # too few heads
            make_call(layout, 16, many, (n(129, 641), n(129, 641)), (128, 64)),  # D and Dv differ
            make_call(layout, 17, many, (n(40, 128), n(129, 640)), (96, 96)),  # one length only is short
            make_call(layout, 17, many, (n(641, 900), n(60, 640)), (64, 64)),
            make_call(layout, 16, many, (640, 640), (128, 128)),
        ]
    calls += [make_call("TND", n(3, 6), (8, 8), (n(60, 129), n(60, 129)), (128, 128)) for _ in range(2)]
    calls += [make_call("TND", 4, (8, 4), (4000, 5000), (64, 64), max_seqlen=(n(60, 129), n(60, 129)))]
    return calls


def written(rng: np.random.Generator) -> list[Call]:
    """Plans in which each of the last fields of the key is decided both ways; windows that leave blocks empty."""

    def n(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    many, calls = (16, 16), []
    for layout in ("BSND", "BNSD"):
        calls += [
            make_call(layout, 4, (8, 8), (n(60, 128), n(60, 128)), (64, 64), 3, swizzle=True),
            make_call(layout, 17, many, (n(300, 500), n(300, 500)), (128, 128), swizzle=True),
            make_call(layout, 4, (16, 4), (n(700, 4000), n(700, 4000)), (128, n(64, 129)), 3, swizzle=True),
            make_call(layout, 4, (16, 4), (n(700, 4000), n(700, 4000)), (192, n(64, 129)), swizzle=True),
            make_call(layout, 4, (16, 4), (n(700, 4000), n(700, 4000)), (192, n(129, 193)), 4, (64, 0), swizzle=True),
            make_call(layout, 17, many, (n(520, 640), n(129, 300)), (128, 128), 3),  # first queries see nothing
            make_call(layout, 17, many, (n(200, 300), n(320, 420)), (128, 128), 3),
            make_call(layout, 17, many, (n(129, 200), n(560, 640)), (64, 64), 4, (n(0, 60), n(0, 60))),  # unseen keys
            make_call(layout, 17, many, (n(300, 500), n(300, 500)), (64, 64), 4, (n(130, 300), n(130, 300))),
            make_call(layout, 17, many, (n(520, 640), n(129, 300)), (64, 64)),
        ]
    calls += [make_call("TND", 3, (8, 8), (4000, 4500), (128, 128), 3, swizzle=True)]
    calls += [make_call("TND", 3, (8, 8), (4000, 4500), (n(129, 193), n(64, 129))) for _ in range(2)]  # no binary
    return calls
