# flashdojo: exercise=s2-update check=s2-update.first-tile misconception=first-tile
"""The old mean acc / row_sum is blended with the new tile: 0 / 0 when there is no old one."""
import torch


def online_softmax_update(state, scores, values):
    row_max, row_sum, acc = state
    new_max = torch.maximum(row_max, scores.max(dim=-1, keepdim=True).values)
    base = torch.where(torch.isinf(new_max), 0.0, new_max)
    p = torch.exp(scores - base)
    old_sum = row_sum * torch.exp(row_max - base)
    mean = acc / row_sum
    return new_max, old_sum + p.sum(dim=-1, keepdim=True), mean * old_sum + p @ values.to(p.dtype)
