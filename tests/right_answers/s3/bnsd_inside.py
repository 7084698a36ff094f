"""All work is done in BNSD; masks by their names; events for timing."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import math
import torch_npu
from cann_ops_transformer.ops import flash_attn, flash_attn_grad, flash_attn_metadata
from cann_ops_transformer.ops.attention.flash_attn_grad import MaskMode


SOC_VERSIONS = {
    **{f"Ascend910{name}": 100 + i for i, name in enumerate(("PremiumA", "ProA", "A", "ProB", "B"))},
    **{f"Ascend310P{name}": 200 + i for i, name in enumerate((1, 2, 3, 4, 5, 7))},
    **{f"Ascend910{name}": 220 + i for i, name in enumerate(("B1", "B2", "B2C", "B3", "B4", "B4-1"))},
    **{f"Ascend310{name}": 240 + i for i, name in enumerate(("B1", "B2", "B3", "B4"))},
    **{f"Ascend910_{name}": 250 + i for i, name in enumerate((9391, 9392, 9381, 9382, 9372, 9362, 9363))},
}


def release(version):
    numbers = []
    for part in version.split("+")[0].split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def plan_environment(soc, torch_version, torch_npu_version=None):
    family = None
    if soc and soc.startswith("Ascend950"):
        family = "950"
    elif soc in SOC_VERSIONS:
        number = SOC_VERSIONS[soc]
        family = "910" if number < 200 else "310P" if number < 220 else "A2" if number < 240 else "310B" if number < 250 else "A3"
    operator = {"950": "cann_ops_transformer", "A2": "torch_npu", "A3": "torch_npu"}.get(family, "cpu")
    bfloat16 = family in ("950", "A2", "A3", "310B")
    match = bool(torch_npu_version) and release(torch_version) == release(torch_npu_version)
    return {"operator": operator, "bfloat16": bfloat16, "versions_match": match}


def order_build_steps(steps):
    rank = {
        "update-sources": 0, "install-torch-pair": 0, "install-cann": 0, "clean-build": 1, "clear-extension-cache": 1,
        "remove-vendors": 1, "source-env": 2, "build-wheel": 3, "build-package": 3, "install-wheel": 4, "install-package": 4,
        "restart-python": 5, "verify": 6,
    }
    return sorted(steps, key=lambda step: rank[step])


TEMPLATE = {}


def template():
    if "mask" not in TEMPLATE:
        TEMPLATE["mask"] = torch.triu(torch.ones(2048, 2048, dtype=torch.int8), 1).to("npu")
    return TEMPLATE["mask"]


def described(q, k, mask_mode, win_left, win_right):
    mode = MaskMode(mask_mode)
    return dict(
        mask_mode=int(mode), win_left=win_left, win_right=win_right, max_seqlen_q=q.shape[2], max_seqlen_kv=k.shape[2],
        layout_q="BNSD", layout_kv="BNSD", layout_out="BNSD",
    )


def to_bnsd(layout, *tensors):
    return [x.transpose(1, 2).contiguous() if layout == "BSND" else x.contiguous() for x in tensors]


def from_bnsd(layout, *tensors):
    return [x.transpose(1, 2) if layout == "BSND" else x for x in tensors]


def npu_flash_attention(q, k, v, *, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
    q, k, v = to_bnsd(layout, q, k, v)
    what = described(q, k, mask_mode, win_left, win_right)
    plan = flash_attn_metadata(q.size(1), k.size(1), q.size(3), batch_size=q.size(0), **what)
    out, lse = flash_attn(
        q, k, v, attn_mask=template() if mask_mode else None, metadata=plan, softmax_scale=scale,
        return_softmax_lse=True, **what,
    )
    return from_bnsd(layout, out)[0].contiguous(), lse


class NpuFlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
        q, k, v = to_bnsd(layout, q, k, v)
        ctx.what = described(q, k, mask_mode, win_left, win_right)
        ctx.plan = flash_attn_metadata(
            q.size(1), k.size(1), q.size(3), batch_size=q.size(0), is_grad_enabled=True, **ctx.what
        )
        ctx.mask, ctx.scale, ctx.layout = template() if mask_mode else None, scale, layout
        out, lse = flash_attn(
            q, k, v, attn_mask=ctx.mask, metadata=ctx.plan, softmax_scale=scale, return_softmax_lse=True, **ctx.what
        )
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.mark_non_differentiable(lse)
        return from_bnsd(layout, out)[0], lse

    @staticmethod
    def backward(ctx, grad_out, grad_lse):
        q, k, v, out, lse = ctx.saved_tensors
        (grad_out,) = to_bnsd(ctx.layout, grad_out)
        grads = flash_attn_grad(
            q, k, v, grad_out, out, lse, attn_mask=ctx.mask, metadata=ctx.plan, softmax_scale=ctx.scale, **ctx.what
        )
        return (*from_bnsd(ctx.layout, *grads), None, None, None, None, None)


class NpuFlashAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        if hidden_dim % num_heads != 0:
            raise ValueError("hidden_dim must be a multiple of num_heads")
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def split(self, x):
        return x.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2).half()

    def forward(self, x):
        q, k, v = self.split(self.q_proj(x)), self.split(self.k_proj(x)), self.split(self.v_proj(x))
        out, _ = NpuFlashAttentionFunction.apply(q, k, v, 1 / math.sqrt(q.size(-1)), 0, -1, -1, "BNSD")
        return self.out_proj(out.transpose(1, 2).reshape(x.shape).to(x.dtype))


def npu_flash_attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_kv, *, scale, mask_mode=0):
    longest = [int(cu.diff().max()) for cu in (cu_seqlens_q, cu_seqlens_kv)]
    tnd = dict(layout_q="TND", layout_kv="TND", layout_out="TND", cu_seqlens_q=cu_seqlens_q, cu_seqlens_kv=cu_seqlens_kv)
    what = dict(mask_mode=mask_mode, win_left=-1, win_right=-1, max_seqlen_q=longest[0], max_seqlen_kv=longest[1], **tnd)
    plan = flash_attn_metadata(q.size(1), k.size(1), q.size(2), batch_size=cu_seqlens_q.numel() - 1, **what)
    return flash_attn(
        q, k, v, attn_mask=template() if mask_mode == 3 else None, metadata=plan, softmax_scale=scale,
        return_softmax_lse=True, **what,
    )


def npu_fusion(q, k, v, *, scale, mask_mode=0, win_left=-1, win_right=-1, layout="BSND"):
    """Always in BNSD, with the whole mask spelt out and sparse_mode 1."""
    q, k, v = to_bnsd(layout, q, k, v)
    hidden = None
    if mask_mode:
        s1, s2 = q.size(2), k.size(2)
        distance = torch.arange(s2, device=q.device) - torch.arange(s1, device=q.device)[:, None] - (s2 - s1)
        left, right = (10**9, 0) if mask_mode == 3 else (10**9 if side < 0 else side for side in (win_left, win_right))
        hidden = (distance < -left) | (distance > right)
    result = torch_npu.npu_fusion_attention(
        q, k, v, q.size(1), "BNSD", atten_mask=hidden, scale=scale, sparse_mode=1 if mask_mode else 0, inner_precise=2
    )
    out, row_max, row_sum = result[0], result[1].select(-1, 0), result[2].select(-1, 0)
    lse = torch.where(row_max == torch.finfo(torch.float32).min, math.inf, row_max + row_sum.log())
    return from_bnsd(layout, out)[0], lse


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
        model.zero_grad()
        logits = model(batch[:, :-1])
        loss = nn.CrossEntropyLoss()(logits.transpose(1, 2), batch[:, 1:])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu().item())
    return losses


def measure_speed(fn, *, warmup, iters):
    for _ in range(warmup):
        fn()
    torch.npu.synchronize()
    times = []
    for _ in range(iters):
        start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
        start.record()
        fn()
        end.record()
        torch.npu.synchronize()
        times.append(start.elapsed_time(end) / 1000)
    return 1 / sorted(times)[len(times) // 2]
