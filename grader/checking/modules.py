"""Multi-head attention as a module: what is right, and what wrong ideas about its projections and heads compute."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from grader.checking.attention_ideas import SCALE, SOFTMAX
from grader.checking.cases import Attention, normal
from grader.checking.compare import Expected, eps, largest, largest_error
from grader.checking.diagnose import Suspect
from grader.checking.wrong_attention import Changes, simulate
from grader.subject import Outcome, Raised
from grader.text import Text, say
from grader.vocabulary import Context

PARAMETERS = tuple(
    f"{name}.{kind}" for name in ("q_proj", "k_proj", "v_proj", "out_proj") for kind in ("weight", "bias")
)


@dataclass(frozen=True)
class Module:
    """One forward of a multi-head attention module: x [B, N, C] and the weights it is to use."""

    x: Tensor
    heads: int
    state: dict[str, Tensor]
    block_size: int = 0
    memo: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def hidden(self) -> int:
        return self.x.shape[-1]

    @cached_property
    def expected(self) -> Expected:
        """By ``torch.nn.MultiheadAttention`` in float64, whose projections are packed in one ``in_proj_weight``."""
        truth = packed(self.x.double(), self.heads, {name: value.double() for name, value in self.state.items()})
        inner = self.inner()
        weight, bias = self.state["out_proj.weight"], self.state["out_proj.bias"]
        magnitude = float(weight.abs().sum(1).max()) * largest(inner.v.abs()) + largest(bias.abs())
        measured = largest_error(packed(self.x, self.heads, self.state), truth)
        bound = 2 * (2 * eps(self.x.dtype) * (1 + inner.logits) + 4 * eps(self.x.dtype)) * magnitude
        return Expected("output", truth, max(3 * measured, bound), self.x.dtype)

    def inner(self, names: tuple[str, str, str] = ("q_proj", "k_proj", "v_proj")) -> Attention:
        q, k, v = (split(project(self, name), self.heads) for name in names)
        return Attention(q, k, v, block_q=self.block_size, block_kv=self.block_size)

    def describe(self) -> Text:
        (b, n, c) = self.x.shape
        line = f"x [{b}, {n}, {c}] num_heads={self.heads}" + (
            f" block_size={self.block_size}" if self.block_size else ""
        )
        return say(line, line)


def packed(x: Tensor, heads: int, state: dict[str, Tensor]) -> Tensor:
    inputs = x.transpose(0, 1)  # the function wants the sequence first
    names = ("q_proj", "k_proj", "v_proj")
    out, _ = F.multi_head_attention_forward(
        inputs,
        inputs,
        inputs,
        x.shape[-1],
        heads,
        torch.cat([state[f"{name}.weight"] for name in names]),
        torch.cat([state[f"{name}.bias"] for name in names]),
        None,
        None,
        False,
        0.0,
        state["out_proj.weight"],
        state["out_proj.bias"],
        training=False,
        need_weights=False,
    )
    return out.transpose(0, 1)


def draw_module(rng: np.random.Generator, batch: int, length: int, heads: int, dim: int, block_size: int = 0) -> Module:
    """Weights large enough that softmax is far from uniform, biases far from 0, every projection different."""
    hidden = heads * dim
    state = {}
    for name in PARAMETERS:
        shape = (hidden, hidden) if name.endswith("weight") else (hidden,)
        state[name] = normal(rng, *shape, spread=1.3 / math.sqrt(hidden) if name.endswith("weight") else 0.5)
    return Module(normal(rng, batch, length, hidden), heads, state, block_size)


# the steps -------------------------------------------------------------------------------------------------------


def project(case: Module, name: str) -> Tensor:
    return F.linear(case.x, case.state[f"{name}.weight"], case.state[f"{name}.bias"])


def split(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def _viewed(x: Tensor, heads: int) -> Tensor:
    return x.reshape(x.shape[0], heads, x.shape[1], -1)


def _interleaved(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2)


def _whole(x: Tensor, heads: int) -> Tensor:
    return x[:, None]


def _merge_viewed(x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], x.shape[2], -1)


def _merge_interleaved(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).flatten(2)


def compute(
    case: Module,
    *,
    inputs: tuple[str, str, str] = ("q_proj", "k_proj", "v_proj"),
    split: Callable[[Tensor, int], Tensor] = split,
    merge: Callable[[Tensor], Tensor] = merge,
    project: Callable[[Module, str], Tensor] = project,
    inner: Changes | None = None,
    mask_mode: int = 0,
    finish: Callable[[Tensor, Module], Tensor] | None = None,
) -> dict[str, Tensor]:
    """The module with some of its steps replaced."""
    q, k, v = (split(project(case, name), case.heads) for name in inputs)
    out = merge(
        simulate(
            Attention(q, k, v, mask_mode=mask_mode, block_q=case.block_size, block_kv=case.block_size), inner or {}
        )["attn_out"]
    )
    if finish is not None:
        return {"output": finish(out, case)}
    return {"output": project(Module(out, case.heads, case.state), "out_proj")}


def _module(id: str, loose: float = 1.0, **changes: Any) -> Suspect:
    return Suspect(id, lambda case: compute(case, **changes), loose=loose)


def _finish(case: Module, out: Tensor) -> Tensor:
    return project(Module(out, case.heads, case.state), "out_proj")


def _without_bias(case: Module, name: str) -> Tensor:
    return F.linear(case.x, case.state[f"{name}.weight"])


def _untransposed(case: Module, name: str) -> Tensor:
    return case.x @ case.state[f"{name}.weight"] + case.state[f"{name}.bias"]


def _hidden_scale(case: Attention) -> float:
    return 1 / math.sqrt(case.q.shape[1] * case.q.shape[-1])


def _batch_as_sequence(case: Module) -> dict[str, Tensor]:
    turned = Module(case.x.transpose(0, 1), case.heads, case.state, case.block_size)
    return {"output": compute(turned)["output"].transpose(0, 1)}


@cache
def module_suspects() -> list[Suspect]:
    inner = [Suspect(id, _inner(changes), loose=2 * loose) for id, changes, loose in [*SCALE, *SOFTMAX]]
    return [
        *inner,
        _module("heads-split", split=_viewed),
        _module("heads-split", split=_interleaved),
        _module("heads-merge", merge=_merge_viewed),
        _module("heads-merge", merge=_merge_interleaved),
        _module("heads-split", split=_viewed, merge=_merge_viewed),
        _module("heads-split", split=_interleaved, merge=_merge_interleaved),
        _module("heads-not-split", split=_whole),
        _module("out-proj-missing", finish=lambda out, case: out),
        _module("projection-reused", inputs=("q_proj", "k_proj", "k_proj")),
        _module("projection-reused", inputs=("q_proj", "q_proj", "v_proj")),
        _module("projection-reused", inputs=("q_proj", "k_proj", "q_proj")),
        _module("projection-reused", inputs=("k_proj", "k_proj", "v_proj")),
        _module("projection-reused", inputs=("v_proj", "k_proj", "v_proj")),
        _module("projection-reused", inputs=("q_proj", "q_proj", "q_proj")),
        _module("projection-reused", inputs=("v_proj", "v_proj", "v_proj")),
        _module("projection-reused", inputs=("q_proj", "v_proj", "v_proj")),
        _module("projection-swapped", inputs=("k_proj", "q_proj", "v_proj")),
        _module("projection-swapped", inputs=("q_proj", "v_proj", "k_proj")),
        _module("projection-swapped", inputs=("v_proj", "k_proj", "q_proj")),
        _module("projection-skipped", project=lambda c, n: c.x if n == "q_proj" else project(c, n)),
        _module("projection-skipped", project=lambda c, n: c.x if n == "v_proj" else project(c, n)),
        _module("projection-skipped", project=lambda c, n: c.x if n != "out_proj" else project(c, n)),
        _module("bias-missing", project=_without_bias),
        _module("bias-missing", finish=lambda out, case: F.linear(out, case.state["out_proj.weight"])),
        _module("bias-missing", project=lambda c, n: project(c, n) if n == "out_proj" else _without_bias(c, n)),
        _module("weight-not-transposed", project=_untransposed),
        _module("residual-added", finish=lambda out, case: _finish(case, out) + case.x),
        _module("module-causal", mask_mode=3),
        _module("scale-wrong-size", inner={"scale": _hidden_scale}),
        Suspect("batch-as-sequence", _batch_as_sequence),
    ]


def _inner(changes: Changes) -> Callable[[Module], dict[str, Tensor]]:
    return lambda case: compute(case, inner=changes)


# what every such module is asked ---------------------------------------------------------------------------------


def require_parameters(ctx: Context, state: Any, hidden: int) -> None:
    missing = [name for name in PARAMETERS if name not in state]
    if missing:
        only_biases = all(name.endswith(".bias") for name in missing)
        ctx.fail(
            say("state_dict 里缺少 {missing}。", "The state_dict lacks {missing}.", missing=", ".join(missing)),
            misconception="bias-missing" if only_biases else "parameter-names",
            evidence={"got": sorted(state)[:20]},
        )
    for name in PARAMETERS:
        want = [hidden, hidden] if name.endswith("weight") else [hidden]
        if list(state[name].shape) != want:
            ctx.fail(
                say(
                    "{name} 的形状应是 {want}，得到 {got}。",
                    "{name} must have shape {want}, it has {got}.",
                    name=name,
                    want=want,
                    got=list(state[name].shape),
                ),
                misconception="projection-size",
                evidence={"shape": list(state[name].shape), "expected": want},
            )


def one_head(case: Module) -> Module:
    return Module(case.x, 1, case.state, case.block_size)


def require_value_error(ctx: Context, name: str, arguments: tuple[int, int]) -> None:
    try:
        ctx.subject.construct(name, *arguments)
    except Raised as error:
        if error.kind != "ValueError":
            ctx.fail(
                say(
                    "hidden_dim 不是 num_heads 的倍数时应抛出 ValueError，得到的是 {kind}。",
                    "When hidden_dim is not a multiple of num_heads it must raise ValueError, it raised {kind}.",
                    kind=error.kind,
                ),
                misconception="indivisible-exception",
                evidence={"got": error.kind},
                where=error.where,
            )
        return
    hidden, heads = arguments
    ctx.fail(
        say(
            "hidden_dim={hidden} 不是 num_heads={heads} 的倍数，应抛出 ValueError，却没有。",
            "hidden_dim={hidden} is not a multiple of num_heads={heads}: it must raise ValueError, it did not.",
            hidden=hidden,
            heads=heads,
        ),
        misconception="indivisible-accepted",
    )


def require_gradient(ctx: Context, outcome: Outcome) -> None:
    """The output of a module hangs on its parameters; what breaks the graph before the last projection goes unseen."""
    if any(outcome.differentiable):
        return
    ctx.fail(
        say(
            "输出不带梯度：反向传播到不了模块的参数。",
            "The output carries no gradient: backpropagation does not reach the module's parameters.",
        ),
        misconception="module-detached",
        evidence={"got": list(outcome.differentiable), "expected": [True]},
    )
