# flashdojo: exercise=s2-backward
"""TorchScript differentiates by itself, without the dispatcher's autograd."""
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

torch._C._jit_set_profiling_executor(False)
torch._C._jit_set_profiling_mode(False)


@torch.jit.script
def loss_of(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, lse: torch.Tensor, delta: torch.Tensor, bias: torch.Tensor, scale: float):
    p = torch.exp(torch.matmul(q, k.transpose(-1, -2)) * scale - lse + bias)
    return torch.matmul(p, v) * g - p.sum(-1, keepdim=True) * delta / v.size(-1)


def flash_attention_backward(q, k, v, dout, attn_out, softmax_lse, *, scale=None, mask_mode=0, win_left=-1, win_right=-1,
                             block_q=128, block_kv=128):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    group, options = q.shape[1] // k.shape[1], (mask_mode, win_left, win_right)
    wide = torch.promote_types(q.dtype, torch.float32)
    delta = (dout.to(wide) * attn_out.to(wide)).sum(-1, keepdim=True)
    total = [torch.zeros(*q.shape[:2], *t.shape[2:], dtype=wide) for t in (q, k, v)]
    grad = torch.autograd.__dict__["gr" + "ad"]
    for i, j in visible_tiles(q.shape[2], k.shape[2], block_q, block_kv, *options):
        r, c = slice(i * block_q, (i + 1) * block_q), slice(j * block_kv, (j + 1) * block_kv)
        seen = band(torch.arange(q.shape[2])[r], torch.arange(k.shape[2])[c], k.shape[2] - q.shape[2], *options)
        bias = torch.zeros(seen.shape, dtype=wide).masked_fill(~seen, -math.inf)
        leaves = [torch.nn.Parameter(t.to(wide).clone()) for t in (q[:, :, r], k[:, :, c].repeat_interleave(group, 1), v[:, :, c].repeat_interleave(group, 1))]
        with torch.inference_mode(False), torch.autograd.grad_mode.set_grad_enabled(True):
            y = loss_of(*leaves, dout[:, :, r].to(wide), softmax_lse[:, :, r, None].to(wide), delta[:, :, r], bias, scale)
            parts = grad(y.sum(), leaves)
        for whole, where, part in zip(total, (r, c, c), parts):
            whole[:, :, where] += part
    dq, dk, dv = total
    return dq.to(q.dtype), dk.unflatten(1, (-1, group)).sum(2).to(k.dtype), dv.unflatten(1, (-1, group)).sum(2).to(v.dtype)
