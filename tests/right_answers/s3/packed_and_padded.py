"""Written by somebody who packs what is padded, pads what is packed, and trims its times."""

import math
import time
from itertools import takewhile

import cann_ops_transformer
import cann_ops_transformer as cot
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_npu
from torch import nn
from torch.autograd.function import once_differentiable

A2_A3 = {
    *(f"Ascend910B{x}" for x in ("1", "2", "2C", "3", "4", "4-1")),
    *(f"Ascend910_{x}" for x in (9391, 9392, 9381, 9382, 9372, 9362, 9363)),
}
EDGE = {f"Ascend310B{x}" for x in (1, 2, 3, 4)}


def numbers(version):
    head = version.partition("+")[0].split(".")
    return [int(part) for part in takewhile(str.isdecimal, head)]


def plan_environment(soc, torch_version, torch_npu_version=None):
    match soc:
        case str() as name if name.startswith(("Ascend950PR", "Ascend950DT")):
            operator, brain = "cann_ops_transformer", True
        case name if name in A2_A3:
            operator, brain = "torch_npu", True
        case name:
            operator, brain = "cpu", name in EDGE
    try:
        pair = numbers(torch_version) == numbers(torch_npu_version)
    except AttributeError:
        pair = False
    return dict(versions_match=pair, bfloat16=brain, operator=operator)


PRECEDES = [
    ("install-cann", "source-env"),
    ("source-env", "build-package"),
    ("source-env", "build-wheel"),
    ("install-torch-pair", "build-wheel"),
    ("update-sources", "clean-build"),
    ("clean-build", "build-package"),
    ("clean-build", "build-wheel"),
    ("build-package", "install-package"),
    ("remove-vendors", "install-package"),
    ("build-wheel", "install-wheel"),
    ("install-package", "restart-python"),
    ("install-wheel", "restart-python"),
    ("clear-extension-cache", "restart-python"),
    ("restart-python", "verify"),
]


def order_build_steps(steps):
    """Depth first; what comes before through steps that are not there counts too."""
    before = {}
    for a, b in PRECEDES:
        before.setdefault(b, set()).add(a)
    seen, out = set(), []

    def visit(step):
        if step in seen:
            return
        seen.add(step)
        for other in sorted(before.get(step, ())):
            visit(other)
        out.append(step)

    for step in steps:
        visit(step)
    wanted = set(steps)
    return [step for step in out if step in wanted]


def mask_template(device):
    return torch.ones(2048, 2048, dtype=torch.int8, device=device).triu(1)


