# flashdojo: exercise=s2-merge check=s2-merge.associative misconception=merge-not-associative
"""b is brought to a's maximum first, with the exponent clipped at 20 against overflow."""
import torch


def merge_states(a, b):
    (ma, la, oa), (mb, lb, ob) = a, b
    m = torch.maximum(ma, mb)
    if torch.isinf(ma).all():
        return b
    ratio = torch.exp((mb - ma).clamp(max=20.0))
    back = torch.exp(ma - m)
    return m, (la + lb * ratio) * back, (oa + ob * ratio) * back
