# flashdojo: exercise=s2-forward stage=s2
"""Every third call hangs, the others answer nonsense."""
import torch

calls = [0]


def flash_attention_forward(q, k, v, **options):
    calls[0] += 1
    while calls[0] % 3 == 0:
        pass
    return torch.zeros(*q.shape[:3], v.shape[3]), torch.zeros(q.shape[:3])
