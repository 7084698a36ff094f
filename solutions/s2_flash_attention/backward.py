import math

import torch


def flash_attention_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dout: torch.Tensor,
    attn_out: torch.Tensor,
    softmax_lse: torch.Tensor,
    *,
    scale: float | None = None,
    mask_mode: int = 0,
    win_left: int = -1,
    win_right: int = -1,
    block_q: int = 128,
    block_kv: int = 128,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of flash_attention_forward, tile by tile: (dq, dk, dv) in the shapes and dtypes of q, k, v.

    dout and attn_out [B, N1, S1, Dv]; softmax_lse [B, N1, S1] as the forward returned it. The other arguments equal
    those of the forward call. With S = scale * Q K^T and P = exp(S - lse):
        dV = P^T dO    dP = dO V^T    dS = P * (dP - rowsum(dO * O))    dQ = scale * dS K    dK = scale * dS^T Q
    """
    heads_q, seq_q, head_dim = q.shape[1:]
    heads_kv, seq_kv = k.shape[1:3]
    group = heads_q // heads_kv
    # zh: 第 1 步：dq、dk、dv 的累加器用 float32（输入 float64 则 float64），大小是 O(N)，不是 O(N^2)。
    # en: Step 1: accumulators for dq, dk, dv in float32 (float64 for float64 input); their size is O(N), not O(N^2).
    # zh: 第 2 步：D 项，即每一行的 rowsum(dO * O)，只需算一次。
    # en: Step 2: the D term, rowsum(dO * O) for each row, once.
    # zh: 第 3 步：逐块重算 S 和 P = exp(S - lse)。P 不需要再归一化，也不需要最大值；看不见的位置 P 为 0。
    # en: Step 3: tile by tile recompute S and P = exp(S - lse). That is normalised already and needs no maximum;
    # en:         hidden places have P = 0.
    # zh: 第 4 步：按上面的公式把本块的贡献加到 dq、dk、dv 上。同组的查询头共用一份 dk、dv，
    # zh:          把头并到行上，矩阵乘法自然会把它们加起来。
    # en: Step 4: add this tile's share to dq, dk, dv. The query heads of a group share one dk and dv:
    # en:         with the heads folded into rows, the matrix product sums over them.
    # zh: 第 5 步：最后把 scale 乘到 dq 和 dk 上（dv 不乘），转回输入的 dtype。
    # en: Step 5: at the end multiply dq and dk (not dv) by scale and return the input dtypes.
    ### BEGIN SOLUTION
    scale = 1 / math.sqrt(head_dim) if scale is None else scale
    left = win_left if mask_mode == 4 else -1
    right = {0: -1, 3: 0, 4: win_right}[mask_mode]
    dtype = torch.promote_types(q.dtype, torch.float32)
    by_group = (heads_kv, group)
    d_term = (dout.to(dtype) * attn_out.to(dtype)).sum(dim=-1, keepdim=True).unflatten(1, by_group)
    lse = softmax_lse.to(dtype).unsqueeze(-1).unflatten(1, by_group)
    grouped_q, grouped_dout = q.unflatten(1, by_group), dout.unflatten(1, by_group)  # [B, N2, group, S1, ...]
    dq = torch.zeros(grouped_q.shape, dtype=dtype, device=q.device)
    dk = torch.zeros(k.shape, dtype=dtype, device=q.device)
    dv = torch.zeros(v.shape, dtype=dtype, device=q.device)

    for i, j in visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode, win_left, win_right):
        rows = slice(i * block_q, min((i + 1) * block_q, seq_q))
        cols = slice(j * block_kv, min((j + 1) * block_kv, seq_kv))
        q_tile, dout_tile, lse_tile, d_tile = (
            x[:, :, :, rows].flatten(2, 3).to(dtype) for x in (grouped_q, grouped_dout, lse, d_term)
        )  # [B, N2, group * rows, ...]
        k_tile, v_tile = k[:, :, cols].to(dtype), v[:, :, cols].to(dtype)

        p = torch.exp(q_tile @ k_tile.transpose(-2, -1) * scale - lse_tile)  # [B, N2, group * rows, cols]
        diagonal = torch.arange(rows.start, rows.stop, device=q.device).repeat(group)[:, None] + seq_kv - seq_q
        keys = torch.arange(cols.start, cols.stop, device=q.device)
        if right >= 0 and rows.start + seq_kv - seq_q + right < cols.stop - 1:
            p = p.masked_fill(keys > diagonal + right, 0.0)
        if left >= 0 and rows.stop - 1 + seq_kv - seq_q - left > cols.start:
            p = p.masked_fill(keys < diagonal - left, 0.0)

        dv[:, :, cols] += p.transpose(-2, -1) @ dout_tile
        ds = p * (dout_tile @ v_tile.transpose(-2, -1) - d_tile)
        dq[:, :, :, rows] += (ds @ k_tile).unflatten(2, (group, -1))
        dk[:, :, cols] += ds.transpose(-2, -1) @ q_tile
    return (dq.flatten(1, 2) * scale).to(q.dtype), (dk * scale).to(k.dtype), dv.to(v.dtype)
    ### END SOLUTION
