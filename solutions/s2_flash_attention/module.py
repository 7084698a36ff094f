import math

import torch
import torch.nn as nn


class FlashAttentionV1(nn.Module):
    """Multi-head self-attention in blocks: the same parameters and the same result as StandardAttention.

    [B, N, D] -> [B, N, D]; the largest score tensor is [B, H, block_size, block_size].
    Raises ValueError when hidden_dim is not a multiple of num_heads.
    """

    def __init__(self, hidden_dim: int, num_heads: int, block_size: int = 256):
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
        self.block_size = block_size

        # zh: 四个投影层 q_proj、k_proj、v_proj、out_proj，和 StandardAttention 一样（名字相同才能共享权重）。
        # en: The four projections q_proj, k_proj, v_proj, out_proj, as in StandardAttention
        # en: (with equal names the two can share their weights).
        ### BEGIN SOLUTION
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [B, N, D]  (B = batch, N = sequence length, D = hidden_dim)"""
        B, N, D = x.shape
        scale = 1 / math.sqrt(self.head_dim)

        # zh: Q、K、V，形状都是 [B, H, N, head_dim]。
        # en: Q, K and V, each [B, H, N, head_dim].
        ### BEGIN SOLUTION
        Q, K, V = (
            proj(x).view(B, N, self.num_heads, self.head_dim).transpose(1, 2)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        ### END SOLUTION

        # zh: 分块计算。下面是逐步的写法；你也可以删掉循环，直接调用自己的 flash_attention_forward。
        # en: Block by block. Below it is spelled out; a call of your flash_attention_forward may replace the loops.
        output = torch.zeros_like(Q)
        for i in range(0, N, self.block_size):
            # zh: 取一块 Q，并准备累加器（在芯片上它们住在片上缓存里）：
            # zh: Q_block [B, H, 行数, head_dim]，acc 同形状（初值 0），acc_lse [B, H, 行数, 1]（初值 -inf）。
            # en: A block of Q and the accumulators (on a chip they live in on-chip memory):
            # en: Q_block [B, H, rows, head_dim], acc of the same shape (starts at 0),
            # en: acc_lse [B, H, rows, 1] (starts at -inf).
            ### BEGIN SOLUTION
            Q_block = Q[:, :, i : i + self.block_size]
            acc = torch.zeros_like(Q_block)
            acc_lse = torch.full_like(Q_block[..., :1], -math.inf)
            ### END SOLUTION

            for j in range(0, N, self.block_size):
                # zh: 取 K_block、V_block [B, H, 列数, head_dim]，算出 scores [B, H, 行数, 列数]（乘 scale）。
                # en: K_block and V_block [B, H, cols, head_dim], then scores [B, H, rows, cols], times scale.
                ### BEGIN SOLUTION
                K_block = K[:, :, j : j + self.block_size]
                V_block = V[:, :, j : j + self.block_size]
                scores = Q_block @ K_block.transpose(-2, -1) * scale
                ### END SOLUTION

                # zh: 这一块自己的 softmax 三件套：max_scores [B, H, 行数, 1]，
                # zh: exp_scores = exp(scores - max_scores)，sum_exp [B, H, 行数, 1]。
                # en: This block's own softmax: max_scores [B, H, rows, 1],
                # en: exp_scores = exp(scores - max_scores), sum_exp [B, H, rows, 1].
                ### BEGIN SOLUTION
                max_scores = scores.amax(dim=-1, keepdim=True)
                exp_scores = torch.exp(scores - max_scores)
                sum_exp = exp_scores.sum(dim=-1, keepdim=True)
                ### END SOLUTION

                # zh: 这一块的加权和 output_block [B, H, 行数, head_dim]（还没有归一化，基准是 max_scores）。
                # en: This block's weighted sum output_block [B, H, rows, head_dim]
                # en: (not normalised, measured from max_scores).
                ### BEGIN SOLUTION
                output_block = exp_scores @ V_block
                ### END SOLUTION

                # zh: 更新累加器。新的 lse = log(exp(acc_lse) + exp(max_scores) * sum_exp)，
                # zh: 用 torch.logaddexp 计算不会溢出；旧的 acc 乘 exp(acc_lse - 新 lse)，
                # zh: output_block 乘 exp(max_scores - 新 lse)，然后相加。
                # en: Update the accumulators. The new lse is log(exp(acc_lse) + exp(max_scores) * sum_exp);
                # en: torch.logaddexp gets it without overflow. Then acc times exp(acc_lse - new lse)
                # en: plus output_block times exp(max_scores - new lse).
                ### BEGIN SOLUTION
                new_lse = torch.logaddexp(acc_lse, max_scores + torch.log(sum_exp))
                acc = acc * torch.exp(acc_lse - new_lse) + output_block * torch.exp(max_scores - new_lse)
                acc_lse = new_lse
                ### END SOLUTION

            # zh: 写回 output。想一想：acc 里的权重 exp(score - acc_lse) 之和已经是多少？
            # en: Write back to output. Think: what do the weights exp(score - acc_lse) inside acc already sum to?
            ### BEGIN SOLUTION
            output[:, :, i : i + self.block_size] = acc  # they sum to 1: nothing left to divide by
            ### END SOLUTION

        # zh: 合并多头并做输出投影，output 的形状回到 [B, N, D]。
        # en: Merge the heads and project; output is [B, N, D] again.
        ### BEGIN SOLUTION
        output = self.out_proj(output.transpose(1, 2).reshape(B, N, D))
        ### END SOLUTION

        return output
