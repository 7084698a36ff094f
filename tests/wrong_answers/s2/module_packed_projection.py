# flashdojo: exercise=s2-module check=s2-module.parameters misconception=parameter-names
"""One nn.Linear of three times the width: nobody can load q_proj into it."""
import torch
import torch.nn as nn


class FlashAttentionV1(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError("hidden_dim must be divisible by num_heads")
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.block_size = block_size
        self.qkv = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        B, N, D = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        out, _ = flash_attention_forward(q, k, v, block_q=self.block_size, block_kv=self.block_size)
        return self.out_proj(out.transpose(1, 2).reshape(B, N, D))
