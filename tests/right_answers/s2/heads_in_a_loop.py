"""Stage 2 with loops over everything: batch, head, query tile, key tile. Tiles are plain matrices; finished tiles are
kept in lists and concatenated. Written in a notebook, hence the magics."""
%load_ext autoreload
%autoreload 2
!pip install -q torch
import math
import torch
import torch.nn as nn


def online_softmax_update(state, scores, values):
    m, l, o = state
    new_m = torch.maximum(m, torch.amax(scores, dim=-1, keepdim=True))
    use_m = torch.clamp(new_m, min=torch.finfo(new_m.dtype).min)  # -inf - (-inf) would be nan
    p = torch.exp(scores - use_m)
    c = torch.exp(m - use_m)
    return (new_m, l * c + torch.sum(p, dim=-1, keepdim=True), o * c + torch.matmul(p, values.to(p.dtype)))


def merge_states(a, b):
    new_m = torch.maximum(a[0], b[0])
    use_m = torch.clamp(new_m, min=torch.finfo(new_m.dtype).min)
    ca = torch.exp(a[0] - use_m)
    cb = torch.exp(b[0] - use_m)
    return (new_m, a[1] * ca + b[1] * cb, a[2] * ca + b[2] * cb)


%time merge_states(*[(torch.zeros(1, 1), torch.ones(1, 1), torch.ones(1, 2))] * 2)


def sees(mask_mode, win_left, win_right, i, j, offset):
    """May query i look at key j?"""
    if mask_mode == 3:
        return j <= i + offset
    if mask_mode == 4:
        return (win_left == -1 or j >= i + offset - win_left) and (win_right == -1 or j <= i + offset + win_right)
    return True


def visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode=0, win_left=-1, win_right=-1):
    tiles = []
    for i in range((seq_q + block_q - 1) // block_q):
        for j in range((seq_kv + block_kv - 1) // block_kv):
            top, bottom = i * block_q, min((i + 1) * block_q, seq_q) - 1
            left, right = j * block_kv, min((j + 1) * block_kv, seq_kv) - 1
            hidden = False
            if mask_mode in (3, 4):
                # the corner nearest to the lower left, and the one nearest to the upper right
                diag_low, diag_high = left - bottom - (seq_kv - seq_q), right - top - (seq_kv - seq_q)
                if mask_mode == 3:
                    hidden = diag_low > 0
                else:
                    hidden = (win_right != -1 and diag_low > win_right) or (win_left != -1 and diag_high < -win_left)
            if not hidden:
                tiles.append((i, j))
    return tiles


def tile_scores(qt, kt, top, left, seq_q, seq_kv, scale, mask_mode, win_left, win_right):
    s = torch.mm(qt, kt.T) * scale
    if mask_mode:
        i = torch.arange(top, top + len(qt))[:, None]
        j = torch.arange(left, left + len(kt))[None, :]
        off = seq_kv - seq_q
        if mask_mode == 3:
            s[j > i + off] = -math.inf
        if mask_mode == 4 and win_left != -1:
            s[j < i + off - win_left] = -math.inf
        if mask_mode == 4 and win_right != -1:
            s[j > i + off + win_right] = -math.inf
    return s


def one_head(q, k, v, scale, mask_mode, win_left, win_right, block_q, block_kv):
    work = torch.float64 if q.dtype == torch.float64 else torch.float32
    tiles = visible_tiles(len(q), len(k), block_q, block_kv, mask_mode, win_left, win_right)
    rows_of = {}
    for i, j in tiles:
        rows_of.setdefault(i, []).append(j)
    out, lse = [], []
    for i in range((len(q) + block_q - 1) // block_q):
        top = i * block_q
        qt = q[top:top + block_q].to(work)
        state = (torch.full((len(qt), 1), -math.inf, dtype=work), torch.zeros(len(qt), 1, dtype=work),
                 torch.zeros(len(qt), v.shape[1], dtype=work))
        for j in rows_of.get(i, []):
            left = j * block_kv
            kt, vt = k[left:left + block_kv].to(work), v[left:left + block_kv].to(work)
            s = tile_scores(qt, kt, top, left, len(q), len(k), scale, mask_mode, win_left, win_right)
            state = online_softmax_update(state, s, vt)
        m, l, o = state
        empty = l == 0
        out.append((o / l.masked_fill(empty, 1)).to(v.dtype))
        lse.append((m + torch.log(l)).masked_fill(empty, math.inf)[:, 0].float())
    return torch.cat(out), torch.cat(lse)


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    scale = 1.0 / math.sqrt(q.shape[3]) if scale is None else scale
    group = q.shape[1] // k.shape[1]
    outs, lses = [], []
    for b in range(q.shape[0]):
        heads = [one_head(q[b, h], k[b, h // group], v[b, h // group], scale, mask_mode, win_left, win_right, block_q, block_kv)
                 for h in range(q.shape[1])]
        outs.append(torch.stack([o for o, _ in heads]))
        lses.append(torch.stack([l for _, l in heads]))
    return torch.stack(outs), torch.stack(lses)


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
        B, N, _ = x.shape
        Q, K, V = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        output = []
        for b in range(B):
            heads = []
            for h in range(self.num_heads):
                c = slice(h * self.head_dim, (h + 1) * self.head_dim)
                o, _ = one_head(Q[b, :, c], K[b, :, c], V[b, :, c], self.head_dim ** -0.5, 0, -1, -1, self.block_size, self.block_size)
                heads.append(o)
            output.append(torch.cat(heads, dim=1))
        return self.out_proj(torch.stack(output))


def one_head_backward(q, k, v, do, o, lse, scale, mask_mode, win_left, win_right, block_q, block_kv):
    work = torch.float64 if q.dtype == torch.float64 else torch.float32
    q, k, v, do, o, lse = (t.to(work) for t in (q, k, v, do, o, lse))
    D = (do * o).sum(1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for i, j in visible_tiles(len(q), len(k), block_q, block_kv, mask_mode, win_left, win_right):
        r, c = slice(i * block_q, (i + 1) * block_q), slice(j * block_kv, (j + 1) * block_kv)
        s = tile_scores(q[r], k[c], r.start, c.start, len(q), len(k), scale, mask_mode, win_left, win_right)
        p = torch.exp(s - lse[r][:, None])
        dv[c] += p.T @ do[r]
        ds = p * (do[r] @ v[c].T - D[r]) * scale
        dq[r] += ds @ k[c]
        dk[c] += ds.T @ q[r]
    return dq, dk, dv


def flash_attention_backward(q, k, v, dout, attn_out, softmax_lse, *, scale=None, mask_mode=0, win_left=-1, win_right=-1,
                             block_q=128, block_kv=128):
    scale = 1.0 / math.sqrt(q.shape[3]) if scale is None else scale
    group = q.shape[1] // k.shape[1]
    work = torch.float64 if q.dtype == torch.float64 else torch.float32
    dq, dk, dv = (torch.zeros(t.shape, dtype=work) for t in (q, k, v))
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            g = h // group
            gq, gk, gv = one_head_backward(q[b, h], k[b, g], v[b, g], dout[b, h], attn_out[b, h], softmax_lse[b, h],
                                           scale, mask_mode, win_left, win_right, block_q, block_kv)
            dq[b, h] = gq
            dk[b, g] += gk
            dv[b, g] += gv
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
        ctx.scale, ctx.mask_mode, ctx.win = scale, mask_mode, (win_left, win_right)
        ctx.block = (block_q, block_kv)
        out, lse = flash_attention_forward(q, k, v, scale=scale, mask_mode=mask_mode, win_left=win_left,
                                           win_right=win_right, block_q=block_q, block_kv=block_kv)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, dlse):
        q, k, v, out, lse = ctx.saved_tensors
        dq, dk, dv = flash_attention_backward(q, k, v, dout, out, lse, scale=ctx.scale, mask_mode=ctx.mask_mode,
                                              win_left=ctx.win[0], win_right=ctx.win[1],
                                              block_q=ctx.block[0], block_kv=ctx.block[1])
        return dq, dk, dv, None, None, None, None, None, None


def flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale=None, mask_mode=0, block_q=128, block_kv=128):
    scale = 1.0 / math.sqrt(q.shape[2]) if scale is None else scale
    group = q.shape[1] // k.shape[1]
    attn_out = torch.zeros(q.shape[0], q.shape[1], v.shape[2], dtype=v.dtype)
    softmax_lse = torch.full((q.shape[1], q.shape[0]), math.inf)
    cq, ck = [int(n) for n in cu_seqlens_q], [int(n) for n in cu_seqlens_kv]
    for s in range(len(cq) - 1):
        if cq[s] == cq[s + 1] or ck[s] == ck[s + 1]:
            continue
        for h in range(q.shape[1]):
            o, l = one_head(q[cq[s]:cq[s + 1], h], k[ck[s]:ck[s + 1], h // group], v[ck[s]:ck[s + 1], h // group],
                            scale, mask_mode, -1, -1, block_q, block_kv)
            attn_out[cq[s]:cq[s + 1], h] = o
            softmax_lse[h, cq[s]:cq[s + 1]] = l
    return attn_out, softmax_lse


def flash_traffic(batch, num_heads, seq_q, seq_kv, head_dim, block_q, block_kv, bytes_per_element):
    flops = 4 * batch * num_heads * seq_q * seq_kv * head_dim
    read_q = seq_q * head_dim
    read_kv = math.ceil(seq_q / block_q) * (seq_kv * head_dim + seq_kv * head_dim)
    write_o = seq_q * head_dim
    write_lse = 4 * seq_q
    hbm = batch * num_heads * ((read_q + read_kv + write_o) * bytes_per_element + write_lse)
    return {'flops': flops, 'hbm_bytes': hbm}


FlashAttentionV1(hidden_dim=768, num_heads=12)(torch.randn(2, 128, 768)).shape
