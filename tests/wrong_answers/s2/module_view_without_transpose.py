# flashdojo: exercise=s2-module check=s2-module.heads misconception=heads-split
"""view(B, H, N, d): heads and tokens are mixed before the tiles start."""
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
        Q = self.q_proj(x).view(B, self.num_heads, N, self.head_dim)
        K = self.k_proj(x).view(B, self.num_heads, N, self.head_dim)
        V = self.v_proj(x).view(B, self.num_heads, N, self.head_dim)
        output, _ = flash_attention_forward(Q, K, V, block_q=self.block_size, block_kv=self.block_size)
        return self.out_proj(output.transpose(1, 2).reshape(B, N, D))
