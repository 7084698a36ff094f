# Beginner style: explicit loops over batch and heads, nothing clever.
import math

import torch
import torch.nn as nn


def softmax(x, dim=-1):
    if x.dtype == torch.float16 or x.dtype == torch.bfloat16:
        return softmax(x.float(), dim).to(x.dtype)
    moved = x.movedim(dim, 0)
    biggest = moved[0].clone()
    for i in range(1, moved.shape[0]):
        biggest = torch.maximum(biggest, moved[i])
    e = torch.exp(moved - biggest)
    total = e.sum(0)
    return (e / total).movedim(0, dim)


def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
    B, N1, S1, D = q.size()
    N2 = k.size(1)
    S2 = k.size(2)
    heads_per_group = N1 // N2
    if scale is None:
        scale = 1.0 / math.sqrt(D)
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    result = torch.zeros(B, N1, S1, v.size(3), dtype=q.dtype, device=q.device)
    for b in range(B):
        for h in range(N1):
            kv_head = h // heads_per_group
            Q = q[b, h].to(dtype)
            K = k[b, kv_head].to(dtype)
            V = v[b, kv_head].to(dtype)
            if not causal:
                P = torch.softmax(torch.mm(Q, K.t()) * scale, dim=1)
                result[b, h] = torch.mm(P, V).to(q.dtype)
                continue
            for i in range(S1):
                n_visible = i + S2 - S1 + 1
                if n_visible <= 0:
                    continue  # stays 0
                row = torch.mv(K[:n_visible], Q[i]) * scale
                p = torch.softmax(row, dim=0)
                result[b, h, i] = (p @ V[:n_visible]).to(q.dtype)
    return result


class StandardAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads):
        super(StandardAttention, self).__init__()
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
        q = self.q_proj(x).chunk(self.num_heads, dim=-1)
        k = self.k_proj(x).chunk(self.num_heads, dim=-1)
        v = self.v_proj(x).chunk(self.num_heads, dim=-1)
        outputs = []
        for qh, kh, vh in zip(q, k, v):
            scores = torch.bmm(qh, kh.transpose(1, 2)) / math.sqrt(self.head_dim)
            outputs.append(torch.bmm(torch.softmax(scores, dim=-1), vh))
        return self.out_proj(torch.cat(outputs, dim=-1))


def attention_cost(batch, num_heads, seq_q, seq_kv, head_dim, bytes_per_element):
    flops = 0
    read = 0
    written = 0
    score_elements = seq_q * seq_kv
    for _ in range(batch * num_heads):
        # scores = Q K^T
        flops += 2 * seq_q * head_dim * seq_kv
        read += seq_q * head_dim + seq_kv * head_dim
        written += score_elements
        # weights = softmax(scores)
        read += score_elements
        written += score_elements
        # O = weights V
        flops += 2 * seq_q * seq_kv * head_dim
        read += score_elements + seq_kv * head_dim
        written += seq_q * head_dim
    return {
        "flops": flops,
        "hbm_bytes": (read + written) * bytes_per_element,
        "score_bytes": batch * num_heads * score_elements * bytes_per_element,
    }
