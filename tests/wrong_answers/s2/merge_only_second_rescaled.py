# flashdojo: exercise=s2-merge check=s2-merge.values misconception=merge-takes-one-max
"""Assumes that the first state always has the larger maximum."""
import torch


def merge_states(a, b):
    ref = torch.nan_to_num(a[0], neginf=0.0)
    w = torch.exp(b[0] - ref)
    return torch.maximum(a[0], b[0]), a[1] + w * b[1], a[2] + w * b[2]
