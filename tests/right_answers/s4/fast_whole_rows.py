"""A block of queries against all keys: no online softmax, the scores of one head at a time in the cache."""
# flashdojo: exercise=s4-fast
import torch


def fast_attention(q, k, v):
    group = q.shape[1] // k.shape[1]
    out = q * q.shape[-1] ** -0.5
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            for rows in out[b, h].split(256):
                scores = rows @ k[b, h // group].T
                rows.copy_(torch.softmax(scores, dim=-1) @ v[b, h // group])
    return out
