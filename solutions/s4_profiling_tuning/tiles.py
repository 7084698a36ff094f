def feasible_tiles(soc: dict, head_dim: int, *, shared_so: bool = False, hit_rate: float | None = None) -> list:
    """The tiles (block_q, block_kv) that fit the buffers of one core, in increasing order.

    soc: sizes in bytes "l1", "l0a", "l0b", "l0c", "ub" (one vector core), and "l2_bytes_per_cycle",
        "hbm_bytes_per_cycle" of one core. Elements of Q, K, V, P have 2 bytes, of S and O 4.
    With M = block_q in 16 .. 256 (every integer), N = block_kv in (64, 128, 256), D = head_dim:
    L1    4*M*D (two slots of Q) + 6*M*N (three of P) + 4*N*D (one of K, one of V)  <= l1
    L0A   4*M*min(D, 128), two slots of a piece of Q                                <= l0a
    L0B   4*min(N, 128)*min(D, 128), two slots of a piece of K                      <= l0b
    L0C   four equal slots: 4*M*N <= one slot; 4*M*D <= two slots
    UB    one vector core works on M/2 rows. S and O apart: 7*M*N + 6*M*D + 54*M + 512 <= ub;
          shared_so, S and O in one buffer: 4*M*max(N, D) + 2*M*N + 2*M*D + M*N + 54*M + 512 <= ub
    With hit_rate, the share of K and V that L2 holds, only tiles for which the Cube is not slower fed than it computes:
    2*M*N*D / 4096 cycles >= 4*N*D * (hit_rate / l2_bytes_per_cycle + (1 - hit_rate) / hbm_bytes_per_cycle) cycles.
    """
    ### BEGIN SOLUTION
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
            if fits and hit_rate is not None:
                load = 4 * n * d * (hit_rate / soc["l2_bytes_per_cycle"] + (1 - hit_rate) / soc["hbm_bytes_per_cycle"])
                fits = 2 * m * n * d / 4096 >= load
            if fits:
                tiles.append((m, n))
    return tiles
    ### END SOLUTION
