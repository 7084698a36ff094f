# flashdojo: exercise=s2-update check=s2-update.values misconception=running-max-forgotten
"""Takes the tile's own maximum as the new one."""
import torch


def online_softmax_update(state, scores, values):
    prev_max, prev_sum, prev_acc = state
    cur_max = torch.max(scores, dim=-1, keepdim=True).values
    ref = torch.where(cur_max > -torch.inf, cur_max, torch.zeros_like(cur_max))
    p = torch.exp(scores - ref)
    scale = torch.exp(prev_max - ref)
    cur_sum = prev_sum * scale + torch.sum(p, dim=-1, keepdim=True)
    cur_acc = prev_acc * scale + torch.matmul(p, values)
    return cur_max, cur_sum, cur_acc
