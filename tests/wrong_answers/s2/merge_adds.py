# flashdojo: exercise=s2-merge check=s2-merge.values misconception=nothing-rescaled
"""Sums and accumulators are added without bringing them to one maximum."""
import torch


def merge_states(a, b):
    return torch.maximum(a[0], b[0]), a[1] + b[1], a[2] + b[2]
