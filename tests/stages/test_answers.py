"""Answers without work get nothing, and some wrong answers get their name."""

from __future__ import annotations

import pytest
from conftest import Graded, grade, solutions

from grader.course import catalog

STAGES = ("s1", "s2", "s3", "s4")


def exercises(stage: str) -> list[str]:
    return [exercise.id for exercise in catalog.load().stage(stage).exercises]


EXERCISES = [exercise for stage in catalog.load().stages for exercise in stage.exercises]
NAMES = [exercise.name for exercise in EXERCISES if not exercise.is_artifact]

SKIPPING = {
    "zeros": """
import torch
from torch import nn
def softmax(x, dim=-1): return torch.zeros_like(x)
def read_profile(path): return {"kind": "pytorch", "kernels": []}
def utilisation(kernels, soc, **o): return {}
def diagnose(kernel): return {"bottleneck": "cube", "evidence": {}}
def feasible_tiles(soc, head_dim, **o): return []
def choose_schedule(soc, shape): return {}
def tiling_key(fields): return 0
def plan_backward(*a, **k): return {}
def backward_dataflow(*a, **k): return []
def fast_attention(q, k, v): return torch.zeros_like(q)
def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False): return q.new_zeros(*q.shape[:3], v.shape[-1])
def attention_cost(*a, **k): return {"flops": 0, "hbm_bytes": 0, "score_bytes": 0}
def online_softmax_update(state, scores, values): return state
def merge_states(a, b): return a
def visible_tiles(*a, **k): return []
def flash_attention_forward(q, k, v, **o): return q.new_zeros(*q.shape[:3], v.shape[-1]), torch.zeros(q.shape[:3])
def flash_attention_backward(q, k, v, *a, **o): return torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
def flash_attention_varlen(q, k, v, *a, **o): return torch.zeros_like(q), torch.zeros(q.shape[1], q.shape[0])
def flash_traffic(*a, **k): return {"flops": 0, "hbm_bytes": 0}
class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, *o):
        return torch.zeros_like(q), torch.zeros(q.shape[:3])
    @staticmethod
    def backward(ctx, a, b):
        return (None,) * 9
class StandardAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads: raise ValueError
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(hidden_dim, hidden_dim) for _ in range(4))
    def forward(self, x): return torch.zeros_like(x)
FlashAttentionV1 = NpuFlashAttention = StandardAttention
def plan_environment(*a): return {"operator": "cpu", "bfloat16": False, "versions_match": False}
def order_build_steps(steps): return []
def npu_flash_attention(q, k, v, **o): return torch.zeros_like(q), torch.zeros(q.shape[:3], device=q.device)
def npu_flash_attention_varlen(q, *a, **o): return torch.zeros_like(q), torch.zeros(q.shape[1::-1], device=q.device)
npu_fusion, NpuFlashAttentionFunction = npu_flash_attention, FlashAttentionFunction
def train(steps, *a, **o): return [0.0] * steps
def measure_speed(*a, **o): return 0.0
""",
    "return v": """
def read_profile(path): return {"kind": "pytorch", "kernels": [path]}
def utilisation(kernels, soc, **o): return dict.fromkeys(("mac", "vec", "mte2"), 1.0)
def diagnose(kernel): return {"bottleneck": "vector", "evidence": kernel}
def feasible_tiles(soc, head_dim, **o): return [(m, n) for m in range(16, 257) for n in (64, 128, 256)]
def choose_schedule(soc, shape): return {"block_q": 128, "block_kv": 128}
def tiling_key(fields): return fields
def plan_backward(*a, **k): return k
def backward_dataflow(*a, **k): return list(a)
def fast_attention(q, k, v): return q
import torch
from torch import nn
def softmax(x, dim=-1): return x
def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False): return v
def attention_cost(*a, **k): return k
def online_softmax_update(state, scores, values): return scores, scores, values
def merge_states(a, b): return b
def visible_tiles(*a, **k): return [(0, 0)]
def flash_attention_forward(q, k, v, **o): return v, v[..., 0]
def flash_attention_backward(q, k, v, *a, **o): return q, k, v
def flash_attention_varlen(q, k, v, *a, **o): return v, v[..., 0].T
def flash_traffic(*a, **k): return k
class FlashAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, *o):
        ctx.save_for_backward(q, k, v)
        return v.clone(), v[..., 0].clone()
    @staticmethod
    def backward(ctx, a, b):
        return *ctx.saved_tensors, *(None,) * 6
class StandardAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads, block_size=256):
        super().__init__()
        if hidden_dim % num_heads: raise ValueError
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(hidden_dim, hidden_dim) for _ in range(4))
    def forward(self, x): return self.out_proj(self.v_proj(x))
FlashAttentionV1 = NpuFlashAttention = StandardAttention
def plan_environment(soc, *a): return {"operator": soc, "bfloat16": True, "versions_match": True}
def order_build_steps(steps): return steps
def npu_flash_attention(q, k, v, **o): return v, v[..., 0].float()
def npu_flash_attention_varlen(q, k, v, *a, **o): return v, v[..., 0].T.float()
npu_fusion, NpuFlashAttentionFunction = npu_flash_attention, FlashAttentionFunction
def train(steps, tokens, *, vocab, **o): return [1.0] * steps
def measure_speed(fn, *, warmup, iters): return float(iters)
""",
    "nothing": "",
    "None": "\n".join(f"def {name}(*a, **k): pass" for name in NAMES),
}


