# flashdojo: exercise=s2-update check=s2-update.inputs misconception=input-modified
"""Right numbers, but the caller's state is overwritten on the way."""
import torch


def online_softmax_update(state, scores, values):
    m, l, acc = state
    new_m = torch.maximum(m, scores.amax(-1, keepdim=True))
    ref = new_m.masked_fill(new_m.isneginf(), 0)
    alpha = torch.exp(m - ref)
    p = torch.exp(scores - ref)
    l *= alpha
    l += p.sum(-1, keepdim=True)
    acc *= alpha
    acc += p @ values
    m.copy_(new_m)
    return m, l, acc
