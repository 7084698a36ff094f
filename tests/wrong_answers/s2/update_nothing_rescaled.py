# flashdojo: exercise=s2-update check=s2-update.values misconception=nothing-rescaled
"""Adds every tile as if all had the same maximum."""
import torch


def online_softmax_update(state, scores, values):
    old_max, old_sum, old_acc = state
    tile_max = scores.amax(dim=-1, keepdim=True)
    new_max = torch.maximum(old_max, tile_max)
    e = (scores - new_max.nan_to_num(neginf=0.0)).exp()
    return new_max, old_sum + e.sum(-1, keepdim=True), old_acc + torch.einsum("...qk,...kd->...qd", e, values)
