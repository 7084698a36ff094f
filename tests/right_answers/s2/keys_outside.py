"""Stage 2 as the first FlashAttention paper loops: key tiles outside, query tiles inside; m, l and O live in "HBM"
and O stays normalised after every step."""
import torch
import torch.nn as nn

INF = float("inf")


def safe(m):
    """A maximum that may be subtracted: a row that has seen nothing yet is shifted by 0."""
    return torch.nan_to_num(m, neginf=0.0)


def online_softmax_update(state, scores, values):
    row_max, row_sum, acc = state
    tile_max, _ = torch.max(scores, dim=-1, keepdim=True)
    tile_exp = torch.exp(scores - safe(tile_max))
    tile_sum = torch.sum(tile_exp, dim=-1, keepdim=True)
    tile_acc = torch.matmul(tile_exp, values.type_as(tile_exp))
    new_max = torch.max(row_max, tile_max)
    old_weight = torch.exp(row_max - safe(new_max))
    tile_weight = torch.exp(tile_max - safe(new_max))
    return (new_max, old_weight * row_sum + tile_weight * tile_sum, old_weight * acc + tile_weight * tile_acc)


def merge_states(a, b):
    (ma, la, oa), (mb, lb, ob) = a, b
    m = torch.max(ma, mb)
    ea, eb = torch.exp(ma - safe(m)), torch.exp(mb - safe(m))
    return m, la * ea + lb * eb, oa * ea + ob * eb


