# flashdojo: exercise=s1-softmax
"""exp of minus the cross entropy of every class."""
import torch
import torch.nn.functional as F


def softmax(x, dim=-1):
    rows = x.movedim(dim, -1)
    flat = rows.reshape(-1, rows.shape[-1])
    loss = [F.cross_entropy(flat, torch.full((len(flat),), c), reduction="none") for c in range(flat.shape[1])]
    return torch.exp(-torch.stack(loss, -1)).reshape(rows.shape).movedim(-1, dim)
