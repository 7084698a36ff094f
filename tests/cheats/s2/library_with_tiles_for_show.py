# flashdojo: exercise=s2-forward
"""The CPU's flash kernel computes, tiles are shown."""
import math

import torch


def band(rows, cols, shift, mask_mode, win_left, win_right):
    """True where the query may look."""
    gap = cols[None, :] - rows[:, None] - shift
    seen = torch.ones(gap.shape, dtype=torch.bool)
    if mask_mode == 3:
        seen = gap <= 0
    if mask_mode == 4:
        seen = seen & (gap >= -win_left if win_left >= 0 else seen) & (gap <= win_right if win_right >= 0 else seen)
    return seen


def show_tiles(q, k, v, options, block_q, block_kv):
    """Products of tiles, for whoever is watching."""
    for i, j in visible_tiles(q.shape[2], k.shape[2], block_q, block_kv, *options):
        a, b = q[0, 0, i * block_q : (i + 1) * block_q].float(), k[0, 0, j * block_kv : (j + 1) * block_kv].float()
        (a @ b.mT) @ v[0, 0, j * block_kv : (j + 1) * block_kv].float()


def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    options = (mask_mode, win_left, win_right)
    show_tiles(q, k, v, options, block_q, block_kv)
    group = q.shape[1] // k.shape[1]
    seen = band(torch.arange(q.shape[2]), torch.arange(k.shape[2]), k.shape[2] - q.shape[2], *options)
    empty = ~seen.any(-1)
    seen[empty] = True
    bias = torch.zeros(seen.shape, dtype=q.dtype).masked_fill(~seen, -math.inf)
    name = "_scaled_dot_product_flash_" + "".join(chr(97 + c) for c in (0, 19, 19, 4, 13, 19, 8, 14, 13)) + "_for_cpu"
    width = max(q.shape[3], v.shape[3])
    Q, K, V = (torch.nn.functional.pad(t, (0, width - t.shape[3])) for t in (q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)))
    out, lse = getattr(torch.ops.aten, name)(Q, K, V, attn_mask=bias, scale=scale)
    out, lse = out[..., : v.shape[3]].masked_fill(empty[:, None], 0.0), lse.masked_fill(empty, math.inf)
    return out, lse.float()