@pytest.mark.parametrize("answer", sorted(SKIPPING))
@pytest.mark.parametrize("stage", STAGES)
def test_an_answer_without_work_earns_nothing(stage: str, answer: str) -> None:
    assert grade(stage, SKIPPING[answer], files={}).points == 0


FORWARD = """
import math, torch

def flash_attention_forward(q, k, v, *, scale=None, mask_mode=0, win_left=-1, win_right=-1, block_q=128, block_kv=128):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    work = torch.promote_types(q.dtype, torch.float32)
    group, s1, s2 = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    out, lse = q.new_zeros(*q.shape[:3], v.shape[-1]), torch.full(q.shape[:3], math.inf)
    for i in range(0, s1, block_q):
        Q = q[:, :, i : i + block_q].to(work)
        m = torch.full_like(Q[..., :1], START)
        l, acc = torch.zeros_like(m), Q.new_zeros(*Q.shape[:3], v.shape[-1])
        rows = torch.arange(i, i + Q.shape[2])[:, None] + s2 - s1
        for j in range(0, s2, block_kv):
            K, V = (x[:, :, j : j + block_kv].to(work).repeat_interleave(group, dim=1) for x in (k, v))
            cols = torch.arange(j, j + K.shape[2])
            seen = torch.ones(Q.shape[2], K.shape[2], dtype=torch.bool)
            if mask_mode == 3 or (mask_mode == 4 and win_right >= 0):
                seen &= cols <= rows + (win_right if mask_mode == 4 else 0)
            if mask_mode == 4 and win_left >= 0:
                seen &= cols >= rows - win_left
            if not seen.any():
                continue
            s = (Q @ K.mT * scale).masked_fill(~seen, -math.inf)
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            ref = new.masked_fill(new == -math.inf, 0.0)
            p, alpha = torch.exp(s - ref), torch.exp(m - ref)
            l, acc, m = UPDATE
        ok = l > 0
        out[:, :, i : i + block_q] = torch.where(ok, acc / l, 0.0).to(q.dtype)
        lse[:, :, i : i + block_q] = torch.where(ok, LSE, math.inf)[..., 0].float()
    return out, lse
"""
RIGHT = {
    "START": "-math.inf",
    "UPDATE": "l * alpha + p.sum(-1, keepdim=True), acc * alpha + p @ V, new",
    "LSE": "m + l.log()",
}


def forward(**changes: str) -> str:
    source = FORWARD
    for name, code in {**RIGHT, **changes}.items():
        source = source.replace(name, code)
    return source


def test_another_right_forward_passes() -> None:
    assert grade("s2", forward(), exercises=("s2-forward",)).points == 30