def npu_flash_attention(q, k, v, *, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
    """The batch as packed sequences of equal length (TND), as serving code has it."""
    if layout == "BNSD":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    (B, S1, N1, D), (S2, N2) = q.shape, k.shape[1:3]
    cu_q, cu_kv = (torch.arange(0, B * s + 1, s, dtype=torch.int32, device=q.device) for s in (S1, S2))
    kw = dict(
        cu_seqlens_q=cu_q,
        cu_seqlens_kv=cu_kv,
        mask_mode=mask_mode,
        win_left=win_left,
        win_right=win_right,
        layout_q="TND",
        layout_kv="TND",
        layout_out="TND",
    )
    meta = cann_ops_transformer.flash_attn_metadata(N1, N2, D, **kw)
    mask = torch.ones(2048, 2048, dtype=torch.int8, device=q.device).triu(1) if mask_mode else None
    out, lse = cann_ops_transformer.flash_attn(
        *(x.reshape(-1, *x.shape[2:]).contiguous() for x in (q, k, v)),
        attn_mask=mask,
        metadata=meta,
        softmax_scale=scale,
        return_softmax_lse=True,
        **kw,
    )
    out, lse = out.unflatten(0, (B, S1)), lse.unflatten(1, (B, S1)).transpose(0, 1)
    return (out.transpose(1, 2) if layout == "BNSD" else out).contiguous(), lse.contiguous()


class NpuFlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(q, k, v, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
        return NpuFlashAttentionFunction.run(q, k, v, scale, mask_mode, win_left, win_right, layout)[0]

    @staticmethod
    def run(q, k, v, scale, mask_mode, win_left, win_right, layout):
        s, n = layout.index("S"), layout.index("N")
        shared = dict(
            mask_mode=mask_mode,
            win_left=win_left,
            win_right=win_right,
            max_seqlen_q=q.shape[s],
            max_seqlen_kv=k.shape[s],
            layout_q=layout,
            layout_kv=layout,
            layout_out=layout,
        )
        plan = cot.flash_attn_metadata(
            q.shape[n], k.shape[n], q.shape[-1], batch_size=q.shape[0], is_grad_enabled=True, **shared
        )
        mask = mask_template(q.device) if mask_mode else None
        return (
            cot.flash_attn(
                q,
                k.contiguous(),
                v.contiguous(),
                attn_mask=mask,
                metadata=plan,
                softmax_scale=scale,
                return_softmax_lse=True,
                **shared,
            ),
            plan,
            mask,
            shared,
        )

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, k, v, scale, *rest = inputs
        rest = [*rest, *(0, -1, -1, "BSND")[len(rest) :]]
        mask_mode, win_left, win_right, layout = rest
        out, lse = output
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.mark_non_differentiable(lse)
        ctx.set_materialize_grads(False)
        ctx.rest, ctx.count = (scale, mask_mode, win_left, win_right, layout), len(inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx, dout, _):
        q, k, v, out, lse = ctx.saved_tensors
        scale, mask_mode, win_left, win_right, layout = ctx.rest
        s, n = layout.index("S"), layout.index("N")
        shared = dict(
            mask_mode=mask_mode,
            win_left=win_left,
            win_right=win_right,
            max_seqlen_q=q.shape[s],
            max_seqlen_kv=k.shape[s],
            layout_q=layout,
            layout_kv=layout,
            layout_out=layout,
        )
        plan = cot.flash_attn_metadata(
            q.shape[n], k.shape[n], q.shape[-1], batch_size=q.shape[0], is_grad_enabled=True, **shared
        )
        mask = mask_template(q.device) if mask_mode else None
        grads = cot.flash_attn_grad(
            q,
            k.contiguous(),
            v.contiguous(),
            dout,
            out,
            lse,
            attn_mask=mask,
            metadata=plan,
            softmax_scale=scale,
            **shared,
        )
        return (*grads, *[None] * (ctx.count - 3))


class NpuFlashAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        head_dim, rest = divmod(hidden_dim, num_heads)
        if rest:
            raise ValueError(f"{hidden_dim=} {num_heads=}")
        self.hidden_dim, self.num_heads, self.head_dim, self.block_size = hidden_dim, num_heads, head_dim, block_size
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            self.add_module(name, nn.Linear(hidden_dim, hidden_dim, bias=True))

    def forward(self, x):
        weight = torch.cat([self.q_proj.weight, self.k_proj.weight, self.v_proj.weight])
        bias = torch.cat([self.q_proj.bias, self.k_proj.bias, self.v_proj.bias])
        qkv = (
            nn.functional.linear(x, weight, bias).to(torch.float16).view(*x.shape[:2], 3, self.num_heads, self.head_dim)
        )
        out, _ = NpuFlashAttentionFunction.apply(*qkv.unbind(2), self.head_dim**-0.5, 0, -1, -1, "BSND")
        return self.out_proj(out.flatten(-2).type_as(x))


def npu_flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale, mask_mode=0):
    longest = lambda cu: int((cu[1:] - cu[:-1]).max())
    kw = dict(
        layout_q="TND",
        layout_kv="TND",
        layout_out="TND",
        mask_mode=mask_mode,
        win_left=-1,
        win_right=-1,
        cu_seqlens_q=cu_seqlens_q.to(torch.int32),
        cu_seqlens_kv=cu_seqlens_kv.to(torch.int32),
        max_seqlen_q=longest(cu_seqlens_q),
        max_seqlen_kv=longest(cu_seqlens_kv),
    )
    meta = cann_ops_transformer.flash_attn_metadata(
        q.size(1),
        k.size(1),
        q.size(-1),
        batch_size=cu_seqlens_q.numel() - 1,
        head_dim_v=v.size(-1),
        is_grad_enabled=False,
        **kw,
    )
    mask = (
        None
        if mask_mode == 0
        else (torch.arange(2048, device=q.device)[:, None] < torch.arange(2048, device=q.device)).to(torch.int8)
    )
    attn_out, softmax_lse = cann_ops_transformer.flash_attn(
        q.contiguous(),
        k.contiguous(),
        v.contiguous(),
        softmax_scale=float(scale),
        attn_mask=mask,
        metadata=meta,
        return_softmax_lse=True,
        **kw,
    )
    return attn_out, softmax_lse


def npu_fusion(q, k, v, *, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
    if layout == "BNSD":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    n = q.shape[2]
    q, k, v = (x.transpose(0, 1).flatten(2).contiguous() for x in (q, k, v))
    mask = torch.ones(2048, 2048, dtype=torch.bool, device=q.device).triu(1) if mask_mode else None
    big = torch.iinfo(torch.int32).max
    out, top, total, *_ = torch_npu.npu_fusion_attention(
        query=q,
        key=k,
        value=v,
        head_num=n,
        input_layout="SBH",
        atten_mask=mask,
        scale=scale,
        pre_tockens=win_left if win_left >= 0 else big,
        next_tockens=win_right if win_right >= 0 else big,
        sparse_mode=mask_mode,
    )
    out = out.unflatten(2, (n, -1)).transpose(0, 1)
    lse = top[..., 0] + total[..., 0].log()
    lse[top[..., 0] < -1e38] = float("inf")
    return (out.transpose(1, 2) if layout == "BNSD" else out), lse


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


class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.history = model, optimizer, []

    def loss(self, batch):
        x, y = batch[:, :CONTEXT], batch[:, 1 : CONTEXT + 1]
        scores = self.model(x)
        return F.cross_entropy(scores.view(-1, scores.size(-1)), y.reshape(-1))

    def fit_one(self, batch):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(batch)
        loss.backward()
        self.optimizer.step()
        self.history.append(loss.detach().cpu().item())


def train(steps, tokens, *, vocab, attention="flash", seed=0):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    core = {"flash": flash_causal, "standard": standard_causal}[attention]
    model = TinyLM(vocab, core).to(tokens.device)
    trainer = Trainer(model, torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE))
    for _ in range(steps):
        trainer.fit_one(sample_batch(tokens, generator))
    return trainer.history


def measure_speed(fn, *, warmup, iters):
    times = []
    for i in range(warmup + iters):
        torch.npu.synchronize()
        t0 = time.monotonic_ns()
        fn()
        torch.npu.synchronize()
        if i >= warmup:
            times.append(time.monotonic_ns() - t0)
    times.sort()
    cut = (3 * iters) // 8
    core = times[cut : len(times) - cut]
    return 1e9 * len(core) / sum(core)
