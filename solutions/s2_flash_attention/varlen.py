import math

import torch


def flash_attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_kv: torch.Tensor,
    *,
    scale: float | None = None,
    mask_mode: int = 0,
    block_q: int = 128,
    block_kv: int = 128,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over sequences of different lengths, packed one after the other without padding (layout TND).

    q [T1, N1, D], k [T2, N2, D], v [T2, N2, Dv] -> attn_out [T1, N1, Dv], softmax_lse [N1, T1] float32.
    Sequence b owns queries cu_seqlens_q[b] : cu_seqlens_q[b + 1] and keys cu_seqlens_kv[b] : cu_seqlens_kv[b + 1]
    (int32, the first is 0). A sequence may be empty on either side. mask_mode 0 or 3, within each sequence.
    """
    # zh: 第 1 步：准备输出（0 和 +inf）。注意 softmax_lse 的头在前：[N1, T1]。
    # en: Step 1: the outputs (0 and +inf). Mind that softmax_lse has the heads first: [N1, T1].
    # zh: 第 2 步：逐个序列切片，把 [长度, 头, D] 变成 [1, 头, 长度, D]，调用 flash_attention_forward。
    # en: Step 2: slice each sequence, turn [length, heads, D] into [1, heads, length, D],
    # en:         and call flash_attention_forward.
    # zh: 第 3 步：把结果换回 TND 的排列，写到该序列的位置上。序列之间互不可见。
    # en: Step 3: put the result back in TND order at that sequence's place. Sequences never see each other.
    ### BEGIN SOLUTION
    attn_out = torch.zeros(*q.shape[:2], v.shape[2], dtype=q.dtype, device=q.device)
    softmax_lse = torch.full((q.shape[1], q.shape[0]), math.inf, dtype=torch.float32, device=q.device)
    starts_q, starts_kv = cu_seqlens_q.tolist(), cu_seqlens_kv.tolist()
    for q0, q1, k0, k1 in zip(starts_q, starts_q[1:], starts_kv, starts_kv[1:]):
        if q0 == q1 or k0 == k1:
            continue
        q_one, k_one, v_one = (x.transpose(0, 1).unsqueeze(0) for x in (q[q0:q1], k[k0:k1], v[k0:k1]))
        out, lse = flash_attention_forward(
            q_one, k_one, v_one, scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv
        )
        attn_out[q0:q1] = out[0].transpose(0, 1)
        softmax_lse[:, q0:q1] = lse[0]
    return attn_out, softmax_lse
    ### END SOLUTION
