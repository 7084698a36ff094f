import math

import torch


def flash_attention_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float | None = None,
    mask_mode: int = 0,
    win_left: int = -1,
    win_right: int = -1,
    block_q: int = 128,
    block_kv: int = 128,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention tile by tile, in memory that grows with S1 and S2 and not with their product.

    q [B, N1, S1, D], k [B, N2, S2, D], v [B, N2, S2, Dv] -> attn_out [B, N1, S1, Dv] in the dtype of q,
    softmax_lse [B, N1, S1] float32, the natural log-sum-exp of each row's scaled scores.
    scale None means 1 / sqrt(D). Query head h reads key/value head h // (N1 // N2). Masks as in visible_tiles.
    A row that sees no key gives attn_out 0 and softmax_lse +inf.
    """
    batch, heads_q, seq_q, head_dim = q.shape
    heads_kv, seq_kv, dim_v = v.shape[1:]
    group = heads_q // heads_kv
    # zh: 第 1 步：准备输出。attn_out 全 0，softmax_lse 全 +inf：看不到任何 key 的行就已经对了。
    # en: Step 1: the outputs, attn_out all 0 and softmax_lse all +inf: rows that see no key are right already.
    # zh: 第 2 步：外层循环取一块 Q，把同组的 group 个头并到行上：[B, N2, group * 行数, D]。
    # zh:          计算和累加都用 float32（输入是 float64 时用 float64）。
    # en: Step 2: outside, take a tile of Q and fold the heads of a group into rows: [B, N2, group * rows, D].
    # en:         Compute and sum in float32 (in float64 for float64 input).
    # zh: 第 3 步：内层循环取一块 K、V（只取 visible_tiles 给出的块；最后一块可能不满），算分数并乘 scale。
    # en: Step 3: inside, take a tile of K and V (only those that visible_tiles names; the last may be short);
    # en:         the scores, times scale.
    # zh: 第 4 步：若这一块被掩码切开，就把看不见的分数填成 -inf；然后调用 online_softmax_update。
    # en: Step 4: if the mask cuts this tile, fill hidden scores with -inf; then call online_softmax_update.
    # zh: 第 5 步：内层循环结束后归一化一次：acc / row_sum，softmax_lse = row_max + log(row_sum)。
    # en: Step 5: after the inner loop normalise once: acc / row_sum, and softmax_lse = row_max + log(row_sum).
    # zh:          一行到最后也没有看到 key 时 row_sum 是 0，这样的行保持 0 和 +inf。
    # en:         A row that saw no key has row_sum 0; it keeps 0 and +inf.
    ### BEGIN SOLUTION
    scale = 1 / math.sqrt(head_dim) if scale is None else scale
    left = win_left if mask_mode == 4 else -1
    right = {0: -1, 3: 0, 4: win_right}[mask_mode]
    dtype = torch.promote_types(q.dtype, torch.float32)
    attn_out = torch.zeros(batch, heads_kv, group, seq_q, dim_v, dtype=q.dtype, device=q.device)
    softmax_lse = torch.full((batch, heads_kv, group, seq_q), math.inf, dtype=torch.float32, device=q.device)
    grouped_q = q.unflatten(1, (heads_kv, group))  # [B, N2, group, S1, D]

    tiles_of_row: dict[int, list[int]] = {}
    for i, j in visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode, win_left, win_right):
        tiles_of_row.setdefault(i, []).append(j)

    for i, columns in tiles_of_row.items():
        rows = slice(i * block_q, min((i + 1) * block_q, seq_q))
        q_tile = grouped_q[:, :, :, rows].flatten(2, 3).to(dtype)  # [B, N2, group * rows, D]
        diagonal = torch.arange(rows.start, rows.stop, device=q.device).repeat(group)[:, None] + seq_kv - seq_q
        row_max = torch.full_like(q_tile[..., :1], -math.inf)
        state = (row_max, torch.zeros_like(row_max), q_tile.new_zeros(*q_tile.shape[:-1], dim_v))

        for j in columns:
            cols = slice(j * block_kv, min((j + 1) * block_kv, seq_kv))
            scores = q_tile @ k[:, :, cols].to(dtype).transpose(-2, -1) * scale  # [B, N2, group * rows, cols]
            keys = torch.arange(cols.start, cols.stop, device=q.device)
            # zh: 只有被切开的块才需要掩码：第一行的右界、最后一行的左界决定是否被切开。
            # en: Only a cut tile needs the mask: the first row's right limit and the last row's left limit decide.
            if right >= 0 and rows.start + seq_kv - seq_q + right < cols.stop - 1:
                scores = scores.masked_fill(keys > diagonal + right, -math.inf)
            if left >= 0 and rows.stop - 1 + seq_kv - seq_q - left > cols.start:
                scores = scores.masked_fill(keys < diagonal - left, -math.inf)
            state = online_softmax_update(state, scores, v[:, :, cols])

        row_max, row_sum, acc = state
        seen = row_sum > 0
        out = torch.where(seen, acc / row_sum, 0.0)
        lse = torch.where(seen, row_max + torch.log(row_sum), math.inf)
        attn_out[:, :, :, rows] = out.unflatten(2, (group, -1)).to(q.dtype)
        softmax_lse[:, :, :, rows] = lse.squeeze(-1).unflatten(2, (group, -1)).float()
    return attn_out.flatten(1, 2), softmax_lse.flatten(1, 2)
    ### END SOLUTION
