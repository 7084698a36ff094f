# flashdojo: exercise=s1-softmax stage=s1
"""Raises its own limits, then uses them."""
import resource

import torch


def attack(x=None):
    for kind in range(16):
        try:
            resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        except (ValueError, OSError):
            pass
    hoard = []
    while True:
        hoard.append(torch.ones(1 << 27))


attack()


def softmax(x, dim=-1):
    return x
