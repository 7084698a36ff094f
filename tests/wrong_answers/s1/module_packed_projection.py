# flashdojo: exercise=s1-module check=s1-module.parameters misconception=parameter-names
"""One nn.Linear of three times the width: fast, but nobody can load q_proj into it."""
import math
import torch
import torch.nn as nn


class StandardAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads):
        super().__init__()
        if hidden_dim % num_heads != 0:
            raise ValueError("hidden_dim must be divisible by num_heads")
        self.h = num_heads
        self.qkv = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        B, N, D = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.h, D // self.h).permute(2, 0, 3, 1, 4)
        w = (q @ k.mT / math.sqrt(D // self.h)).softmax(-1)
        return self.out_proj((w @ v).transpose(1, 2).reshape(B, N, D))
