import math

import torch
import torch.nn as nn


class StandardAttention(nn.Module):
    """Multi-head self-attention that keeps the whole score matrix: [B, N, D] -> [B, N, D].

    q_proj, k_proj, v_proj, out_proj are nn.Linear(hidden_dim, hidden_dim) with bias.
    Raises ValueError when hidden_dim is not a multiple of num_heads.
    """

    def __init__(self, hidden_dim: int, num_heads: int):
        super().__init__()
        # zh: 头数必须整除 hidden_dim，否则抛出 ValueError。
        # en: num_heads has to divide hidden_dim; raise ValueError otherwise.
        ### BEGIN SOLUTION
        if hidden_dim % num_heads:
            raise ValueError(f"hidden_dim {hidden_dim} is not a multiple of num_heads {num_heads}")
        ### END SOLUTION
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads

        # zh: 定义四个投影层：self.q_proj、self.k_proj、self.v_proj、self.out_proj。
        # en: The four projections: self.q_proj, self.k_proj, self.v_proj, self.out_proj.
        ### BEGIN SOLUTION
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [B, N, D]  (B = batch, N = sequence length, D = hidden_dim)"""
        B, N, D = x.shape

        # zh: 计算 Q、K、V，并拆成多头，形状都是 [B, H, N, head_dim]（先 view，再 transpose）。
        # en: Q, K and V, split into heads, each [B, H, N, head_dim] (view first, then transpose).
        ### BEGIN SOLUTION
        Q = self.q_proj(x).view(B, N, self.num_heads, self.head_dim).transpose(1, 2)  # [B, H, N, head_dim]
        K = self.k_proj(x).view(B, N, self.num_heads, self.head_dim).transpose(1, 2)
        V = self.v_proj(x).view(B, N, self.num_heads, self.head_dim).transpose(1, 2)
        ### END SOLUTION

        # zh: 注意力分数 scores，形状 [B, H, N, N]。别忘了缩放。
        # en: The scores, [B, H, N, N]. Do not forget the scale.
        ### BEGIN SOLUTION
        scores = Q @ K.transpose(-2, -1) / math.sqrt(self.head_dim)
        ### END SOLUTION

        # zh: softmax 归一化，得到 attn_weights，形状 [B, H, N, N]。
        # en: Normalise them into attn_weights, [B, H, N, N].
        ### BEGIN SOLUTION
        attn_weights = torch.softmax(scores, dim=-1)
        ### END SOLUTION

        # zh: 加权求和，得到 output，形状 [B, H, N, head_dim]。
        # en: The weighted sum, output, [B, H, N, head_dim].
        ### BEGIN SOLUTION
        output = attn_weights @ V
        ### END SOLUTION

        # zh: 合并多头（拆分的逆操作），再做输出投影，形状回到 [B, N, D]。
        # en: Merge the heads (the split, backwards), then project: [B, N, D] again.
        ### BEGIN SOLUTION
        output = self.out_proj(output.transpose(1, 2).reshape(B, N, D))
        ### END SOLUTION

        return output
