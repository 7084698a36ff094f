from math import ceil


def choose_schedule(soc: dict, shape: dict) -> dict:
    """A schedule for this chip and shape that fits, and takes at most 15 % longer than the best of a sweep.

    soc: {"arch": "3510" (950) or "2201" (910B, A3), "cores", "mhz"; bytes "l1", "l0a", "l0b", "l0c", "ub", "l2_bytes";
        "l2_bytes_per_cycle", "hbm_bytes_per_cycle" (of one core)}.
    shape: {"batch", "num_heads", "num_kv_heads", "seq_q", "seq_kv", "head_dim", "mask_mode"} (0 or 3); head_dim is 64,
        128 or 256 on arch 3510, 64 or 128 on 2201.
    Returns a dict with any of these keys; those left out have the value in brackets:
    block_q [128]: 64, 96 or 128 rows of a tile; block_kv [128]: its columns, a multiple of 16;
    preload [2]: tiles that C1 runs ahead of C2, 0 .. 8; s_slots, o_slots [2], p_slots [3]: places for S, O, P, 1 .. 16;
    s_path, p_path, o_path ["chip"]: "chip" or "gm". Arch 2201 has no wire from L0C to UB and from UB to L1.
    The sweep: block_q 64, 96, 128; block_kv 128, 256 on chip, 128 .. 1024 through GM; preload 1, 2; slots 1, 2.
    """
    # zh: 第 1 步：选 block_q。块数 / 核数向上取整是轮数，每轮的时间由 Cube、载入、Fixpipe 里最慢的决定。
    # zh: 第 2 步：走片上还是 GM，决定 block_kv。
    # zh: 第 3 步：放不下双份的 S 与 O 时各留一份。
    # en: Step 1: block_q. Blocks over cores, rounded up, are the waves; a wave takes as long as the slowest of Cube,
    # en: loading and Fixpipe.
    # en: Step 2: chip or GM, and with it block_kv.
    # en: Step 3: one slot each for S and O where two do not fit.
    ### BEGIN SOLUTION
    heads, d, through_gm = shape["batch"] * shape["num_heads"], shape["head_dim"], soc["arch"] == "2201"

    def time(m):
        waves = ceil(heads * ceil(shape["seq_q"] / m) / soc["cores"])
        cube = 2 * m * 128 * d / 4096
        load = 4 * 128 * d / soc["l2_bytes_per_cycle"] + 160  # two transfers, 80 cycles to start each
        exchange = 4 * m * 128 / 45 + 160 if through_gm else 0  # Fixpipe writes S at some 45 bytes per cycle
        return waves * max(cube, load, exchange)

    m = min((128, 96, 64), key=time)
    if through_gm:
        # zh: 每次来回 GM 都有延迟，块要宽；O 也因此写得少
        # en: every round trip through GM costs latency, so tiles are wide; O is then written less often too
        return {"block_q": m, "block_kv": 512, "s_path": "gm", "p_path": "gm", "o_path": "gm"}
    double = 7 * m * 128 + 6 * m * d + 54 * m + 512 <= soc["ub"]
    return {"block_q": m, "s_slots": 2 if double else 1, "o_slots": 2 if double else 1}
    ### END SOLUTION
