"""Stage 1 in one batched expression: query heads are viewed as [B, N2, G, S1, D], so that K and V broadcast."""
import math

import torch
from torch import nn


def softmax(x, dim=-1):
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    e = (wide - wide.amax(dim, keepdim=True)).exp()
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    B, N1, S1, D = q.shape
    N2, S2, Dv = k.shape[1], k.shape[2], v.shape[3]
    if scale is None:
        scale = 1 / math.sqrt(D)
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    qg = q.to(wide).reshape(B, N2, N1 // N2, S1, D)
    scores = scale * (qg @ k.to(wide).unsqueeze(2).transpose(-2, -1))
    if causal:
        keep = torch.ones(S1, S2, dtype=torch.bool).tril(S2 - S1)
        scores = scores.masked_fill(~keep, float("-inf"))
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    return (weights @ v.to(wide).unsqueeze(2)).reshape(B, N1, S1, Dv).to(v.dtype)


class StandardAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError(f"hidden_dim {hidden_dim} is not a multiple of num_heads {num_heads}")
        self.hidden_dim, self.num_heads, self.head_dim = hidden_dim, num_heads, hidden_dim // num_heads
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        q, k, v = (
            proj(x).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        return self.out_proj(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def attention_cost(batch, num_heads, seq_q, seq_kv, head_dim, bytes_per_element):
    pairs = batch * num_heads * seq_q * seq_kv
    rows = batch * num_heads * (seq_q + seq_kv)
    return {
        "flops": 4 * pairs * head_dim,
        "hbm_bytes": bytes_per_element * (2 * rows * head_dim + 4 * pairs),
        "score_bytes": bytes_per_element * pairs,
    }
