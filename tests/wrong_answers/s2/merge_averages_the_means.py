# flashdojo: exercise=s2-merge check=s2-merge.neutral misconception=merge-empty
"""Both sides are normalised and then averaged by their sums: 0 / 0 on a side without keys."""
import torch


def merge_states(a, b):
    (ma, la, oa), (mb, lb, ob) = a, b
    m = torch.maximum(ma, mb)
    base = torch.where(torch.isinf(m), 0.0, m)
    wa, wb = la * torch.exp(ma - base), lb * torch.exp(mb - base)
    return m, wa + wb, wa * (oa / la) + wb * (ob / lb)
