"""New-style Function with setup_context; plans and masks are kept for as long as the shapes stay the same."""
import math
import time
from functools import lru_cache, partial

import cann_ops_transformer
import torch
import torch.nn.functional as F
import torch_npu
from torch import nn


SOC_VERSIONS = {
    **{f"Ascend910{name}": 100 + i for i, name in enumerate(("PremiumA", "ProA", "A", "ProB", "B"))},
    **{f"Ascend310P{name}": 200 + i for i, name in enumerate((1, 2, 3, 4, 5, 7))},
    **{f"Ascend910{name}": 220 + i for i, name in enumerate(("B1", "B2", "B2C", "B3", "B4", "B4-1"))},
    **{f"Ascend310{name}": 240 + i for i, name in enumerate(("B1", "B2", "B3", "B4"))},
    **{f"Ascend910_{name}": 250 + i for i, name in enumerate((9391, 9392, 9381, 9382, 9372, 9362, 9363))},
}


def family(soc):
    if not soc:
        return "none"
    if soc[:9] == "Ascend950":
        return "950"
    number = SOC_VERSIONS.get(soc)
    if number is None:
        return "none"
    return {20: "310P", 22: "A2", 24: "310B", 25: "A3"}.get(number // 10, "A1")


def plan_environment(soc, torch_version, torch_npu_version=None):
    kind = family(soc)
    operator = "cpu"
    if kind == "950":
        operator = "cann_ops_transformer"
    if kind in {"A2", "A3"}:
        operator = "torch_npu"

    def first_three(version):
        return [int(number) for number in version.split("+")[0].split(".")[:3]]

    same = torch_npu_version is not None and first_three(torch_version) == first_three(torch_npu_version)
    return dict(operator=operator, bfloat16=kind in {"A2", "A3", "310B", "950"}, versions_match=same)


def order_build_steps(steps):
    before = [
        ("install-cann", "source-env"), ("source-env", "build-package"), ("source-env", "build-wheel"),
        ("update-sources", "build-package"), ("update-sources", "build-wheel"), ("clean-build", "build-package"),
        ("clean-build", "build-wheel"), ("install-torch-pair", "build-wheel"), ("build-package", "install-package"),
        ("remove-vendors", "install-package"), ("build-wheel", "install-wheel"), ("install-package", "restart-python"),
        ("install-wheel", "restart-python"), ("clear-extension-cache", "restart-python"), ("restart-python", "verify"),
    ]
    everything = {step for pair in before for step in pair}
    order = []
    while everything:
        free = sorted(step for step in everything if not any(a in everything and b == step for a, b in before))
        order.append(free[-1])
        everything.remove(free[-1])
    return [step for step in order if step in steps]


@lru_cache
def plan(heads, kv_heads, dim, batch, length, kv_length, mask_mode, win_left, win_right, layout):
    return cann_ops_transformer.flash_attn_metadata(
        heads, kv_heads, dim, batch_size=batch, max_seqlen_q=length, max_seqlen_kv=kv_length, mask_mode=mask_mode,
        win_left=win_left, win_right=win_right, layout_q=layout, layout_kv=layout, layout_out=layout,
        is_grad_enabled=True,
    )


@lru_cache
def template():
    index = torch.arange(2048, device="npu")
    return torch.gt(index[None], index[:, None]).char()


def arguments(q, k, scale, mask_mode, win_left, win_right, layout):
    if layout == "BSND":
        (batch, length, heads, dim), (_, kv_length, kv_heads, _) = q.shape, k.shape
    elif layout == "BNSD":
        (batch, heads, length, dim), (_, kv_heads, kv_length, _) = q.shape, k.shape
    else:
        raise ValueError(f"layout {layout}?")
    return dict(
        metadata=plan(heads, kv_heads, dim, batch, length, kv_length, mask_mode, win_left, win_right, layout),
        attn_mask=template() if mask_mode in (3, 4) else None, softmax_scale=scale, mask_mode=mask_mode,
        win_left=win_left, win_right=win_right, max_seqlen_q=length, max_seqlen_kv=kv_length,
        layout_q=layout, layout_kv=layout, layout_out=layout,
    )


class NpuFlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(q, k, v, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
        told = arguments(q, k, scale, mask_mode, win_left, win_right, layout)
        return cann_ops_transformer.flash_attn(q, k.contiguous(), v.contiguous(), return_softmax_lse=True, **told)

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, k, v, scale, *rest = inputs
        ctx.rest = (scale, *rest, *(0, -1, -1, "BSND")[len(rest):])
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(q, k, v, *output)

    @staticmethod
    def backward(ctx, dout, _):
        q, k, v, out, lse = ctx.saved_tensors
        told = arguments(q, k, *ctx.rest)
        dq, dk, dv = cann_ops_transformer.flash_attn_grad(q, k, v, dout, out, lse, **told)
        return dq, dk, dv, None, None, None, None, None


def npu_flash_attention(q, k, v, *, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
    with torch.no_grad():
        return NpuFlashAttentionFunction.apply(q, k, v, scale, mask_mode, win_left, win_right, layout)


class NpuFlashAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads:
            raise ValueError("the heads have to share hidden_dim evenly")
        self.heads = num_heads
        linear = partial(nn.Linear, hidden_dim, hidden_dim)
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = linear(), linear(), linear(), linear()

    def forward(self, x):
        weights = torch.cat([self.q_proj.weight, self.k_proj.weight, self.v_proj.weight])
        biases = torch.cat([self.q_proj.bias, self.k_proj.bias, self.v_proj.bias])
        q, k, v = F.linear(x, weights, biases).half().unflatten(-1, (3, self.heads, -1)).unbind(2)
        out, lse = NpuFlashAttentionFunction.apply(q, k, v, q.shape[-1] ** -0.5)
        return self.out_proj(out.type_as(x).flatten(2))


def npu_flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale, mask_mode=0):
    both = dict(
        cu_seqlens_q=cu_seqlens_q, cu_seqlens_kv=cu_seqlens_kv, mask_mode=mask_mode, win_left=-1, win_right=-1,
        layout_q="TND", layout_kv="TND", layout_out="TND",
    )
    made = cann_ops_transformer.flash_attn_metadata(q.shape[-2], k.shape[-2], q.shape[-1], **both)
    hidden = {"attn_mask": template()} if mask_mode else {}
    results = cann_ops_transformer.flash_attn(
        q, k, v, metadata=made, softmax_scale=scale, return_softmax_lse=True, **both, **hidden
    )
    return tuple(results)


def npu_fusion(q, k, v, *, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
    options = dict(scale=float(scale), sparse_mode=mask_mode)
    if mask_mode == 4:
        options.update(pre_tockens=win_left if win_left >= 0 else 2147483647)
        options.update(next_tockens=win_right if win_right >= 0 else 2147483647)
    if mask_mode:
        options.update(atten_mask=template().to(torch.bool))
    out, highest, total, *_ = torch_npu.npu_fusion_attention(q, k, v, q.shape[-2 if layout == "BSND" else 1], layout, **options)
    highest, total = highest.amin(-1), total.amax(-1)  # eight times the same
    lse = highest.add(total.log())
    return out, lse.where(highest > -3e38, torch.tensor(math.inf, device=lse.device))


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
        loss = F.nll_loss(model(batch[:, :-1]).flatten(0, -2).log_softmax(dim=-1), batch[:, 1:].ravel())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def measure_speed(fn, *, warmup, iters):
    device = torch_npu.npu
    [fn() for _ in range(warmup)]
    durations = torch.empty(iters, dtype=torch.float64)
    for i in range(iters):
        device.synchronize()
        begin = time.perf_counter()
        fn()
        device.synchronize()
        durations[i] = time.perf_counter() - begin
    return 1.0 / durations.median().item()
