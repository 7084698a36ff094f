# flashdojo: exercise=s2-update check=s2-update.values misconception=state-normalised
"""Returns acc / row_sum: the contract's accumulator is un-normalised."""
import torch


def online_softmax_update(state, scores, values):
    row_max, row_sum, out = state
    new_max = torch.maximum(row_max, scores.amax(-1, keepdim=True))
    shift = torch.nan_to_num(new_max, neginf=0.0)
    p = torch.exp(scores - shift)
    old = row_sum * torch.exp(row_max - shift)
    new_sum = old + p.sum(-1, keepdim=True)
    out = (out * old + p @ values) / new_sum.clamp(min=1e-30)
    return new_max, new_sum, out
