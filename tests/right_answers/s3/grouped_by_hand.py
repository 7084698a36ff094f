"""Written by somebody who repeats the shared heads, keeps them in front and plans from outside."""

import functools
import math
import statistics
import time
from contextlib import contextmanager

import cann_ops_transformer
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_npu
from packaging.version import Version
from torch import nn

RANGES = {"torch_npu": [*range(220, 226), *range(250, 257)], "cann_ops_transformer": [260]}
NUMBERS = {}
for series, first, endings in (
    ("910", 100, "PremiumA ProA A ProB B"),
    ("310P", 200, "1 2 3 4 5 7"),
    ("910B", 220, "1 2 2C 3 4 4-1"),
    ("310B", 240, "1 2 3 4"),
    ("910_", 250, "9391 9392 9381 9382 9372 9362 9363"),
):
    NUMBERS |= {f"Ascend{series}{ending}": first + i for i, ending in enumerate(endings.split())}


def plan_environment(soc, torch_version, torch_npu_version=None):
    number = NUMBERS.get(soc) or (260 if soc and soc[:9] == "Ascend950" else -1)
    found = [operator for operator, numbers in RANGES.items() if number in numbers]
    plan = {"operator": found[0] if found else "cpu", "bfloat16": number > 219, "versions_match": False}
    if torch_npu_version:
        one, other = (Version(version).release for version in (torch_version, torch_npu_version))
        plan["versions_match"] = one == other
    return plan


RANKS = """install-cann update-sources source-env install-torch-pair remove-vendors clear-extension-cache clean-build
build-wheel build-package install-wheel install-package restart-python verify"""


def order_build_steps(steps):
    rank = {name: place for place, name in enumerate(RANKS.split())}
    return sorted(steps, key=rank.__getitem__)


def mask_template(device):
    return torch.ones(2048, 2048, dtype=torch.int8, device=device).triu(1)


NAMES = {0: "none", 3: "causal", 4: "band"}


@functools.lru_cache(maxsize=None)
def plan(n1, n2, d, b, s1, s2, mode, left, right, layout):
    return cann_ops_transformer.flash_attn_metadata(
        num_heads_q=n1,
        num_heads_kv=n2,
        head_dim=d,
        batch_size=b,
        max_seqlen_q=s1,
        max_seqlen_kv=s2,
        mask_mode=mode,
        win_left=left,
        win_right=right,
        layout_q=layout,
        layout_kv=layout,
        layout_out=layout,
    )


