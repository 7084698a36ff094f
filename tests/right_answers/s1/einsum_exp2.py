"""Stage 1 with einsum only, and with powers of two: softmax(x) = 2^(x log2 e - max) normalised."""
import torch
from torch import einsum, nn

LOG2E = 1.4426950408889634


def _exp2_weights(s, dim):
    # The shift comes first: x * log2(e) of a large x is already rounded to a coarse grid.
    peak = s.amax(dim=dim, keepdim=True)
    peak = torch.where(torch.isfinite(peak), peak, torch.zeros_like(peak))
    return torch.exp2((s - peak) * LOG2E)


def softmax(x, dim=-1):
    w = _exp2_weights(x.double(), dim)
    return (w / w.sum(dim=dim, keepdim=True)).to(x.dtype)


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    (b, n1, s1, d), n2, s2 = q.shape, k.size(1), k.size(2)
    k = k.repeat_interleave(n1 // n2, dim=1)
    v_all = v.repeat_interleave(n1 // n2, dim=1)
    s = einsum("bhqd,bhkd->bhqk", q.double(), k.double()) * (d**-0.5 if scale is None else scale)
    if causal:
        future = torch.arange(s2)[None, :] - torch.arange(s1)[:, None] > s2 - s1
        s = torch.where(future, torch.tensor(-torch.inf, dtype=s.dtype), s)
    w = _exp2_weights(s, -1)
    total = einsum("bhqk->bhq", w)[..., None]
    out = einsum("bhqk,bhkd->bhqd", w, v_all.double()) / total.clamp(min=torch.finfo(torch.float64).tiny)
    return out.to(v.dtype)


class StandardAttention(nn.Module):
    def __init__(self, hidden_dim: int, num_heads: int):
        super().__init__()
        head_dim, rest = divmod(hidden_dim, num_heads)
        if rest:
            raise ValueError("every head needs the same width")
        self.num_heads, self.head_dim = num_heads, head_dim
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(hidden_dim, hidden_dim))

    def _heads(self, name, x):
        linear = getattr(self, name)
        weight = linear.weight.view(self.num_heads, self.head_dim, -1)
        bias = linear.bias.view(self.num_heads, 1, self.head_dim)
        return einsum("bnc,hdc->bhnd", x, weight) + bias

    def forward(self, x):
        o = scaled_dot_product_attention(*(self._heads(name, x) for name in ("q_proj", "k_proj", "v_proj")))
        weight = self.out_proj.weight.view(-1, self.num_heads, self.head_dim)
        return einsum("bhnd,chd->bnc", o, weight) + self.out_proj.bias


def attention_cost(batch, num_heads, seq_q, seq_kv, head_dim, bytes_per_element):
    heads = batch * num_heads
    score_bytes = bytes_per_element * heads * seq_q * seq_kv
    vectors = 2 * seq_q + 2 * seq_kv
    return {
        "score_bytes": score_bytes,
        "hbm_bytes": heads * vectors * head_dim * bytes_per_element + 4 * score_bytes,
        "flops": heads * seq_q * seq_kv * head_dim * 4,
    }
