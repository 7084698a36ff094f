# flashdojo: exercise=s2-merge check=s2-merge.values misconception=merge-weights-swapped
"""a's sums get b's factor and the other way round."""
import torch


def merge_states(a, b):
    (ma, la, oa), (mb, lb, ob) = a, b
    m = torch.maximum(ma, mb)
    safe = m.masked_fill(m == -torch.inf, 0.0)
    wa = torch.exp(ma - safe)
    wb = torch.exp(mb - safe)
    return m, wb * la + wa * lb, wb * oa + wa * ob