def npu_flash_attention(q, k, v, *, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
    seq, heads = layout.index("S"), layout.index("N")
    g = q.size(heads) // k.size(heads)
    k, v = k.repeat_interleave(g, heads), v.repeat_interleave(g, heads)
    meta = plan(
        q.size(heads),
        k.size(heads),
        q.size(-1),
        q.size(0),
        q.size(seq),
        k.size(seq),
        mask_mode,
        win_left,
        win_right,
        layout,
    )
    mask = (
        torch.triu(torch.ones((2048, 2048), device=q.device), diagonal=1).to(torch.int8)
        if mask_mode in (3, 4)
        else None
    )
    out, lse = cann_ops_transformer.flash_attn(
        q.contiguous(),
        k.contiguous(),
        v.contiguous(),
        return_softmax_lse=True,
        layout_q=layout,
        layout_kv=layout,
        layout_out=layout,
        max_seqlen_q=q.size(seq),
        max_seqlen_kv=k.size(seq),
        win_left=win_left,
        win_right=win_right,
        mask_mode=mask_mode,
        softmax_scale=scale,
        metadata=meta,
        attn_mask=mask,
    )
    return out, lse


class Call:
    # everything that both operators are told
    def __init__(self, q, k, scale, mask_mode, win_left, win_right, layout):
        seq, heads = layout.index("S"), layout.index("N")
        self.common = {f"layout_{x}": layout for x in ("q", "kv", "out")}
        self.common |= {"max_seqlen_q": q.size(seq), "max_seqlen_kv": k.size(seq)}
        self.common |= {"mask_mode": mask_mode, "win_left": win_left, "win_right": win_right}
        self.common["metadata"] = cann_ops_transformer.flash_attn_metadata(
            q.size(heads), k.size(heads), q.size(3), batch_size=q.size(0), is_grad_enabled=True, **self.common
        )
        self.common["softmax_scale"] = scale
        if mask_mode != 0:
            self.common["attn_mask"] = mask_template(q.device)


class NpuFlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
        ctx.call = Call(q, k, scale, mask_mode, win_left, win_right, layout)
        k, v = (x.contiguous() for x in (k, v))
        result = cann_ops_transformer.flash_attn(q, k, v, return_softmax_lse=True, **ctx.call.common)
        ctx.mark_non_differentiable(result[1])
        ctx.save_for_backward(q, k, v, *result)
        return tuple(result)

    @staticmethod
    def backward(ctx, upstream, ignored):
        q, k, v, *result = ctx.saved_tensors
        gradients = cann_ops_transformer.flash_attn_grad(q, k, v, upstream, *result, **ctx.call.common)
        return tuple(gradients) + 5 * (None,)


class NpuFlashAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        head_dim, rest = divmod(hidden_dim, num_heads)
        if rest:
            raise ValueError(f"{hidden_dim=} {num_heads=}")
        self.hidden_dim, self.num_heads, self.head_dim, self.block_size = hidden_dim, num_heads, head_dim, block_size
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            self.add_module(name, nn.Linear(hidden_dim, hidden_dim, bias=True))

    def heads(self, x):
        b, n, _ = x.size()
        return x.reshape(b, n, self.num_heads, self.head_dim).permute(0, 2, 1, 3).to(torch.float16)

    def forward(self, x):
        out, _ = NpuFlashAttentionFunction.apply(
            self.heads(self.q_proj(x)),
            self.heads(self.k_proj(x)),
            self.heads(self.v_proj(x)),
            1 / math.sqrt(self.head_dim),
            0,
            -1,
            -1,
            "BNSD",
        )
        return self.out_proj(out.permute(0, 2, 1, 3).reshape_as(x).to(x.dtype))


def npu_flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale, mask_mode=0):
    packed = dict.fromkeys(("layout_q", "layout_kv", "layout_out"), "TND")
    packed.update(cu_seqlens_q=cu_seqlens_q, cu_seqlens_kv=cu_seqlens_kv, mask_mode=mask_mode)
    packed.update(win_left=-1, win_right=-1)
    (_, heads, dim), shared = q.shape, k.shape[1]
    packed["metadata"] = cann_ops_transformer.flash_attn_metadata(heads, shared, dim, **packed)
    hidden = mask_template(q.device) if mask_mode else None
    return cann_ops_transformer.flash_attn(
        q, k, v, attn_mask=hidden, softmax_scale=scale, return_softmax_lse=True, **packed
    )


def npu_fusion(q, k, v, *, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
    s1, s2, n = q.size(layout.index("S")), k.size(layout.index("S")), q.size(layout.index("N"))
    mask = None
    if mask_mode:
        d = torch.arange(s2, device=q.device) - torch.arange(s1, device=q.device).unsqueeze(1) - (s2 - s1)
        mask = d > (0 if mask_mode == 3 else win_right if win_right >= 0 else s1 + s2)
        if mask_mode == 4 and win_left >= 0:
            mask |= d < -win_left
    out, m, l = torch_npu.npu_fusion_attention(q, k, v, n, layout, atten_mask=mask, scale=scale)[:3]
    m, l = m.select(-1, 0), l.select(-1, 0)
    return out, torch.where(m == torch.finfo(m.dtype).min, torch.inf, m + l.log())


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
        logits = model(batch[:, :-1])
        log_p = F.log_softmax(logits, dim=-1)
        loss = -log_p.gather(-1, batch[:, 1:, None]).mean()
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


@contextmanager
def stopwatch(into):
    torch.npu.synchronize()
    start = time.perf_counter()
    yield
    torch.npu.synchronize()
    into.append(time.perf_counter() - start)


def measure_speed(fn, *, warmup, iters):
    laps = []
    for _ in range(warmup + iters):
        with stopwatch(laps):
            fn()
    return 1 / statistics.median(laps[warmup:])
