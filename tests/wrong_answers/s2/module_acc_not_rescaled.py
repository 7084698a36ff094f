# flashdojo: exercise=s2-module check=s2-module.values misconception=acc-not-rescaled
"""The inner loop of the skeleton with the accumulator left as it was."""
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
        blocks = []
        for Q_block in Q.split(self.block_size, dim=2):
            max_score = torch.full_like(Q_block[..., :1], -math.inf)
            sum_exp = torch.zeros_like(max_score)
            out_block = torch.zeros_like(Q_block)
            for K_block, V_block in zip(K.split(self.block_size, dim=2), V.split(self.block_size, dim=2)):
                scores = torch.matmul(Q_block, K_block.transpose(-2, -1)) / math.sqrt(self.head_dim)
                new_max = torch.maximum(max_score, scores.amax(dim=-1, keepdim=True))
                exp_scores = torch.exp(scores - new_max)
                sum_exp = sum_exp * torch.exp(max_score - new_max) + exp_scores.sum(dim=-1, keepdim=True)
                out_block = out_block + torch.matmul(exp_scores, V_block)
                max_score = new_max
            blocks.append(out_block / sum_exp)
        output = torch.cat(blocks, dim=2)
        return self.out_proj(output.transpose(1, 2).reshape(B, N, D))
