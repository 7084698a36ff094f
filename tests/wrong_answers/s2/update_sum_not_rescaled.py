# flashdojo: exercise=s2-update check=s2-update.values misconception=sum-not-rescaled
"""The accumulator is rescaled, the row sum only added to."""
import torch


def online_softmax_update(state, scores, values):
    row_max, row_sum, acc = state
    new_max = torch.maximum(row_max, torch.amax(scores, dim=-1, keepdim=True))
    base = new_max.masked_fill(new_max == -torch.inf, 0.0)
    weights = torch.exp(scores - base)
    row_sum = row_sum + weights.sum(-1, keepdim=True)
    acc = acc * torch.exp(row_max - base) + torch.matmul(weights, values)
    return new_max, row_sum, acc
