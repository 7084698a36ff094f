"""Short, einsum everywhere, weights as exp(score - logsumexp)."""
import torch
from torch import nn, einsum


def softmax(x, dim=-1):
    y = x if x.dtype == torch.float64 else x.float()
    y = y - y.max(dim=dim, keepdim=True)[0]
    log_z = y.exp().sum(dim=dim, keepdim=True).log()
    return (y - log_z).exp().to(x.dtype)


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    b, n1, s1, d = q.shape
    n2, s2 = k.shape[1:3]
    ct = torch.promote_types(q.dtype, torch.float32)
    scale = d**-0.5 if scale is None else scale
    qg = q.to(ct).unflatten(1, (n2, n1 // n2))
    s = einsum("bngid,bnjd->bngij", qg, k.to(ct)) * scale
    if causal:
        s = s + torch.full((s1, s2), float("-inf"), dtype=ct, device=q.device).triu(s2 - s1 + 1)
    z = torch.logsumexp(s, -1, keepdim=True)
    z = torch.where(z.isneginf(), torch.zeros_like(z), z)  # exp(-inf - 0) = 0: blind rows come out as 0
    o = einsum("bngij,bnje->bngie", (s - z).exp(), v.to(ct))
    return o.flatten(1, 2).to(q.dtype)


class StandardAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError(f"{hidden_dim=} {num_heads=}")
        self.hidden_dim, self.num_heads, self.head_dim = hidden_dim, num_heads, hidden_dim // num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(hidden_dim, hidden_dim) for _ in range(4))

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (self.num_heads, -1)) for p in (self.q_proj, self.k_proj, self.v_proj))
        s = einsum("bihd,bjhd->bhij", q, k) * self.head_dim**-0.5
        w = softmax(s, -1)
        return self.out_proj(einsum("bhij,bjhd->bihd", w, v).flatten(-2))


def attention_cost(batch, num_heads, seq_q, seq_kv, head_dim, bytes_per_element):
    bn = batch * num_heads
    s = bn * seq_q * seq_kv
    return dict(
        flops=4 * s * head_dim,
        hbm_bytes=bytes_per_element * (2 * bn * (seq_q + seq_kv) * head_dim + 4 * s),
        score_bytes=bytes_per_element * s,
    )
