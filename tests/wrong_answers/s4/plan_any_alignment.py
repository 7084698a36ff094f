# flashdojo: exercise=s4-plan check=s4-plan.route misconception=plan-unaligned
"""128 heads are enough."""


def plan_backward(call: dict) -> dict:

    def refuse(word: str) -> dict:
        return {"refused": word, "fields": None, "key": None}

    shapes, dtypes, tensors = call["shapes"], call["dtypes"], ("q", "k", "v", "dout", "attn_out")
    mode, mask, window = call["mask_mode"], call["attn_mask"], (call["win_left"], call["win_right"])
    layout = call["layout_q"]
    tnd, cu_seqlens = layout == "TND", (call["cu_seqlens_q"], call["cu_seqlens_kv"])

    if call["deterministic"]:
        return refuse("deterministic")
    if any(shapes[name] is None for name in (*tensors, "softmax_lse")):
        return refuse("inputs")
    if dtypes["q"] not in ("float16", "bfloat16") or any(dtypes[name] != dtypes["q"] for name in tensors):
        return refuse("dtype")
    if dtypes["softmax_lse"] != "float32":
        return refuse("dtype")
    if mode not in (0, 3, 4) or min(*window, call["max_seqlen_q"], call["max_seqlen_kv"]) < -1:
        return refuse("attributes")
    if (mask is None) != (mode == 0) or (mask is not None and list(mask) != [2048, 2048]):
        return refuse("mask")
    if min(window) < 0 if mode == 4 else window != (-1, -1):
        return refuse("mask")
    if layout not in ("BSND", "BNSD", "TND") or not layout == call["layout_kv"] == call["layout_out"]:
        return refuse("layout")
    if any(len(shapes[name]) != len(layout) for name in tensors) or (tnd and len(shapes["softmax_lse"]) != 2):
        return refuse("shape")
    sizes = {name: dict(zip(layout, shapes[name], strict=True)) for name in tensors}
    q, k, v = sizes["q"], sizes["k"], sizes["v"]
    like_q = all(sizes[name][axis] == q[axis] for name in ("dout", "attn_out") for axis in layout if axis in "NS")
    like_k = all(v[axis] == k[axis] for axis in layout if axis in "NS")
    widths = k["D"] == q["D"] and sizes["dout"]["D"] == sizes["attn_out"]["D"] == v["D"]
    batches = len({sizes[name].get("B") for name in tensors}) == 1
    if not (like_q and like_k and widths and batches and 0 < v["D"] <= q["D"] <= 192):
        return refuse("shape")
    if k["N"] == 0 or q["N"] % k["N"] != 0 or any((given is not None) != tnd for given in cu_seqlens):
        return refuse("shape")

    d, dv = q["D"], v["D"]
    s1 = (call["max_seqlen_q"] if call["max_seqlen_q"] > 0 else q["T"]) if tnd else q["S"]
    s2 = (call["max_seqlen_kv"] if call["max_seqlen_kv"] > 0 else k["T"]) if tnd else k["S"]
    heads = 0 if tnd else q["B"] * q["N"]
    family = not tnd and q["N"] == k["N"] and d <= 128
    single = family and max(s1, s2) <= 128
    worth = heads >= 128
    multiblk = family and not single and max(s1, s2) <= 640 and d == dv and worth
    empty = False
    if multiblk and mode:
        left, right = (s1 + s2, 0) if mode == 3 else window
        seen = [range(max(0, i + s2 - s1 - left), min(s2, i + s2 - s1 + right + 1)) for i in range(s1)]
        rows = {i // 128 for i in range(s1) if seen[i]}
        columns = {j // 128 for visible in seen for j in visible}
        empty = len(rows) < -(-s1 // 128) or len(columns) < -(-s2 // 128)
    fields = {
        "template": "BN2" if single or multiblk else "BN2GS1S2",
        "tnd": tnd,
        "mask_mode": mode,
        "swizzle": call["swizzle"] and not (single or multiblk or tnd or (d > 128 and mode != 0)),
        "d_align": 64 if d <= 64 else 128 if d <= 128 else 192,
        "dv_align": 128 if dv <= 128 else 192,
        "is_bn2_multiblk": multiblk,
        "bn2_need_zero": empty,
    }

    try:
        return {"refused": None, "fields": fields, "key": tiling_key(fields)}
    except ValueError:
        return refuse("binary")
