# flashdojo: exercise=s2-module check=s2-module.tails misconception=tail-dropped
"""N // block_size blocks: what is left over at the end is never computed."""
import math
import torch
import torch.nn as nn


class FlashAttentionV1(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads:
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
        Q, K, V = [p(x).view(B, N, self.num_heads, self.head_dim).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)]
        bs = min(self.block_size, N)
        output = torch.zeros_like(Q)
        for i in range(0, N // bs):
            q = Q[:, :, i * bs:(i + 1) * bs] / math.sqrt(self.head_dim)
            m = torch.full(q.shape[:-1] + (1,), float("-inf"))
            l = torch.zeros_like(m)
            acc = torch.zeros_like(q)
            for j in range(0, N // bs):
                k, v = K[:, :, j * bs:(j + 1) * bs], V[:, :, j * bs:(j + 1) * bs]
                s = q @ k.transpose(-1, -2)
                m_new = torch.maximum(m, s.amax(-1, keepdim=True))
                p, a = torch.exp(s - m_new), torch.exp(m - m_new)
                m, l, acc = m_new, a * l + p.sum(-1, keepdim=True), a * acc + p @ v
            output[:, :, i * bs:(i + 1) * bs] = acc / l
        return self.out_proj(output.transpose(1, 2).reshape(B, N, D))
