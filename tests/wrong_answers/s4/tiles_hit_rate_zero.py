# flashdojo: exercise=s4-tiles check=s4-tiles.fed misconception=tiles-hit-rate-zero
"""A hit rate of 0 is taken for none."""

def feasible_tiles(soc: dict, head_dim: int, *, shared_so: bool = False, hit_rate: float | None = None) -> list:
    tiles, d = [], head_dim
    for m in range(16, 257):
        for n in (64, 128, 256):
            if shared_so:
                ub = 4 * m * max(n, d) + 2 * m * n + 2 * m * d + m * n + 54 * m + 512
            else:
                ub = 7 * m * n + 6 * m * d + 54 * m + 512
            fits = (
                4 * m * d + 6 * m * n + 4 * n * d <= soc["l1"]
                and 4 * m * min(d, 128) <= soc["l0a"]
                and 4 * min(n, 128) * min(d, 128) <= soc["l0b"]
                and 4 * m * n <= soc["l0c"] // 4
                and 4 * m * d <= soc["l0c"] // 2
                and ub <= soc["ub"]
            )
            if fits and hit_rate:
                load = 4 * n * d * (hit_rate / soc["l2_bytes_per_cycle"] + (1 - hit_rate) / soc["hbm_bytes_per_cycle"])
                fits = 2 * m * n * d / 4096 >= load
            if fits:
                tiles.append((m, n))
    return tiles
