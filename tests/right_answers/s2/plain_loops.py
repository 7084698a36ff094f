# Beginner style: loops over batch, head, tile; everything two-dimensional inside.
import math

import torch
import torch.nn as nn


def online_softmax_update(state, scores, values):
    old_max, old_sum, old_acc = state
    tile_max, _ = scores.max(dim=-1, keepdim=True)
    new_max = torch.maximum(old_max, tile_max)
    seen = new_max > float("-inf")
    # rows that have seen nothing: pretend the maximum is 0
    m = torch.where(seen, new_max, torch.zeros_like(new_max))
    factor = torch.exp(old_max - m)
    p = torch.exp(scores - m)
    new_sum = old_sum * factor + torch.sum(p, dim=-1, keepdim=True)
    new_acc = old_acc * factor + torch.matmul(p, values.to(p.dtype))
    return (new_max, new_sum, new_acc)


def merge_states(a, b):
    ma, la, oa = a
    mb, lb, ob = b
    m = torch.where(ma > mb, ma, mb)
    safe = torch.where(m > float("-inf"), m, torch.zeros_like(m))
    fa = torch.exp(ma - safe)
    fb = torch.exp(mb - safe)
    return (m, la * fa + lb * fb, oa * fa + ob * fb)


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    tiles = []
    q_start = 0
    i = 0
    while q_start < seq_q:
        q_end = min(q_start + block_q, seq_q)
        k_start = 0
        j = 0
        while k_start < seq_kv:
            k_end = min(k_start + block_kv, seq_kv)
            # diagonal of the first and of the last query
            d0 = q_start + seq_kv - seq_q
            d1 = q_end - 1 + seq_kv - seq_q
            ok = True
            if mask_mode == 3 and k_start > d1:
                ok = False
            if mask_mode == 4:
                if win_right != -1 and k_start > d1 + win_right:
                    ok = False
                if win_left != -1 and k_end - 1 < d0 - win_left:
                    ok = False
            if ok:
                tiles.append((i, j))
            k_start += block_kv
            j += 1
        q_start += block_q
        i += 1
    return tiles


def hide(scores, q_start, k_start, seq_q, seq_kv, mask_mode, win_left, win_right):
    if mask_mode == 0:
        return scores
    rows = torch.arange(scores.shape[0], device=scores.device).unsqueeze(1) + q_start + seq_kv - seq_q
    cols = torch.arange(scores.shape[1], device=scores.device).unsqueeze(0) + k_start
    if mask_mode == 3:
        return scores.masked_fill(cols > rows, float("-inf"))
    if win_right != -1:
        scores = scores.masked_fill(cols > rows + win_right, float("-inf"))
    if win_left != -1:
        scores = scores.masked_fill(cols < rows - win_left, float("-inf"))
    return scores


