# flashdojo: exercise=s4-fast
"""The library does it."""

import torch.nn.functional as F


def fast_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
