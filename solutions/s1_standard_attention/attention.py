import math

import torch


def scaled_dot_product_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float | None = None, causal: bool = False
) -> torch.Tensor:
    """Attention by the formula: softmax(scale * Q K^T) V.

    q [B, N1, S1, D], k [B, N2, S2, D], v [B, N2, S2, Dv] -> [B, N1, S1, Dv] in the dtype of q.
    scale None means 1 / sqrt(D). Query head h reads key/value head h // (N1 // N2).
    causal: key j is visible to query i when j <= i + S2 - S1. A row that sees no key gives 0.
    """
    batch, heads_q, seq_q, head_dim = q.shape
    heads_kv, seq_kv = k.shape[1:3]
    # zh: 第 1 步：分数。N1 个查询头分成 N2 组，相邻的 N1 // N2 个头共用一个 K/V 头；
    # zh:          把同组的头并到“行”上（[B, N2, 组大小 * S1, D]），就不必复制 K 和 V。
    # en: Step 1: the scores. The N1 query heads form N2 groups; N1 // N2 neighbours share one key/value head.
    # en:         Fold the heads of a group into rows ([B, N2, group * S1, D]) and K and V need no copies.
    # zh: 第 2 步：乘以 scale；causal 时把看不见的位置填成 -inf（右下角对齐，注意 S1 != S2）。
    # en: Step 2: multiply by scale; when causal, fill what is hidden with -inf (aligned bottom-right, mind S1 != S2).
    # zh: 第 3 步：沿 key 方向做 softmax（这里可以用 torch.softmax）。整行都是 -inf 会得到 nan，请让它变成 0。
    # en: Step 3: softmax over the keys (torch.softmax is fine here). A row of -inf only becomes nan: make it 0.
    # zh: 第 4 步：加权求和，恢复形状和 dtype。半精度输入用 float32 计算。
    # en: Step 4: the weighted sum, then shape and dtype again. Half precision input is computed in float32.
    ### BEGIN SOLUTION
    scale = 1 / math.sqrt(head_dim) if scale is None else scale
    dtype = torch.promote_types(q.dtype, torch.float32)

    rows = q.to(dtype).reshape(batch, heads_kv, -1, head_dim)  # [B, N2, group * S1, D]
    scores = rows @ k.to(dtype).transpose(-2, -1) * scale  # [B, N2, group * S1, S2]
    scores = scores.view(batch, heads_q, seq_q, seq_kv)

    hidden = torch.zeros(seq_q, seq_kv, dtype=torch.bool, device=q.device)
    if causal:
        last_visible = torch.arange(seq_q, device=q.device) + seq_kv - seq_q
        hidden = torch.arange(seq_kv, device=q.device) > last_visible[:, None]
    weights = torch.softmax(scores.masked_fill(hidden, -math.inf), dim=-1)
    weights = weights.masked_fill(hidden, 0.0)  # nan of a fully hidden row -> 0

    out = weights.view(batch, heads_kv, -1, seq_kv) @ v.to(dtype)  # [B, N2, group * S1, Dv]
    return out.view(batch, heads_q, seq_q, -1).to(q.dtype)
    ### END SOLUTION
