# flashdojo: exercise=s2-update check=s2-update.inputs misconception=input-modified
# idea: row_sum and acc are updated in place, so the state that the caller passed in is changed.
import torch


def online_softmax_update(state, scores, values):
    row_max, row_sum, acc = state
    tile_max = torch.amax(scores, -1, keepdim=True)
    new_max = torch.maximum(row_max, tile_max)
    dead = new_max == float("-inf")

    alpha = torch.exp(row_max - new_max).masked_fill(dead, 1.0)
    p = torch.exp(scores - new_max).masked_fill(dead, 0.0)

    row_sum *= alpha
    row_sum += p.sum(-1, keepdim=True)
    acc *= alpha
    acc += p @ values.to(p.dtype)
    return new_max, row_sum, acc