def flash_attention_forward(
    q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128
):
    B, N1, S1, D = q.shape
    N2, S2, Dv = k.shape[1], k.shape[2], v.shape[3]
    if scale is None:
        scale = 1 / math.sqrt(D)
    work = torch.float64 if q.dtype == torch.float64 else torch.float32
    attn_out = torch.zeros((B, N1, S1, Dv), dtype=q.dtype, device=q.device)
    softmax_lse = torch.full((B, N1, S1), float("inf"), dtype=torch.float32, device=q.device)
    tiles = visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right)

    for b in range(B):
        for h in range(N1):
            g = h // (N1 // N2)
            for i in range((S1 + block_q - 1) // block_q):
                my_tiles = [jj for (ii, jj) in tiles if ii == i]
                if not my_tiles:
                    continue
                q0 = i * block_q
                q1 = min(S1, q0 + block_q)
                q_tile = q[b, h, q0:q1].to(work)
                state = (
                    torch.full((q1 - q0, 1), float("-inf"), dtype=work, device=q.device),
                    torch.zeros((q1 - q0, 1), dtype=work, device=q.device),
                    torch.zeros((q1 - q0, Dv), dtype=work, device=q.device),
                )
                for j in my_tiles:
                    k0 = j * block_kv
                    k1 = min(S2, k0 + block_kv)
                    s = torch.mm(q_tile, k[b, g, k0:k1].to(work).t()) * scale
                    s = hide(s, q0, k0, S1, S2, mask_mode, win_left, win_right)
                    state = online_softmax_update(state, s, v[b, g, k0:k1])
                row_max, row_sum, acc = state
                for r in range(q1 - q0):
                    if row_sum[r, 0] > 0:
                        attn_out[b, h, q0 + r] = (acc[r] / row_sum[r]).to(q.dtype)
                        softmax_lse[b, h, q0 + r] = row_max[r, 0] + torch.log(row_sum[r, 0])
    return attn_out, softmax_lse


class FlashAttentionV1(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads != 0:
            raise ValueError("hidden_dim must be divisible by num_heads")
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.block_size = block_size
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        B, N, D = x.shape
        Q = self.q_proj(x).view(B, N, self.num_heads, self.head_dim).transpose(1, 2)
        K = self.k_proj(x).view(B, N, self.num_heads, self.head_dim).transpose(1, 2)
        V = self.v_proj(x).view(B, N, self.num_heads, self.head_dim).transpose(1, 2)
        rows = []
        for i in range(0, N, self.block_size):
            Qb = Q[:, :, i : i + self.block_size]
            state = None
            for j in range(0, N, self.block_size):
                s = torch.matmul(Qb, K[:, :, j : j + self.block_size].transpose(2, 3)) / self.head_dim**0.5
                vb = V[:, :, j : j + self.block_size]
                m = s.max(dim=-1, keepdim=True).values
                p = torch.exp(s - m)
                new = (m, p.sum(-1, keepdim=True), torch.matmul(p, vb))
                state = new if state is None else merge_states(state, new)
            rows.append(state[2] / state[1])
        out = torch.cat(rows, dim=2)
        out = out.transpose(1, 2).contiguous().view(B, N, D)
        return self.out_proj(out)


def flash_attention_backward(
    q, k, v, dout, attn_out, softmax_lse, *,
    scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128
):
    B, N1, S1, D = q.shape
    N2, S2, Dv = k.shape[1], k.shape[2], v.shape[3]
    if scale is None:
        scale = 1 / math.sqrt(D)
    work = torch.float64 if q.dtype == torch.float64 else torch.float32
    dq = torch.zeros(q.shape, dtype=work, device=q.device)
    dk = torch.zeros(k.shape, dtype=work, device=q.device)
    dv = torch.zeros(v.shape, dtype=work, device=q.device)
    tiles = visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right)
    for b in range(B):
        for h in range(N1):
            g = h // (N1 // N2)
            for i, j in tiles:
                q0, q1 = i * block_q, min(S1, (i + 1) * block_q)
                k0, k1 = j * block_kv, min(S2, (j + 1) * block_kv)
                Q = q[b, h, q0:q1].to(work)
                K = k[b, g, k0:k1].to(work)
                V = v[b, g, k0:k1].to(work)
                dO = dout[b, h, q0:q1].to(work)
                O = attn_out[b, h, q0:q1].to(work)
                S = hide(scale * torch.mm(Q, K.t()), q0, k0, S1, S2, mask_mode, win_left, win_right)
                P = torch.exp(S - softmax_lse[b, h, q0:q1].to(work).unsqueeze(1))
                dP = torch.mm(dO, V.t())
                delta = torch.sum(dO * O, dim=1, keepdim=True)
                dS = P * (dP - delta)
                dv[b, g, k0:k1] += torch.mm(P.t(), dO)
                dq[b, h, q0:q1] += scale * torch.mm(dS, K)
                dk[b, g, k0:k1] += scale * torch.mm(dS.t(), Q)
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        out, lse = flash_attention_forward(
            q, k, v, scale=scale, mask_mode=mask_mode, win_left=win_left, win_right=win_right,
            block_q=block_q, block_kv=block_kv,
        )
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.scale = scale
        ctx.mask_mode = mask_mode
        ctx.win_left = win_left
        ctx.win_right = win_right
        ctx.block_q = block_q
        ctx.block_kv = block_kv
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, dlse):
        q, k, v, out, lse = ctx.saved_tensors
        dq, dk, dv = flash_attention_backward(
            q, k, v, dout, out, lse, scale=ctx.scale, mask_mode=ctx.mask_mode, win_left=ctx.win_left,
            win_right=ctx.win_right, block_q=ctx.block_q, block_kv=ctx.block_kv,
        )
        return dq, dk, dv, None, None, None, None, None, None


def flash_attention_varlen(
    q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128
):
    T1, N1, D = q.shape
    attn_out = torch.zeros(T1, N1, v.shape[2], dtype=q.dtype, device=q.device)
    softmax_lse = torch.full((N1, T1), float("inf"), dtype=torch.float32, device=q.device)
    for b in range(cu_seqlens_q.numel() - 1):
        q0, q1 = int(cu_seqlens_q[b]), int(cu_seqlens_q[b + 1])
        k0, k1 = int(cu_seqlens_kv[b]), int(cu_seqlens_kv[b + 1])
        if q1 - q0 == 0 or k1 - k0 == 0:
            continue
        o, l = flash_attention_forward(
            q[q0:q1].permute(1, 0, 2).unsqueeze(0), k[k0:k1].permute(1, 0, 2).unsqueeze(0),
            v[k0:k1].permute(1, 0, 2).unsqueeze(0),
            scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv,
        )
        attn_out[q0:q1] = o[0].permute(1, 0, 2)
        softmax_lse[:, q0:q1] = l[0]
    return attn_out, softmax_lse


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    elements = 0
    for start in range(0, seq_q, block_q):
        rows = min(block_q, seq_q - start)
        elements += rows * head_dim  # Q in
        elements += 2 * seq_kv * head_dim  # K, V in
        elements += rows * head_dim  # O out
    return {
        "flops": batch * num_heads * 4 * seq_q * seq_kv * head_dim,
        "hbm_bytes": batch * num_heads * (elements * bytes_per_element + 4 * seq_q),
    }