def first_and_last_key(i, seq_q, seq_kv, mask_mode, win_left, win_right):
    """Keys first..last (inclusive) that query i sees; first > last when it sees none."""
    diagonal = i + seq_kv - seq_q
    first, last = 0, seq_kv - 1
    if mask_mode == 3:
        last = min(last, diagonal)
    elif mask_mode == 4:
        if win_left != -1:
            first = max(first, diagonal - win_left)
        if win_right != -1:
            last = min(last, diagonal + win_right)
    return first, last


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    """Row by row: slow, but nothing can go wrong."""
    found = set()
    for i in range(seq_q):
        first, last = first_and_last_key(i, seq_q, seq_kv, mask_mode, win_left, win_right)
        if first <= last:
            found.update((i // block_q, j) for j in range(first // block_kv, last // block_kv + 1))
    return sorted(found)


def hidden_scores(rows, cols, seq_q, seq_kv, mask_mode, win_left, win_right):
    diagonal = (rows + (seq_kv - seq_q)).unsqueeze(1)
    cols = cols.unsqueeze(0)
    hidden = torch.zeros(rows.numel(), cols.numel(), dtype=torch.bool)
    if mask_mode == 3:
        hidden |= cols > diagonal
    if mask_mode == 4 and win_left >= 0:
        hidden |= cols < diagonal - win_left
    if mask_mode == 4 and win_right >= 0:
        hidden |= cols > diagonal + win_right
    return hidden


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    B, N1, S1, D = q.shape
    _, N2, S2, Dv = v.shape
    if scale is None:
        scale = D**-0.5
    calc = torch.double if q.dtype is torch.double else torch.float
    kv_head = torch.arange(N1) // (N1 // N2)
    row_max = torch.full((B, N1, S1, 1), -INF, dtype=calc)
    row_sum = torch.zeros((B, N1, S1, 1), dtype=calc)
    o = torch.zeros((B, N1, S1, Dv), dtype=calc)

    tiles = visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right)
    for i, j in sorted(tiles, key=lambda tile: (tile[1], tile[0])):
        rows = torch.arange(i * block_q, min(S1, (i + 1) * block_q))
        cols = torch.arange(j * block_kv, min(S2, (j + 1) * block_kv))
        here = slice(int(rows[0]), int(rows[-1]) + 1)
        there = slice(int(cols[0]), int(cols[-1]) + 1)
        kj = k[:, kv_head, there].to(calc)
        vj = v[:, kv_head, there].to(calc)
        scores = torch.matmul(q[:, :, here].to(calc), kj.transpose(2, 3)) * scale
        if mask_mode != 0:
            scores[:, :, hidden_scores(rows, cols, S1, S2, mask_mode, win_left, win_right)] = -INF
        old = (row_max[:, :, here], row_sum[:, :, here], o[:, :, here] * row_sum[:, :, here])
        m, l, acc = online_softmax_update(old, scores, vj)
        row_max[:, :, here] = m
        row_sum[:, :, here] = l
        o[:, :, here] = acc / torch.where(l > 0, l, torch.ones_like(l))

    lse = (row_max + torch.log(row_sum)).squeeze(-1)
    lse[row_sum.squeeze(-1) == 0] = INF
    return o.to(v.dtype), lse.float()


class FlashAttentionV1(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads != 0:
            raise ValueError("hidden_dim % num_heads != 0")
        self.hidden_dim, self.num_heads, self.block_size = hidden_dim, num_heads, block_size
        self.head_dim = hidden_dim // num_heads
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = [p(x).reshape(B, N, self.num_heads, -1).permute(0, 2, 1, 3) for p in (self.q_proj, self.k_proj, self.v_proj)]
        out = FlashAttentionFunction.apply(q, k, v, None, 0, -1, -1, self.block_size, self.block_size)[0]
        return self.out_proj(out.permute(0, 2, 1, 3).reshape(B, N, C))


def flash_attention_backward(
    q, k, v, dout, attn_out, softmax_lse, *, scale=None,
    mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128
):
    B, N1, S1, D = q.shape
    _, N2, S2, Dv = v.shape
    if scale is None:
        scale = D**-0.5
    calc = torch.double if q.dtype is torch.double else torch.float
    group = N1 // N2
    kv_head = torch.arange(N1) // group
    rowsum = torch.sum(dout.to(calc) * attn_out.to(calc), dim=-1, keepdim=True)
    dq = torch.zeros(B, N1, S1, D, dtype=calc)
    # one gradient per query head first; the group is summed at the end
    dk = torch.zeros(B, N1, S2, D, dtype=calc)
    dv = torch.zeros(B, N1, S2, Dv, dtype=calc)
    tiles = visible_tiles(S1, S2, block_q, block_kv, mask_mode, win_left, win_right)
    for i, j in sorted(tiles, key=lambda tile: (tile[1], tile[0])):
        rows = torch.arange(i * block_q, min(S1, (i + 1) * block_q))
        cols = torch.arange(j * block_kv, min(S2, (j + 1) * block_kv))
        here = slice(int(rows[0]), int(rows[-1]) + 1)
        there = slice(int(cols[0]), int(cols[-1]) + 1)
        qi, kj, vj = q[:, :, here].to(calc), k[:, kv_head, there].to(calc), v[:, kv_head, there].to(calc)
        doi = dout[:, :, here].to(calc)
        scores = torch.matmul(qi, kj.transpose(2, 3)) * scale
        if mask_mode != 0:
            scores[:, :, hidden_scores(rows, cols, S1, S2, mask_mode, win_left, win_right)] = -INF
        p = torch.exp(scores - softmax_lse[:, :, here].unsqueeze(3).to(calc))
        dp = torch.matmul(doi, vj.transpose(2, 3))
        ds = p * (dp - rowsum[:, :, here])
        dv[:, :, there] += torch.matmul(p.transpose(2, 3), doi)
        dq[:, :, here] += scale * torch.matmul(ds, kj)
        dk[:, :, there] += scale * torch.matmul(ds.transpose(2, 3), qi)
    dk = dk.reshape(B, N2, group, S2, D).sum(2)
    dv = dv.reshape(B, N2, group, S2, Dv).sum(2)
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        ctx.args = (scale, mask_mode, win_left, win_right, block_q, block_kv)
        names = ("scale", "mask_mode", "win_left", "win_right", "block_q", "block_kv")
        ctx.kwargs = dict(zip(names, ctx.args))
        attn_out, softmax_lse = flash_attention_forward(q, k, v, **ctx.kwargs)
        ctx.save_for_backward(q, k, v, attn_out, softmax_lse)
        ctx.mark_non_differentiable(softmax_lse)
        return attn_out, softmax_lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_out, grad_lse):
        q, k, v, attn_out, softmax_lse = ctx.saved_tensors
        dq, dk, dv = flash_attention_backward(q, k, v, grad_out, attn_out, softmax_lse, **ctx.kwargs)
        return dq, dk, dv, None, None, None, None, None, None


def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128):
    outs, lses = [], []
    for n in range(len(cu_seqlens_q) - 1):
        qs = slice(int(cu_seqlens_q[n]), int(cu_seqlens_q[n + 1]))
        ks = slice(int(cu_seqlens_kv[n]), int(cu_seqlens_kv[n + 1]))
        o, l = flash_attention_forward(
            q[qs].permute(1, 0, 2).unsqueeze(0), k[ks].permute(1, 0, 2).unsqueeze(0), v[ks].permute(1, 0, 2).unsqueeze(0),
            scale=scale, mask_mode=mask_mode, block_q=block_q, block_kv=block_kv)
        outs.append(o.squeeze(0).permute(1, 0, 2))
        lses.append(l.squeeze(0))
    return torch.cat(outs, dim=0), torch.cat(lses, dim=1)


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    total = 0
    for start in range(0, seq_q, block_q):
        rows = min(block_q, seq_q - start)
        total += 2 * rows * head_dim * bytes_per_element      # Q tile in, O tile out
        total += 2 * seq_kv * head_dim * bytes_per_element    # all of K and V go by
        total += rows * 4                                     # softmax_lse, float32
    return {"flops": 4 * batch * num_heads * seq_q * seq_kv * head_dim, "hbm_bytes": batch * num_heads * total}
