"""The registered operators themselves, torch.ops.*, with every argument spelt out."""
import math
import time

import torch
import torch.nn.functional as F
from torch import nn


SOC_VERSIONS = {
    **{f"Ascend910{name}": 100 + i for i, name in enumerate(("PremiumA", "ProA", "A", "ProB", "B"))},
    **{f"Ascend310P{name}": 200 + i for i, name in enumerate((1, 2, 3, 4, 5, 7))},
    **{f"Ascend910{name}": 220 + i for i, name in enumerate(("B1", "B2", "B2C", "B3", "B4", "B4-1"))},
    **{f"Ascend310{name}": 240 + i for i, name in enumerate(("B1", "B2", "B3", "B4"))},
    **{f"Ascend910_{name}": 250 + i for i, name in enumerate((9391, 9392, 9381, 9382, 9372, 9362, 9363))},
}


def plan_environment(soc, torch_version, torch_npu_version=None):
    try:
        number = 260 if soc.startswith("Ascend950") else SOC_VERSIONS[soc]
    except (AttributeError, KeyError):
        number = 0
    if number == 260:
        operator = "cann_ops_transformer"
    else:
        operator = "torch_npu" if number // 10 in (22, 25) else "cpu"
    ours, theirs = torch_version.partition("+")[0], (torch_npu_version or "").partition(".post")[0]
    return {"operator": operator, "bfloat16": number > 219, "versions_match": ours.partition(".post")[0] == theirs}


def order_build_steps(steps):
    first = ["install-cann", "update-sources", "clear-extension-cache", "clean-build", "install-torch-pair", "source-env"]
    then = ["build-wheel", "build-package", "install-wheel", "remove-vendors", "install-package", "restart-python", "verify"]
    return [step for step in first + then if step in steps]


def upper_triangle(device):
    return torch.ones((2048, 2048), dtype=torch.int8, device=device).triu_(1)


def sizes(q, k, layout):
    if layout == "BNSD":
        return q.size(0), q.size(1), k.size(1), q.size(2), k.size(2), q.size(3)
    return q.size(0), q.size(2), k.size(2), q.size(1), k.size(1), q.size(3)


def metadata_for(q, k, layout, mask_mode, win_left, win_right, grad):
    B, N1, N2, S1, S2, D = sizes(q, k, layout)
    return torch.ops.cann_ops_transformer.flash_attn_metadata(
        N1, N2, D, batch_size=B, max_seqlen_q=S1, max_seqlen_kv=S2, mask_mode=mask_mode, win_left=win_left,
        win_right=win_right, layout_q=layout, layout_kv=layout, layout_out=layout, is_grad_enabled=grad,
    )


def run_forward(q, k, v, metadata, mask, scale, mask_mode, win_left, win_right, layout):
    return torch.ops.cann_ops_transformer.flash_attn(
        q, k, v, None, None, None, None, None, None, mask, metadata, scale, mask_mode, win_left, win_right, -1, -1,
        layout, layout, layout, True,
    )


def npu_flash_attention(q, k, v, *, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
    k, v = k.contiguous(), v.contiguous()
    metadata = metadata_for(q, k, layout, mask_mode, win_left, win_right, False)
    mask = upper_triangle(q.device) if mask_mode else None
    return run_forward(q, k, v, metadata, mask, scale, mask_mode, win_left, win_right, layout)


class NpuFlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
        k, v = k.contiguous(), v.contiguous()
        metadata = metadata_for(q, k, layout, mask_mode, win_left, win_right, True)
        mask = upper_triangle(q.device) if mask_mode else None
        out, lse = run_forward(q, k, v, metadata, mask, scale, mask_mode, win_left, win_right, layout)
        ctx.save_for_backward(q, k, v, out, lse, metadata, *([mask] if mask is not None else []))
        ctx.numbers = scale, mask_mode, win_left, win_right, -1, -1, layout, layout, layout
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, _):
        q, k, v, out, lse, metadata, *mask = ctx.saved_tensors
        dq, dk, dv = torch.ops.cann_ops_transformer.flash_attn_grad(
            q, k, v, dout, out, lse, None, None, None, None, None, mask[0] if mask else None, metadata, *ctx.numbers
        )
        return dq, dk, dv, None, None, None, None, None


class NpuFlashAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError(num_heads)
        self.num_heads, self.block_size = num_heads, block_size
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(hidden_dim, hidden_dim) for _ in range(4))

    def forward(self, x):
        shape = (*x.shape[:-1], self.num_heads, x.shape[-1] // self.num_heads)
        q, k, v = (projection(x).reshape(shape) for projection in (self.q_proj, self.k_proj, self.v_proj))
        out = NpuFlashAttentionFunction.apply(q.half(), k.half(), v.half(), shape[-1] ** -0.5)[0]
        return self.out_proj(out.float().reshape(x.shape))


def npu_flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale, mask_mode=0):
    metadata = torch.ops.cann_ops_transformer.flash_attn_metadata(
        q.size(1), k.size(1), q.size(2), cu_seqlens_q=cu_seqlens_q, cu_seqlens_kv=cu_seqlens_kv, mask_mode=mask_mode,
        win_left=-1, win_right=-1, layout_q="TND", layout_kv="TND", layout_out="TND",
    )
    mask = upper_triangle(q.device) if mask_mode else None
    return torch.ops.cann_ops_transformer.flash_attn(
        q, k, v, cu_seqlens_q=cu_seqlens_q, cu_seqlens_kv=cu_seqlens_kv, attn_mask=mask, metadata=metadata,
        softmax_scale=scale, mask_mode=mask_mode, layout_q="TND", layout_kv="TND", layout_out="TND", return_softmax_lse=True,
    )


def npu_fusion(q, k, v, *, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
    """In BSH, whose heads are folded into the last axis."""
    heads = q.size(2) if layout == "BSND" else q.size(1)
    parts = [x if layout == "BSND" else x.transpose(1, 2) for x in (q, k, v)]
    unlimited = 2147483647
    out, row_max, row_sum, *_ = torch.ops.npu.npu_fusion_attention(
        *(x.flatten(2) for x in parts), heads, "BSH", scale=scale, sparse_mode=mask_mode,
        atten_mask=upper_triangle(q.device).bool() if mask_mode else None,
        pre_tockens=unlimited if win_left == -1 else win_left, next_tockens=unlimited if win_right == -1 else win_right,
    )
    out = out.unflatten(2, (heads, -1))
    seen = row_sum[..., 0] < 1e30
    lse = (row_max[..., 0] + row_sum[..., 0].log()).masked_fill(~seen, math.inf)
    return out if layout == "BSND" else out.transpose(1, 2), lse


BATCH, CONTEXT, WIDTH, HEADS, LAYERS = 8, 32, 128, 2, 2
LEARNING_RATE = 6e-3


def flash_causal(q, k, v):
    """q, k, v [B, S, N, D] float32 -> the same shape: causal attention by the NPU operator, in float16."""
    attn_out, _ = NpuFlashAttentionFunction.apply(q.half(), k.half(), v.half(), 1 / math.sqrt(q.shape[-1]), 3)
    return attn_out.to(q.dtype)


def standard_causal(q, k, v):
    """The same by the whole score matrix, in float32."""
    scores = torch.einsum("bqnd,bknd->bnqk", q, k) / math.sqrt(q.shape[-1])
    future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return torch.einsum("bnqk,bknd->bqnd", scores.masked_fill(future, -math.inf).softmax(-1), v)


class Block(nn.Module):
    """One layer: causal self-attention and a small perceptron, each behind a LayerNorm and added to its input."""

    def __init__(self, attention):
        super().__init__()
        self.attention = attention
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)) for part in self.qkv(self.norm_1(x)).chunk(3, dim=-1))
        x = x + self.out_proj(self.attention(q, k, v).flatten(2))
        return x + self.mlp(self.norm_2(x))


class TinyLM(nn.Module):
    """tokens [B, S] -> logits [B, S, vocab]: what may follow each token, seen from the tokens up to it."""

    def __init__(self, vocab, attention):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block(attention) for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, vocab)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(x)))


def sample_batch(tokens, generator):
    """BATCH random stretches of CONTEXT + 1 tokens: [BATCH, CONTEXT + 1], on the device of tokens."""
    starts = torch.randint(len(tokens) - CONTEXT, (BATCH, 1), generator=generator)
    return tokens[(starts + torch.arange(CONTEXT + 1)).to(tokens.device)]


def train(steps: int, tokens: torch.Tensor, *, vocab: int, attention: str = "flash", seed: int = 0) -> list[float]:
    """Train a TinyLM on the NPU to predict the next token; the loss of every step, before its update.

    tokens: a long text as numbers, int64 [T] on the NPU, each below vocab. attention: "flash" or "standard".
    The same seed gives the same losses.
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = TinyLM(vocab, {"flash": flash_causal, "standard": standard_causal}[attention]).npu()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    losses = []
    for _ in range(steps):
        batch = sample_batch(tokens, generator)
        for parameter in model.parameters():
            parameter.grad = None
        x, y = batch.narrow(1, 0, CONTEXT), batch.narrow(1, 1, CONTEXT)
        loss = F.cross_entropy(model(x).reshape(-1, vocab), y.reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.tolist())
    return losses


def measure_speed(fn, *, warmup, iters):
    times = []
    for _ in range(warmup + iters):
        torch.npu.current_stream().synchronize()
        start = time.monotonic()
        fn()
        torch.npu.current_stream().synchronize()
        times.append(time.monotonic() - start)
    counted = sorted(times[warmup:])
    middle = len(counted) // 2
    return 2 / (counted[middle] + counted[~middle])
