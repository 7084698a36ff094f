"""Written by somebody who lets autocast choose the precision, loops over the batch, pads packed sequences."""
import re

SOC_VERSIONS = {
    **{f"Ascend910{name}": 100 + i for i, name in enumerate(("PremiumA", "ProA", "A", "ProB", "B"))},
    **{f"Ascend310P{name}": 200 + i for i, name in enumerate((1, 2, 3, 4, 5, 7))},
    **{f"Ascend910{name}": 220 + i for i, name in enumerate(("B1", "B2", "B2C", "B3", "B4", "B4-1"))},
    **{f"Ascend310{name}": 240 + i for i, name in enumerate(("B1", "B2", "B3", "B4"))},
    **{f"Ascend910_{name}": 250 + i for i, name in enumerate((9391, 9392, 9381, 9382, 9372, 9362, 9363))},
}


def plan_environment(soc: str | None, torch_version: str, torch_npu_version: str | None = None) -> dict:
    """Which attention operator this environment can use, and whether its versions go together.

    soc: the name that torch_npu.npu.get_device_name() gives, such as "Ascend950PR_9589"; None without an NPU.
    Returns {"operator", "bfloat16", "versions_match"}:
    operator: "cann_ops_transformer" on the 950 family (id 260), "torch_npu" on 910B (220 to 225) and 910_93 (250 to
        256), "cpu" on every other chip, for an unknown name and for None;
    bfloat16: whether the NPU computes in bfloat16: ids from 220 on. False for an unknown name and for None;
    versions_match: whether torch and torch_npu are one release: the same numbers ("2.13.0"), whatever follows them
        ("+cpu", ".post2"). False when torch_npu is None. Independent of soc.
    """
    name = soc or ""
    id = 260 if name.startswith("Ascend950") else SOC_VERSIONS.get(name, 0)
    if id >= 260:
        operator = "cann_ops_transformer"
    elif 220 <= id <= 225 or 250 <= id <= 256:
        operator = "torch_npu"
    else:
        operator = "cpu"

    def release(version):
        return re.match(r"\d+(\.\d+)*", version)[0]

    versions_match = torch_npu_version is not None and release(torch_version) == release(torch_npu_version)
    return {"operator": operator, "bfloat16": id >= 220, "versions_match": versions_match}

from graphlib import TopologicalSorter

BUILD_STEPS = {
    "build-package": "bash build.sh --pkg --soc=ascend950 --ops=flash_attn,flash_attn_grad,flash_attn_metadata",
    "build-wheel": "bash build.sh --torch_extension --soc=ascend950",
    "clean-build": "rm -rf ./build ./build_out",
    "clear-extension-cache": "rm -rf ~/.cache/torch_extensions/*",
    "install-cann": "run the installers of the driver, the firmware and the CANN toolkit",
    "install-package": "cd build_out && ./cann-ops-transformer-*.run --install-path=${CANN_DIR}",
    "install-torch-pair": "python3 -m pip install torch==2.12.0 torch_npu==2.12.0",
    "install-wheel": "python3 -m pip install build_out/*.whl --force-reinstall --no-deps",
    "remove-vendors": "rm -rf ${CANN_DIR}/vendors",
    "restart-python": "end every Python process that has imported the old version (in a notebook: restart the kernel)",
    "source-env": "source ${CANN_DIR}/cann/set_env.sh",
    "update-sources": "git pull",
    "verify": 'python3 -c "from cann_ops_transformer.ops import flash_attn_grad", then one call of the operators',
}


def order_build_steps(steps: list) -> list:
    """Put shuffled steps of building and installing the operators into an order that works.

    steps: some of the names in BUILD_STEPS, each once: all of them for a first installation, fewer for a repair.
    Returns a new list of exactly these steps. Every order is right in which each step comes after all that it needs
    and no product is deleted before it has been used.
    """
    after = {
        "source-env": {"install-cann"},
        "build-package": {"source-env", "update-sources", "clean-build"},
        "install-package": {"build-package", "remove-vendors"},
        "build-wheel": {"source-env", "update-sources", "clean-build", "install-torch-pair"},
        "install-wheel": {"build-wheel"},
        "restart-python": {"install-package", "install-wheel", "clear-extension-cache"},
        "verify": {"restart-python"},
    }
    return [step for step in TopologicalSorter(after).static_order() if step in steps]

