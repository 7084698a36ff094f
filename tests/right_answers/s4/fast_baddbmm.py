"""The heads of a batch as one bmm, accumulated by baddbmm; the plan with one function per check."""
# flashdojo: exercise=s4-fast,s4-plan
import math

import torch


def fast_attention(q, k, v):
    batch, n1, s1, d = q.shape
    n2, s2 = k.shape[1], k.shape[2]
    rows = s1 * (n1 // n2)  # the query heads of a group share K and V: more rows of one product
    q, k, v = q.reshape(-1, rows, d), k.reshape(-1, s2, d).transpose(1, 2), v.reshape(-1, s2, d)
    out = torch.empty(q.shape)
    for i in range(0, rows, 64):
        tile = q[:, i : i + 64]
        top = total = acc = None
        for j in range(0, s2, 512):
            zero = tile.new_zeros(1, 1, 1)
            scores = torch.baddbmm(zero, tile, k[:, :, j : j + 512], beta=0, alpha=1 / math.sqrt(d))
            here = scores.amax(2, keepdim=True)
            if top is None:
                top, weights = here, scores.sub_(here).exp_()
                total, acc = weights.sum(2, keepdim=True), torch.bmm(weights, v[:, j : j + 512])
                continue
            here = torch.maximum(here, top)
            weights, shrink = scores.sub_(here).exp_(), top.sub_(here).exp_()
            total = total.mul_(shrink).add_(weights.sum(2, keepdim=True))
            acc = acc.mul_(shrink).baddbmm_(weights, v[:, j : j + 512])
            top = here
        out[:, i : i + 64] = acc / total
    return out.view(batch, n1, s1, d)


def dims(call):
    layout = call["layout_q"]
    return {name: dict(zip(layout, shape)) for name, shape in call["shapes"].items() if name != "softmax_lse"}


def bad_dtype(c):
    given = [c["dtypes"][name] for name in ("q", "k", "v", "dout", "attn_out")]
    return given not in (["float16"] * 5, ["bfloat16"] * 5) or c["dtypes"]["softmax_lse"] != "float32"


def bad_attributes(c):
    small = [c[name] < -1 for name in ("win_left", "win_right", "max_seqlen_q", "max_seqlen_kv")]
    return c["mask_mode"] not in (0, 3, 4) or any(small)


def bad_mask(c):
    mode, mask, windows = c["mask_mode"], c["attn_mask"], [c["win_left"], c["win_right"]]
    if mode == 0:
        return mask is not None or windows != [-1, -1]
    if mask is None or tuple(mask) != (2048, 2048):
        return True
    return windows != [-1, -1] if mode == 3 else -1 in windows


def bad_layout(c):
    return len({c["layout_q"], c["layout_kv"], c["layout_out"]}) > 1 or c["layout_q"] not in {"BSND", "BNSD", "TND"}


def bad_shape(c):
    axes = 3 if c["layout_q"] == "TND" else 4
    if {len(c["shapes"][name]) for name in ("q", "k", "v", "dout", "attn_out")} != {axes}:
        return True
    if axes == 3 and len(c["shapes"]["softmax_lse"]) != 2:
        return True
    t = dims(c)
    if t["q"]["D"] != t["k"]["D"] or not t["v"]["D"] == t["dout"]["D"] == t["attn_out"]["D"]:
        return True
    if t["v"]["D"] > t["q"]["D"] or t["v"]["D"] < 1 or t["q"]["D"] > 192:
        return True
    if not t["q"]["N"] == t["dout"]["N"] == t["attn_out"]["N"] or t["k"]["N"] != t["v"]["N"]:
        return True
    if t["k"]["N"] == 0 or t["q"]["N"] % t["k"]["N"]:
        return True
    if axes == 3:
        return c["cu_seqlens_q"] is None or c["cu_seqlens_kv"] is None
    if not t["q"]["S"] == t["dout"]["S"] == t["attn_out"]["S"] or t["k"]["S"] != t["v"]["S"]:
        return True
    return any(x["B"] != t["q"]["B"] for x in t.values()) or c["cu_seqlens_q"] or c["cu_seqlens_kv"]


def plan_backward(call):
    faults = {
        "deterministic": lambda c: c["deterministic"], "inputs": lambda c: None in c["shapes"].values(),
        "dtype": bad_dtype, "attributes": bad_attributes, "mask": bad_mask, "layout": bad_layout, "shape": bad_shape,
    }  # fmt: skip
    for word, wrong in faults.items():
        if wrong(call):
            return dict(refused=word, fields=None, key=None)
    t, tnd, mode = dims(call), call["layout_q"] == "TND", call["mask_mode"]
    d, dv = t["q"]["D"], t["v"]["D"]
    fields = dict(
        template="BN2GS1S2", tnd=tnd, mask_mode=mode, swizzle=call["swizzle"] and not tnd and (d <= 128 or not mode),
        d_align=max(64, 64 * math.ceil(d / 64)), dv_align=128 if dv <= 128 else 192, is_bn2_multiblk=False,
        bn2_need_zero=False,
    )  # fmt: skip
    if not tnd and t["q"]["N"] == t["k"]["N"] and d <= 128:
        b, n, s1, s2 = t["q"]["B"], t["q"]["N"], t["q"]["S"], t["k"]["S"]
        if max(s1, s2) <= 128:
            fields |= dict(template="BN2", swizzle=False)
        elif max(s1, s2) <= 640 and d == dv and (b * n > 255 or (b * n > 127 and not s1 % 128 and not s2 % 128)):
            fields |= dict(template="BN2", swizzle=False, is_bn2_multiblk=True)
            if mode:
                i, j = torch.arange(s1)[:, None] + s2 - s1, torch.arange(s2)
                low, high = (j <= i, j > -1) if mode == 3 else (j <= i + call["win_right"], j >= i - call["win_left"])
                seen = low & high
                rows = [bool(part.any()) for part in seen.split(128, 0)]
                columns = [bool(part.any()) for part in seen.split(128, 1)]
                fields["bn2_need_zero"] = not all(rows + columns)
    if tnd and d > 128:
        return dict(refused="binary", fields=None, key=None)
    return dict(refused=None, fields=fields, key=tiling_key(fields))
