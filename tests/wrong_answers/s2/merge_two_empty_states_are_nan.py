# flashdojo: exercise=s2-merge check=s2-merge.both-empty misconception=merge-empty
"""-inf - (-inf) when neither side has seen a key."""
import torch


def merge_states(a, b):
    new_max = torch.maximum(a[0], b[0])
    alpha = torch.exp(a[0] - new_max)
    beta = torch.exp(b[0] - new_max)
    return (new_max, alpha * a[1] + beta * b[1], alpha * a[2] + beta * b[2])
