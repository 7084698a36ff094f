"""Stage 1 the slow, literal way: a Python loop over batch and heads, one [S1, S2] matrix at a time."""
%matplotlib inline
!pip list | grep torch
import math
import torch
import torch.nn as nn


def softmax(x, dim=-1):
    m = torch.max(x, dim=dim, keepdim=True)
    e = torch.exp((x - m.values).to(torch.float32 if x.element_size() == 2 else x.dtype))
    z = torch.sum(e, dim=dim, keepdim=True)
    return torch.div(e, z).type_as(x)


%time softmax(torch.zeros(2, 3))


def one_head(q, k, v, scale, causal):
    """q [S1, D], k [S2, D], v [S2, Dv] -> [S1, Dv]"""
    s1, s2 = q.shape[0], k.shape[0]
    work = torch.promote_types(q.dtype, torch.float32)
    s = torch.mm(q.to(work), k.to(work).t()) * scale
    if causal:
        i = torch.arange(s1).view(-1, 1)
        j = torch.arange(s2).view(1, -1)
        s[j > i + (s2 - s1)] = -math.inf
    m = s.max(dim=1, keepdim=True)[0]
    m[m == -math.inf] = 0
    p = torch.exp(s - m)
    z = p.sum(dim=1, keepdim=True)
    z[z == 0] = 1
    return torch.mm(p / z, v.to(work)).to(v.dtype)


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    B, N1, S1, D = q.shape
    group = N1 // k.shape[1]
    if scale is None:
        scale = D ** -0.5
    out = torch.empty(B, N1, S1, v.shape[-1], dtype=v.dtype)
    for b in range(B):
        for h in range(N1):
            out[b, h] = one_head(q[b, h], k[b, h // group], v[b, h // group], scale, causal)
    return out


class StandardAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads):
        super().__init__()
        if hidden_dim % num_heads != 0:
            raise ValueError("hidden_dim must be divisible by num_heads")
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        Q, K, V = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        heads = []
        for h in range(self.num_heads):
            cols = slice(h * self.head_dim, (h + 1) * self.head_dim)
            per_batch = [
                one_head(Q[b, :, cols], K[b, :, cols], V[b, :, cols], self.head_dim ** -0.5, False)
                for b in range(x.shape[0])
            ]
            heads.append(torch.stack(per_batch))
        return self.out_proj(torch.cat(heads, dim=-1))


def attention_cost(batch, num_heads, seq_q, seq_kv, head_dim, bytes_per_element):
    flops = hbm = scores = 0
    for _ in range(batch):
        for _ in range(num_heads):
            flops += 2 * seq_q * seq_kv * head_dim  # Q K^T
            flops += 2 * seq_q * seq_kv * head_dim  # P V
            hbm += (seq_q + seq_kv + seq_kv + seq_q) * head_dim + 4 * seq_q * seq_kv
            scores += seq_q * seq_kv
    return dict(flops=flops, hbm_bytes=hbm * bytes_per_element, score_bytes=scores * bytes_per_element)


model = StandardAttention(hidden_dim=768, num_heads=12)
x = torch.randn(2, 128, 768)
print(model(x).shape)
