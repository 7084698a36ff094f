"""Stage 1 in place: one score buffer, every step writes into it (baddbmm, sub_, exp_, div_, out=)."""
import math

import torch
import torch.nn as nn


def softmax(x, dim=-1):
    buf = x.to(torch.float64, copy=True)
    buf.sub_(buf.max(dim, keepdim=True).values)
    torch.exp(buf, out=buf)
    buf.div_(buf.sum(dim, keepdim=True))
    return buf.to(x.dtype)


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    B, N1, S1, D = q.size()
    N2, S2, Dv = k.size(1), k.size(2), v.size(3)
    G = N1 // N2
    alpha = 1.0 / math.sqrt(D) if scale is None else float(scale)
    acc = q.dtype if q.dtype == torch.float64 else torch.float32

    # All query heads of a group share K: stack them as more rows of one batch entry.
    q3 = q.to(acc).reshape(B * N2, G * S1, D)
    kT = k.to(acc).reshape(B * N2, S2, D).transpose(1, 2)
    s = torch.empty(B * N2, G * S1, S2, dtype=acc)
    torch.bmm(q3, kT, out=s) if not torch.is_grad_enabled() else s.copy_(torch.bmm(q3, kT))
    s = s.mul(alpha)
    if causal:
        bias = torch.zeros(S1, S2, dtype=acc)
        bias.masked_fill_(torch.ones(S1, S2).triu_(S2 - S1 + 1).bool(), -math.inf)
        s.view(B * N2, G, S1, S2).add_(bias)
    m = s.detach().amax(-1, keepdim=True)
    m.masked_fill_(m.eq(-math.inf), 0.0)
    s.sub_(m).exp_()
    z = s.sum(-1, keepdim=True)
    z = z.masked_fill(z.eq(0), 1.0)
    out = torch.bmm(s, v.to(acc).reshape(B * N2, S2, Dv))
    return out.div_(z).view(B, N1, S1, Dv).to(v.dtype)


class StandardAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        if self.head_dim * num_heads != hidden_dim:
            raise ValueError(f"{hidden_dim} / {num_heads} is not whole")
        self.q_proj = nn.Linear(hidden_dim, hidden_dim, bias=True)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim, bias=True)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim, bias=True)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim, bias=True)

    def forward(self, x):
        B, N, _ = x.shape
        shape = (B, N, self.num_heads, self.head_dim)
        q = self.q_proj(x).view(shape).permute(0, 2, 1, 3)
        k = self.k_proj(x).view(shape).permute(0, 2, 1, 3)
        v = self.v_proj(x).view(shape).permute(0, 2, 1, 3)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.head_dim)
        weights = torch.softmax(scores, dim=-1)
        output = torch.matmul(weights, v)
        return self.out_proj(output.permute(0, 2, 1, 3).contiguous().view(B, N, self.hidden_dim))


def attention_cost(batch, num_heads, seq_q, seq_kv, head_dim, bytes_per_element):
    cost = {"flops": 4, "hbm_bytes": bytes_per_element, "score_bytes": bytes_per_element}
    cost["flops"] *= batch * num_heads * seq_q * seq_kv * head_dim
    cost["hbm_bytes"] *= batch * num_heads * (2 * seq_q * head_dim + 2 * seq_kv * head_dim + 4 * seq_q * seq_kv)
    cost["score_bytes"] *= batch * num_heads * seq_q * seq_kv
    return cost
