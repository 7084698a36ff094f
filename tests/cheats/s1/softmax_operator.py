# flashdojo: exercise=s1-softmax
"""The operator underneath."""
import torch


def softmax(x, dim=-1):
    return torch.ops.aten._softmax(x, dim, False)
