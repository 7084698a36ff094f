def plan_backward(call: dict) -> dict:
    """What the host does before flash_attn_grad runs: parse, check, plan, write.

    call: "deterministic" bool; "dtypes" and "shapes" of q, k, v, dout, attn_out, softmax_lse (a shape is a list, None
    for a tensor that was not given); "attn_mask", "cu_seqlens_q", "cu_seqlens_kv": a shape or None; ints "mask_mode",
    "win_left", "win_right", "max_seqlen_q", "max_seqlen_kv"; "layout_q", "layout_kv", "layout_out"; "swizzle" bool.
    Returns {"refused": None, "fields": the fields of tiling_key, "key": int}, or {"refused": word, "fields": None,
    "key": None}: word is the first of these checks, in this order, that does not hold:
    "deterministic"  it is False
    "inputs"         all six shapes are given
    "dtype"          q float16 or bfloat16, k, v, dout, attn_out the same; softmax_lse float32
    "attributes"     mask_mode 0, 3 or 4; both windows and both max_seqlen >= -1
    "mask"           0: no attn_mask, windows -1. 3: attn_mask, windows -1. 4: attn_mask, windows >= 0. A mask is
                     [2048, 2048]
    "layout"         BSND, BNSD or TND, all three the same
    "shape"          q, k, v, dout, attn_out have 4 axes (TND [T, N, D]: 3, and softmax_lse 2); D of k as of q; Dv of
                     dout and attn_out as of v; 0 < Dv <= D <= 192; N1 of dout and attn_out as of q, N2 of v as of k,
                     N1 a multiple of N2; S1 of dout and attn_out as of q, S2 of v as of k, B the same in all five (not
                     for TND); both cu_seqlens given for TND, none otherwise
    "binary"         tiling_key has a key for the plan
    The plan, with S1 and S2 of the shapes (for TND max_seqlen if > 0, else T):
    BN2 needs no TND, N1 == N2, D <= 128. Both S <= 128: BN2. Else both S <= 640 and D == Dv, and worth it (B*N1 >= 256,
    or B*N1 >= 128 with both S multiples of 128): BN2 with is_bn2_multiblk. Everything else: BN2GS1S2.
    bn2_need_zero: MultiBlk, mask_mode 3 or 4, and some block of 128 queries or of 128 keys without one visible pair.
    d_align: the smallest that D fits; dv_align: the smallest that Dv fits. swizzle: as call says, for BN2GS1S2 without
    TND, where there is a binary with it; else False.
    """

    # zh: 一个检查一个检查地写，次序就是答案的一部分。S 与 N 在哪个轴上，取决于布局。
    # en: Write one check after the other; their order is part of the answer. The layout says which axis is S and which
    # en: is N.
    ### BEGIN SOLUTION
    def refuse(word: str) -> dict:
        return {"refused": word, "fields": None, "key": None}

    shapes, dtypes, tensors = call["shapes"], call["dtypes"], ("q", "k", "v", "dout", "attn_out")
    mode, mask, window = call["mask_mode"], call["attn_mask"], (call["win_left"], call["win_right"])
    layout = call["layout_q"]
    tnd, cu_seqlens = layout == "TND", (call["cu_seqlens_q"], call["cu_seqlens_kv"])

    # zh: 校验
    # en: check
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

    # zh: 规划
    # en: plan
    d, dv = q["D"], v["D"]
    s1 = (call["max_seqlen_q"] if call["max_seqlen_q"] > 0 else q["T"]) if tnd else q["S"]
    s2 = (call["max_seqlen_kv"] if call["max_seqlen_kv"] > 0 else k["T"]) if tnd else k["S"]
    heads = 0 if tnd else q["B"] * q["N"]
    family = not tnd and q["N"] == k["N"] and d <= 128
    single = family and max(s1, s2) <= 128
    worth = heads >= 256 or (heads >= 128 and s1 % 128 == 0 and s2 % 128 == 0)
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

    # zh: 写回
    # en: write
    try:
        return {"refused": None, "fields": fields, "key": tiling_key(fields)}
    except ValueError:
        return refuse("binary")
    ### END SOLUTION
