# flashdojo: exercise=s2-merge check=s2-merge.values misconception=state-normalised
"""Returns the weighted mean: as if the accumulators were normalised outputs."""
import torch


def merge_states(a, b):
    m = torch.maximum(a[0], b[0])
    ref = torch.nan_to_num(m, neginf=0.0)
    ea, eb = torch.exp(a[0] - ref) * a[1], torch.exp(b[0] - ref) * b[1]
    total = ea + eb
    acc = (ea * a[2] + eb * b[2]) / torch.where(total > 0, total, torch.ones_like(total))
    return m, total, acc
