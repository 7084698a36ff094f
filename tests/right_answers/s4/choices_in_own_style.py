# flashdojo: exercise=s4-tiles
"""Inequalities solved for M with whole numbers, pairs as lists; a schedule by an estimate of its own, three tiles ahead,
with 96 rows where they are as good."""

import math


def feasible_tiles(soc, head_dim, *, shared_so=False, hit_rate=None):
    d = head_dim
    tiles = []
    for n in (64, 128, 256):
        if 4 * min(n, 128) * min(d, 128) > soc["l0b"]:
            continue
        per_row = 4 * max(n, d) + 3 * n + 2 * d + 54 if shared_so else 7 * n + 6 * d + 54
        slot = soc["l0c"] // 4
        last = min(
            256,
            (soc["l1"] - 4 * n * d) // (4 * d + 6 * n),
            soc["l0a"] // (4 * min(d, 128)),
            slot // (4 * n),
            soc["l0c"] // 2 // (4 * d),
            (soc["ub"] - 512) // per_row,
        )
        first = 16
        if hit_rate is not None:
            per_byte = hit_rate / soc["l2_bytes_per_cycle"] + (1 - hit_rate) / soc["hbm_bytes_per_cycle"]
            while first <= last and first < 8192 * per_byte:
                first += 1
        tiles += [[m, n] for m in range(first, last + 1)]
    return sorted(tiles)


def choose_schedule(soc, shape):
    blocks = shape["batch"] * shape["num_heads"]
    gm = soc["arch"] == "2201"
    best = None
    for block_q in (128, 96, 64):
        waves = -(-blocks * math.ceil(shape["seq_q"] / block_q) // soc["cores"])
        rows = block_q if gm else max(block_q, 100 if block_q < 96 else 0)
        estimate = waves * (rows + 12)
        if best is None or estimate < 0.97 * best[0]:
            best = estimate, block_q
    answer = {"block_q": best[1], "preload": 3, "p_slots": 4}
    if gm:
        return answer | dict.fromkeys(("s_path", "p_path", "o_path"), "gm") | {"block_kv": 512}
    answer["block_kv"] = 128
    if shape["head_dim"] == 256:
        answer |= {"s_slots": 1, "o_slots": 1}
    return answer
