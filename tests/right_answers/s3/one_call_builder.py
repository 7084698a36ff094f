"""Every operator call goes through one helper that knows shapes and layouts."""
import math
import re
import time
from statistics import median

import cann_ops_transformer as ops
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_npu


SOC_VERSIONS = {
    **{f"Ascend910{name}": 100 + i for i, name in enumerate(("PremiumA", "ProA", "A", "ProB", "B"))},
    **{f"Ascend310P{name}": 200 + i for i, name in enumerate((1, 2, 3, 4, 5, 7))},
    **{f"Ascend910{name}": 220 + i for i, name in enumerate(("B1", "B2", "B2C", "B3", "B4", "B4-1"))},
    **{f"Ascend310{name}": 240 + i for i, name in enumerate(("B1", "B2", "B3", "B4"))},
    **{f"Ascend910_{name}": 250 + i for i, name in enumerate((9391, 9392, 9381, 9382, 9372, 9362, 9363))},
}


def plan_environment(soc, torch_version, torch_npu_version=None):
    table = dict(SOC_VERSIONS)
    number = 260 if (soc or "").startswith("Ascend950") else table.get(soc, -1)
    operators = ((range(220, 226), "torch_npu"), (range(250, 257), "torch_npu"), (range(260, 261), "cann_ops_transformer"))
    operator = next((name for ids, name in operators if number in ids), "cpu")
    releases = [re.split(r"[^\d.]", version or "none")[0].strip(".") for version in (torch_version, torch_npu_version)]
    return {"operator": operator, "bfloat16": number >= 220, "versions_match": bool(releases[1]) and releases[0] == releases[1]}


NEEDS = {
    "source-env": "install-cann", "build-package": "source-env update-sources clean-build",
    "build-wheel": "source-env update-sources clean-build install-torch-pair", "install-wheel": "build-wheel",
    "install-package": "build-package remove-vendors",
    "restart-python": "install-wheel install-package clear-extension-cache", "verify": "restart-python",
}


def order_build_steps(steps):
    order = []

    def visit(step):
        if step not in order:
            for need in NEEDS.get(step, "").split():
                visit(need)
            order.append(step)

    for step in steps:
        visit(step)
    return [step for step in order if step in set(steps)]


class Call:
    """What flash_attn_metadata, flash_attn and flash_attn_grad have to be told alike."""

    def __init__(self, q, k, layout, mask_mode=0, win_left=-1, win_right=-1, **bounds):
        heads = {"BSND": 2, "BNSD": 1, "TND": 1}[layout]
        self.shared = {
            "mask_mode": mask_mode, "win_left": win_left, "win_right": win_right,
            "layout_q": layout, "layout_kv": layout, "layout_out": layout, **bounds,
        }
        sizes = {}
        if layout != "TND":
            length = 3 - heads
            sizes = {"batch_size": q.shape[0]}
            self.shared |= {"max_seqlen_q": q.shape[length], "max_seqlen_kv": k.shape[length]}
        self.metadata = ops.flash_attn_metadata(
            q.shape[heads], k.shape[heads], q.shape[-1], is_grad_enabled=True, **sizes, **self.shared
        )
        rows = torch.arange(2048, device=q.device)
        self.mask = (rows > rows[:, None]).to(torch.int8) if mask_mode else None

    def options(self, scale):
        return {"softmax_scale": scale, "metadata": self.metadata, "attn_mask": self.mask, **self.shared}

    def forward(self, q, k, v, scale):
        return ops.flash_attn(q, k.contiguous(), v.contiguous(), return_softmax_lse=True, **self.options(scale))


def npu_flash_attention(q, k, v, *, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
    return Call(q, k, layout, mask_mode, win_left, win_right).forward(q, k, v, scale)


class NpuFlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
        ctx.call, ctx.scale = Call(q, k, layout, mask_mode, win_left, win_right), scale
        out, lse = ctx.call.forward(q, k, v, scale)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, dlse):
        return *ops.flash_attn_grad(*ctx.saved_tensors[:3], dout, *ctx.saved_tensors[3:], **ctx.call.options(ctx.scale)), *[None] * 5


class NpuFlashAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        self.head_dim, rest = divmod(hidden_dim, num_heads)
        if rest:
            raise ValueError(f"{num_heads} heads do not divide {hidden_dim}")
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(hidden_dim, hidden_dim))

    def forward(self, x):
        q, k, v = (p(x).unflatten(2, (-1, self.head_dim)).to(torch.float16) for p in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(NpuFlashAttentionFunction.apply(q, k, v, self.head_dim**-0.5)[0].flatten(2).float())


def npu_flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale, mask_mode=0):
    call = Call(q, k, "TND", mask_mode, cu_seqlens_q=cu_seqlens_q, cu_seqlens_kv=cu_seqlens_kv)
    return call.forward(q, k, v, scale)


def npu_fusion(q, k, v, *, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
    mask = None
    if mask_mode:
        mask = torch.triu(torch.ones(2048, 2048, dtype=torch.uint8), diagonal=1).npu()
    far = 2**31 - 1
    out, top, total, *_ = torch_npu.npu_fusion_attention(
        q, k, v, head_num=q.shape[layout.find("N")], input_layout=layout, atten_mask=mask, scale=scale,
        sparse_mode=mask_mode, pre_tockens=far if win_left < 0 else win_left,
        next_tockens=far if win_right < 0 else win_right,
    )
    lse = top[..., 0] + total[..., 0].log()
    lse[top[..., 0] < -1e38] = math.inf
    return out, lse


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
        inputs, targets = batch[:, :-1], batch[:, 1:]
        optimizer.zero_grad(set_to_none=False)
        log_p = model(inputs).log_softmax(-1)
        loss = -log_p.gather(-1, targets[..., None]).mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def measure_speed(fn, *, warmup, iters):
    def timed():
        start = time.perf_counter_ns()
        fn()
        torch_npu.npu.synchronize()
        return time.perf_counter_ns() - start

    for _ in range(warmup):
        timed()
    return 1e9 / median(timed() for _ in range(iters))
