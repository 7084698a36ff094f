# flashdojo: exercise=s1-softmax check=s1-softmax.values misconception=softmax-log
"""Returns log softmax: good for a loss, not for weights."""
import torch


def softmax(x, dim=-1):
    m = x.max(dim=dim, keepdim=True)[0]
    z = x - m
    return z - z.exp().sum(dim=dim, keepdim=True).log()
