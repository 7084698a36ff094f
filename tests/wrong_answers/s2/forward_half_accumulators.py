# flashdojo: exercise=s2-forward check=s2-forward.half misconception=half-scores
"""Everything stays in the input's dtype: float16 sums over many tiles lose digits."""
import torch
from torch import einsum

NEG = float("-inf")


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    batch, heads, seq_q, dim = q.shape
    seq_kv = k.shape[2]
    if scale is None:
        scale = dim ** -0.5
    repeat = heads // k.shape[1]
    work = q.dtype
    tiles = visible_tiles(seq_q, seq_kv, block_q, block_kv, mask_mode, win_left, win_right)
    outputs, statistics = [], []
    for qi, q_tile in enumerate(q.split(block_q, dim=2)):
        q_tile = q_tile.to(work)
        n = q_tile.shape[2]
        row_max = q_tile.new_full((batch, heads, n, 1), NEG)
        row_sum = q_tile.new_zeros(batch, heads, n, 1)
        acc = q_tile.new_zeros(batch, heads, n, v.shape[-1])
        for kj in [j for i, j in tiles if i == qi]:
            start, stop = kj * block_kv, min((kj + 1) * block_kv, seq_kv)
            k_tile = k[:, :, start:stop].to(work).repeat_interleave(repeat, dim=1)
            v_tile = v[:, :, start:stop].to(work).repeat_interleave(repeat, dim=1)
            scores = einsum("bhqd,bhkd->bhqk", q_tile, k_tile) * scale
            if mask_mode != 0:
                position = torch.arange(qi * block_q, qi * block_q + n).unsqueeze(1) + (seq_kv - seq_q)
                key = torch.arange(start, stop).unsqueeze(0)
                left = win_left if mask_mode == 4 else -1
                right = win_right if mask_mode == 4 else 0
                if left != -1:
                    scores = scores.masked_fill(key < position - left, NEG)
                if right != -1:
                    scores = scores.masked_fill(key > position + right, NEG)
            new_max = torch.maximum(row_max, scores.amax(-1, keepdim=True))
            reference = new_max.masked_fill(new_max == NEG, 0.0)
            weights = torch.exp(scores - reference)
            decay = torch.exp(row_max - reference)
            row_sum = row_sum * decay + weights.sum(-1, keepdim=True)
            acc = acc * decay + einsum("bhqk,bhkd->bhqd", weights, v_tile)
            row_max = new_max
        empty = row_sum == 0
        outputs.append((acc / row_sum.masked_fill(empty, 1.0)).to(q.dtype))
        statistics.append((row_max + row_sum.log()).masked_fill(empty, float("inf")).squeeze(-1).float())
    return torch.cat(outputs, dim=2), torch.cat(statistics, dim=2)
