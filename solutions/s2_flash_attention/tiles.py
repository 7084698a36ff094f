def visible_tiles(
    seq_q: int,
    seq_kv: int,
    block_q: int,
    block_kv: int,
    mask_mode: int = 0,
    win_left: int = -1,
    win_right: int = -1,
) -> list[tuple[int, int]]:
    """The tiles (i, j) in which at least one query sees at least one key, row by row.

    Tile (i, j) holds queries i * block_q ... and keys j * block_kv ..., cut off at the ends of the sequences.
    mask_mode 0: every key; 3: causal, key <= query + seq_kv - seq_q; 4: a window around that diagonal,
    query + seq_kv - seq_q - win_left <= key <= query + seq_kv - seq_q + win_right, where -1 means no limit.
    """
    # zh: 第 1 步：把 mask_mode 0 和 3 写成窗口的特例：0 是两边都不限，3 是右边限为 0。
    # en: Step 1: modes 0 and 3 are special windows: 0 has no limit on either side, 3 has a right limit of 0.
    # zh: 第 2 步：对每一行块，用第一个和最后一个 query 算出这一行块能看到的最小和最大的 key。
    # zh:          相邻 query 的窗口只平移 1，所以中间不会有空隙。
    # en: Step 2: for each row of tiles, its first and last query give the lowest and the highest key that it sees.
    # en:         From one query to the next the window moves by 1, so there is no gap in between.
    # zh: 第 3 步：裁剪到 [0, seq_kv)，换算成块号。不要逐行循环，也不要建 seq_q x seq_kv 的掩码。
    # en: Step 3: clip to [0, seq_kv) and turn keys into tile numbers. No loop over queries, no seq_q x seq_kv mask.
    ### BEGIN SOLUTION
    left = win_left if mask_mode == 4 else -1
    right = {0: -1, 3: 0, 4: win_right}[mask_mode]
    shift = seq_kv - seq_q

    tiles = []
    for i in range((seq_q + block_q - 1) // block_q):
        first_query = i * block_q
        last_query = min(first_query + block_q, seq_q) - 1
        first_key = 0 if left < 0 else max(0, first_query + shift - left)
        last_key = seq_kv - 1 if right < 0 else min(seq_kv - 1, last_query + shift + right)
        if first_key <= last_key:
            tiles += [(i, j) for j in range(first_key // block_kv, last_key // block_kv + 1)]
    return tiles
    ### END SOLUTION
