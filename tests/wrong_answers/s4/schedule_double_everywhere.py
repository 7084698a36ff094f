# flashdojo: exercise=s4-schedule check=s4-schedule.fits misconception=schedule-overflows
"""Two slots of S and O, whether they fit or not."""

from math import ceil


def choose_schedule(soc: dict, shape: dict) -> dict:
    heads, d, through_gm = shape["batch"] * shape["num_heads"], shape["head_dim"], soc["arch"] == "2201"

    def time(m):
        waves = ceil(heads * ceil(shape["seq_q"] / m) / soc["cores"])
        cube = 2 * m * 128 * d / 4096
        load = 4 * 128 * d / soc["l2_bytes_per_cycle"] + 160  # two transfers, 80 cycles to start each
        exchange = 4 * m * 128 / 45 + 160 if through_gm else 0  # Fixpipe writes S at some 45 bytes per cycle
        return waves * max(cube, load, exchange)

    m = min((128, 96, 64), key=time)
    if through_gm:
        return {"block_q": m, "block_kv": 512, "s_path": "gm", "p_path": "gm", "o_path": "gm"}
    double = 7 * m * 128 + 6 * m * d + 54 * m + 512 <= soc["ub"]
    return {"block_q": m, "s_slots": 2, "o_slots": 2}