import functools

import cann_ops_transformer
import torch


@functools.cache  # 4 MiB that never change: made once for each device
def mask_template(device: torch.device) -> torch.Tensor:
    """The attn_mask of mask_mode 3 and 4, whatever the lengths: int8 [2048, 2048], 1 = hidden, above the diagonal."""
    return torch.ones(2048, 2048, dtype=torch.int8, device=device).triu(1)


def npu_flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float,
    mask_mode: int = 0,
    win_left: int = -1,
    win_right: int = -1,
    layout: str = "BSND",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention by the operators flash_attn_metadata and flash_attn of the Ascend 950.

    q [B, S1, N1, D], k and v [B, S2, N2, D] for layout "BSND"; q [B, N1, S1, D], k and v [B, N2, S2, D] for "BNSD".
    float16 or bfloat16, on the NPU, any strides. mask_mode 0 none, 3 causal, 4 window, as in stage 2.
    Returns attn_out (q's shape, layout and dtype) and softmax_lse [B, N1, S1] float32 in both layouts.
    """
    if q.shape[0] > 1:
        parts = [npu_flash_attention(q[i:i+1], k[i:i+1], v[i:i+1], scale=scale, mask_mode=mask_mode, win_left=win_left, win_right=win_right, layout=layout) for i in range(q.shape[0])]
        return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])
    if layout == "BSND":
        (B, S1, N1, D), (_, S2, N2, _) = q.shape, k.shape
    else:
        (B, N1, S1, D), (_, N2, S2, _) = q.shape, k.shape
    shared = {
        "mask_mode": mask_mode,
        "win_left": win_left,
        "win_right": win_right,
        "max_seqlen_q": S1,
        "max_seqlen_kv": S2,
        "layout_q": layout,
        "layout_kv": layout,
        "layout_out": layout,
    }
    metadata = cann_ops_transformer.flash_attn_metadata(N1, N2, D, batch_size=B, **shared)
    return cann_ops_transformer.flash_attn(
        q,
        k.contiguous(),
        v.contiguous(),
        attn_mask=mask_template(q.device) if mask_mode else None,
        metadata=metadata,
        softmax_scale=scale,
        return_softmax_lse=True,
        **shared,
    )

import cann_ops_transformer
import torch


class NpuFlashAttentionFunction(torch.autograd.Function):
    """flash_attn and flash_attn_grad as one differentiable operation.

    NpuFlashAttentionFunction.apply(q, k, v, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND")
    -> (attn_out, softmax_lse), shapes as in npu_flash_attention; softmax_lse is marked non-differentiable.
    """

    @staticmethod
    def forward(ctx, q, k, v, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
        if layout == "BSND":
            (B, S1, N1, D), (_, S2, N2, _) = q.shape, k.shape
        else:
            (B, N1, S1, D), (_, N2, S2, _) = q.shape, k.shape
        shared = {
            "mask_mode": mask_mode,
            "win_left": win_left,
            "win_right": win_right,
            "max_seqlen_q": S1,
            "max_seqlen_kv": S2,
            "layout_q": layout,
            "layout_kv": layout,
            "layout_out": layout,
        }
        metadata = cann_ops_transformer.flash_attn_metadata(N1, N2, D, batch_size=B, is_grad_enabled=True, **shared)
        attn_mask = mask_template(q.device) if mask_mode else None
        k, v = k.contiguous(), v.contiguous()
        ctx.options = {"metadata": metadata, "attn_mask": attn_mask, "softmax_scale": scale, **shared}
        attn_out, softmax_lse = cann_ops_transformer.flash_attn(q, k, v, return_softmax_lse=True, **ctx.options)
        ctx.save_for_backward(q, k, v, attn_out, softmax_lse)
        ctx.mark_non_differentiable(softmax_lse)
        return attn_out, softmax_lse

    @staticmethod
    def backward(ctx, dout, _dlse):
        q, k, v, attn_out, softmax_lse = ctx.saved_tensors
        dq, dk, dv = cann_ops_transformer.flash_attn_grad(q, k, v, dout, attn_out, softmax_lse, **ctx.options)
        return dq, dk, dv, None, None, None, None, None

import math
import torch
from torch import nn


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
        with torch.autocast(device_type="npu", dtype=torch.float16):
            q, k, v = (p(x).view(*x.shape[:-1], self.num_heads, self.head_dim) for p in (self.q_proj, self.k_proj, self.v_proj))
            out, _ = NpuFlashAttentionFunction.apply(q, k, v, self.head_dim ** -0.5)
        return self.out_proj(out.reshape(x.shape).to(x.dtype))

import functools, math
import torch
import torch_npu
import cann_ops_transformer
from cann_ops_transformer.ops.attention.flash_attn_grad import MaskMode


def npu_flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale, mask_mode=0):
    """One call all the same: padded to the longest in BSND, with the lengths in seqused."""
    lq, lk = (cu.diff().tolist() for cu in (cu_seqlens_q, cu_seqlens_kv))
    pad = lambda x, l: torch.nn.utils.rnn.pad_sequence(x.split(l), batch_first=True)
    Q, K, V = pad(q, lq), pad(k, lk), pad(v, lk)
    kw = dict(mask_mode=mask_mode, win_left=-1, win_right=-1, max_seqlen_q=Q.shape[1], max_seqlen_kv=K.shape[1],
              seqused_q=cu_seqlens_q.diff(), seqused_kv=cu_seqlens_kv.diff(), layout_q="BSND", layout_kv="BSND", layout_out="BSND")
    meta = cann_ops_transformer.flash_attn_metadata(q.size(1), k.size(1), q.size(-1), batch_size=len(lq), **kw)
    mask = torch.ones(2048, 2048, dtype=torch.int8, device=q.device).triu(1) if mask_mode else None
    out, lse = cann_ops_transformer.flash_attn(Q, K, V, softmax_scale=scale, attn_mask=mask, metadata=meta, return_softmax_lse=True, **kw)
    return torch.cat([o[:n] for o, n in zip(out, lq)]), torch.cat([x[:, :n] for x, n in zip(lse, lq)], 1)

import math

import torch
import torch_npu


def npu_fusion(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float,
    mask_mode: int = 0,
    win_left: int = -1,
    win_right: int = -1,
    layout: str = "BSND",
) -> tuple[torch.Tensor, torch.Tensor]:
    """npu_flash_attention for the 910B: the same arguments and results, through torch_npu.npu_fusion_attention.

    The operator gives no softmax_lse but each row's maximum and sum: softmax_max, softmax_sum, float32
    [B, N1, S1, 8], the same value 8 times. A row that sees no key: attn_out 0, softmax_lse +inf.
    """
    unbounded = 2147483647
    atten_mask = None
    if mask_mode:
        atten_mask = torch.ones(2048, 2048, dtype=torch.bool, device=q.device).triu(1)
    window = {}
    if mask_mode == 4:
        window["pre_tockens"] = unbounded if win_left == -1 else win_left
        window["next_tockens"] = unbounded if win_right == -1 else win_right
    attn_out, softmax_max, softmax_sum, *_ = torch_npu.npu_fusion_attention(
        q,
        k,
        v,
        q.shape[2] if layout == "BSND" else q.shape[1],
        layout,
        atten_mask=atten_mask,
        scale=scale,
        sparse_mode=mask_mode,
        **window,
    )
    row_max, row_sum = softmax_max[..., 0], softmax_sum[..., 0]
    unseen = row_max <= torch.finfo(torch.float32).min
    return attn_out, (row_max + torch.log(row_sum)).masked_fill(unseen, math.inf)

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

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
        with torch.autocast('npu', dtype=torch.float16):
            logits = model(batch[:, :-1])
        logits = logits.float()
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses

import time, statistics
import torch, torch_npu


def measure_speed(fn, *, warmup, iters):
    for _ in range(warmup):
        fn()
    torch.npu.synchronize()
    pairs = [(torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)) for _ in range(iters)]
    for start, end in pairs:
        start.record()
        fn()
        end.record()
    torch.npu.synchronize()
    return 1000.0 / statistics.median(start.elapsed_time(end) for start, end in pairs)
