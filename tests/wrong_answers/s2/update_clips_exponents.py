# flashdojo: exercise=s2-update check=s2-update.several-tiles misconception=- also=masked-tile
"""Exponents are clipped at -10 so that exp never gets 0: what lies far below keeps a weight."""
import torch


def online_softmax_update(state, scores, values):
    row_max, row_sum, acc = state
    new_max = torch.maximum(row_max, scores.max(dim=-1, keepdim=True).values)
    base = torch.where(torch.isinf(new_max), 0.0, new_max)
    alpha = torch.exp((row_max - base).clamp(min=-10.0))
    p = torch.exp((scores - base).clamp(min=-10.0))
    return new_max, row_sum * alpha + p.sum(dim=-1, keepdim=True), acc * alpha + p @ values.to(p.dtype)