@pytest.mark.parametrize(
    ("changes", "check", "misconception"),
    [
        ({"UPDATE": "l * alpha + p.sum(-1, keepdim=True), acc + p @ V, new"}, "values", "acc-not-rescaled"),
        ({"UPDATE": "l + p.sum(-1, keepdim=True), acc * alpha + p @ V, new"}, "values", "sum-not-rescaled"),
        ({"UPDATE": "l + p.sum(-1, keepdim=True), acc + p @ V, new"}, "values", "nothing-rescaled"),
        ({"UPDATE": "p.sum(-1, keepdim=True), p @ V, new"}, "values", "last-tile-only"),
        ({"START": "0.0"}, "negative-logits", "max-starts-at-zero"),
        ({"LSE": "l.log()"}, "lse", "lse-without-max"),
        ({"LSE": "m"}, "lse", "lse-without-sum"),
        ({"cols <= rows": "cols < rows"}, "causal", "causal-strict"),
        ({"cols <= rows + (": "cols <= rows - s2 + s1 + ("}, "causal-offset", "causal-top-left"),
        ({"cols >= rows - win_left": "cols > rows - win_left"}, "window", "window-end-exclusive"),
        ({"repeat_interleave(group, dim=1)": "repeat(1, group, 1, 1)"}, "gqa", "gqa-interleaved"),
        ({"range(0, s2, block_kv)": "range(0, s2 - block_kv + 1, block_kv)"}, "tails", "tail-dropped"),
        ({"not seen.any()": "False"}, "hidden-tiles", "hidden-tiles-computed"),
        ({"* scale)": ")"}, "values", "scale-missing"),
        ({"torch.where(ok, acc / l, 0.0)": "acc / l"}, "empty-rows", "empty-row-nan"),
        ({"promote_types(q.dtype, torch.float32)": "promote_types(q.dtype, q.dtype)"}, "half", "half-scores"),
        ({"Q = q[": "Q = q.mul_(1)[", "UPDATE": RIGHT["UPDATE"] + "; q[:, :, i].mul_(2.0)"}, "inputs-unchanged", None),
    ],
)
def test_a_wrong_forward_is_named(changes: dict[str, str], check: str, misconception: str | None) -> None:
    graded = grade("s2", forward(**changes), exercises=("s2-forward",))
    if misconception is None:
        assert graded.failed
    else:
        assert graded.named.get(f"s2-forward.{check}") == misconception, (graded.named, graded.messages)


def test_a_whole_matrix_earns_nothing() -> None:
    source = forward() + "\n_f = flash_attention_forward\ndef flash_attention_forward(q, k, v, **o):\n"
    source += "    return _f(q, k, v, **{**o, 'block_q': q.shape[2], 'block_kv': k.shape[2]})\n"
    graded: Graded = grade("s2", source, exercises=("s2-forward",))
    assert graded.points == 0
    assert graded.named == {"s2-forward.memory": "quadratic-memory"}


def test_every_exercise_has_a_check_that_gates_the_others() -> None:
    for stage in catalog.load().stages:
        for exercise in stage.exercises:
            first = exercise.checks[0].id
            independent = [check.id for check in exercise.checks if not check.needs]
            if exercise.id not in ("s1-cost", "s2-traffic", "s4-tune"):  # numbers, or cases, that stand for themselves
                assert independent == [first], exercise.id


GUARDED = "\n_f = {name}\ndef {name}({signature}):\n    {guard}\n    return _f({passed})\n"


def guarded(stage: str, name: str, guard: str, signature: str = "*a, **o", passed: str = "*a, **o") -> str:
    """The solutions, where ``guard`` runs before ``name`` does."""
    return solutions(stage) + GUARDED.format(name=name, guard=guard, signature=signature, passed=passed)


NO_MASK = "if o.get('mask_mode'): raise NotImplementedError('masks')"
SQUARE = "if a[0].shape[2] != a[1].shape[2]: raise ValueError('lengths differ')"


@pytest.mark.parametrize(
    ("source", "exercise", "failed"),
    [
        (guarded("s2", "flash_attention_forward", NO_MASK), "s2-forward", {"causal"}),
        (guarded("s2", "flash_attention_backward", NO_MASK), "s2-backward", {"causal"}),
        (guarded("s2", "flash_attention_forward", SQUARE), "s2-forward", {"rectangular"}),
        (guarded("s2", "flash_attention_backward", SQUARE), "s2-backward", {"rectangular"}),
        (guarded("s1", "scaled_dot_product_attention", "if o.get('causal'): 1 / 0"), "s1-attention", {"causal"}),
        (guarded("s1", "softmax", "pass", "x", "x"), "s1-softmax", {"dim"}),
        (guarded("s2", "visible_tiles", "if a[0] != a[1]: return []"), "s2-tiles", {"all"}),
        (
            guarded("s2", "visible_tiles", "if a[0] != a[1] and o.get('mask_mode'): return []"),
            "s2-tiles",
            {"causal-offset"},
        ),
    ],
)  # fmt: skip
def test_what_fails_for_an_earlier_idea_is_not_reported_as_another(
    source: str, exercise: str, failed: set[str]
) -> None:
    graded = grade(exercise[:2], source, exercises=(exercise,))
    assert {id.split(".")[1] for id in graded.failed} == failed, (graded.named, graded.messages)
