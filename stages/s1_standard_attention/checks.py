"""The checks of stage 1: softmax, attention, multi-head module, cost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.attention_ideas import CAUSAL, EMPTY_ROWS, HEADS, SCALE
from grader.cases import Attention, Shape, draw, normal
from grader.compare import Expected, distance
from grader.examine import Examination, all_right, only, repeatable, unchanged
from grader.formulas import check_number
from grader.modules import Module, draw_module, module_suspects, one_head, require_parameters, require_value_error
from grader.vocabulary import Context, check, say
from grader.wrong_attention import suspects

from . import cost_mistakes as cost
from .mistakes import Softmax, attention_suspects, softmax_suspects

# s1-softmax ------------------------------------------------------------------------------------------------------


def _call_softmax(ctx: Context, case: Softmax) -> Any:
    return ctx.subject.call("softmax", case.x, **({"dim": case.dim} if case.given else {})).value


def _softmax(make: Any, otherwise: str | None = None, control: Any = None, catch: tuple[str, ...] = (), **more: Any) -> Examination:
    return Examination(
        call=_call_softmax, make=make, expect=lambda case: {"softmax": case.expected}, suspects=softmax_suspects,
        otherwise=otherwise, control=control, catch=lambda: only(softmax_suspects(), *catch), **more,
    )  # fmt: skip


def _soft(ctx: Context, case: Softmax) -> bool:
    """The same call on moderate inputs is right."""
    small = Softmax(case.x.clamp(-5, 5), case.dim, case.given)
    return all_right(_call_softmax(ctx, small), {"softmax": small.expected})


@check("s1-softmax.values", points=4, concept="softmax")
def softmax_values(ctx: Context) -> None:
    shapes = ((5, 7), (3, 11))
    _softmax(lambda rng, n: Softmax(normal(rng, *shapes[n], spread=2.0), given=False), catch=("not-normalised",)).run(ctx)


@check("s1-softmax.dim", points=4, concept="softmax-axis", needs=("s1-softmax.values",))
def softmax_dim(ctx: Context) -> None:
    for dim in (1, -3, 2, 0, -2):
        shapes = ((4, 5, 6), (3, 6, 5))
        _softmax(
            lambda rng, n, dim=dim: Softmax(normal(rng, *shapes[n], spread=2.0), dim), otherwise="softmax-dim",
            control=lambda ctx, case: all_right(_call_softmax(ctx, Softmax(case.x)), {"softmax": Softmax(case.x).expected}),
        ).run(ctx)  # fmt: skip


def _raised(level: float) -> Any:
    def make(rng: np.random.Generator, n: int) -> Softmax:
        return Softmax(level + normal(rng, *((6, 9), (5, 12))[n], spread=3.0))

    return make


@check("s1-softmax.stable", points=4, concept="stability", needs=("s1-softmax.values",))
def softmax_stable(ctx: Context) -> None:
    """All entries near 1000, near -1000, rows of very different size, single entries far from their row."""
    before: list[Any] = []
    for make in (_raised(1000.0), _raised(-1000.0), _levels, _spikes):
        _softmax(make, otherwise="unstable-softmax", control=_soft, known=tuple(before)).run(ctx)
        before.append(make)


def _levels(rng: np.random.Generator, n: int) -> Softmax:
    """Rows of very different size: one maximum for all of them underflows most."""
    rows = 4 + n
    levels = torch.tensor([-900.0, -300.0, 0.0, 400.0, 800.0][:rows])[:, None]
    return Softmax(normal(rng, rows, 8 + n, spread=3.0) + levels)


def _spikes(rng: np.random.Generator, n: int) -> Softmax:
    """One entry of each row is far above the rest, or far below."""
    x = normal(rng, 6, 10 + n, spread=3.0)
    x[::2, 3] += 300.0
    x[1::2, 5] -= 300.0
    return Softmax(x)


@check("s1-softmax.masked", points=2, concept="stability", needs=("s1-softmax.values",))
def softmax_masked(ctx: Context) -> None:
    def make(rng: np.random.Generator, n: int) -> Softmax:
        x = normal(rng, 6, 9 + n, spread=2.0)
        return Softmax(x.masked_fill(torch.arange(9 + n) >= torch.arange(2, 8)[:, None], -math.inf))

    _softmax(make, otherwise="softmax-infinity", control=_soft).run(ctx)


@check("s1-softmax.inputs", points=1, concept="inputs", needs=("s1-softmax.values",))
def softmax_inputs(ctx: Context) -> None:
    """x stays as it was; float64 in gives float64 out, to float64 accuracy."""
    unchanged(ctx, ctx.subject.call("softmax", normal(ctx.rng(), 4, 6), dim=0).changed, ("x",))
    _softmax(
        lambda rng, n: Softmax(normal(rng, 5, 7 + n, dtype=torch.float64)), otherwise="float64-lost", dtypes={torch.float32: "float64-lost"},
        control=lambda ctx, case: all_right(_call_softmax(ctx, Softmax(case.x.float())), {"softmax": Softmax(case.x.float()).expected}),
    ).run(ctx)  # fmt: skip


# s1-attention ----------------------------------------------------------------------------------------------------


def _call(ctx: Context, case: Attention) -> Any:
    return ctx.subject.call("scaled_dot_product_attention", case.q, case.k, case.v, **_keywords(case)).value


def _keywords(case: Attention) -> dict[str, Any]:
    keywords: dict[str, Any] = {}
    if case.scale is not None:
        keywords["scale"] = case.scale
    if case.mask_mode == 3:
        keywords["causal"] = True
    return keywords


def _expect(case: Attention) -> dict[str, Expected]:
    return {"attn_out": case.expected}


def _attention(make: Any, otherwise: str | None = None, control: Any = None, catch: Any = tuple, **more: Any) -> Examination:
    return Examination(
        call=_call, make=make, expect=_expect, suspects=attention_suspects, otherwise=otherwise, control=control, catch=catch,
        shapes=_shapes, **more,
    )  # fmt: skip


def _shapes(case: Attention) -> dict[str, dict[tuple[int, ...], str]]:
    b, n, s1, _ = case.q.shape
    return {"attn_out": {(b, s1, n, case.v.shape[-1]): "layout-transposed"}}


def _square(rng: np.random.Generator, n: int) -> Attention:
    return _plain(rng, (Shape(2, 3, seq_q=10, dim=8), Shape(3, 2, seq_q=13, dim=6))[n])


def _causal(rng: np.random.Generator, n: int) -> Attention:
    return _plain(rng, (Shape(2, 2, seq_q=11, dim=8), Shape(1, 3, seq_q=14, dim=6))[n], mask_mode=3)


def _offset(rng: np.random.Generator, n: int) -> Attention:
    return _plain(rng, (Shape(1, 2, seq_q=7, seq_kv=12, dim=8), Shape(2, 2, seq_q=9, seq_kv=11, dim=6))[n], mask_mode=3)


def _right(ctx: Context, case: Attention) -> bool:
    return all_right(_call(ctx, case), _expect(case))


def _plain(rng: np.random.Generator, shape: Shape, **fields: Any) -> Attention:
    return draw(rng, shape, block_q=0, block_kv=0, **fields)


VALUES = "s1-attention.values"


@check(VALUES, points=8, concept="attention")
def attention_values(ctx: Context) -> None:
    _attention(
        _square, catch=lambda: only(attention_suspects(), "scale-missing", "softmax-over-queries"),
    ).run(ctx)  # fmt: skip
    _attention(lambda rng, n: _square(rng, 1 - n)).run(ctx)


@check("s1-attention.scale", points=4, concept="scale", needs=(VALUES,))
def attention_scale(ctx: Context) -> None:
    scales = (0.61, 0.23)
    _attention(
        lambda rng, n: _plain(rng, Shape(1, 2, seq_q=9 + n, dim=8 - 3 * n), scale=scales[n]), otherwise="scale-ignored", known=(_square,),
        control=lambda ctx, case: _right(ctx, case.but(scale=None)),
        catch=lambda: only(suspects(SCALE), "scale-ignored", "scale-combined", "scale-inverted"),
    ).run(ctx)  # fmt: skip


@check("s1-attention.rectangular", points=4, concept="shapes", needs=(VALUES,))
def attention_rectangular(ctx: Context) -> None:
    """S1 != S2 both ways, D != Dv, lengths of 1."""
    for shape in (Shape(2, 2, seq_q=7, seq_kv=11, dim=6, value_dim=9), Shape(1, 3, seq_q=12, seq_kv=5, dim=8, value_dim=3),
                  Shape(2, 1, seq_q=1, seq_kv=6, dim=4, value_dim=5), Shape(1, 2, seq_q=4, seq_kv=1, dim=5, value_dim=7)):  # fmt: skip
        square = Shape(shape.batch, shape.heads, seq_q=shape.seq_kv, dim=shape.dim)
        _attention(
            lambda rng, n, shape=shape: _plain(rng, shape), otherwise="shapes-assumed-equal", known=(_square,),
            control=lambda ctx, case, square=square: _right(ctx, _plain(ctx.rng("square"), square)),
        ).run(ctx)  # fmt: skip


@check("s1-attention.stable", points=5, concept="stability", needs=(VALUES,))
def attention_stable(ctx: Context) -> None:
    """Logits around +300, around -300, and rows whose logits differ by hundreds."""
    for level in (1.0, -1.0):
        _attention(
            lambda rng, n, level=level: large_logits(rng, n, level), otherwise="unstable-softmax", known=(_square,),
            control=lambda ctx, case: _right(ctx, case.but(q=case.q / 100)),
        ).run(ctx)  # fmt: skip
    _attention(
        mixed_logits, otherwise="unstable-softmax", known=(_square,), control=lambda ctx, case: _right(ctx, case.but(q=case.q / 100)),
    ).run(ctx)  # fmt: skip


def large_logits(rng: np.random.Generator, n: int, sign: float) -> Attention:
    """Every logit of a row lies near ``sign`` * 300 and still they differ by a few."""
    case = _plain(rng, Shape(1, 2, seq_q=9 + n, dim=8 - 2 * n))
    d = case.q.shape[-1]
    k = case.k / 1.6 * 0.1
    k[..., 0] = sign * 20.0
    q = case.q.clone() * 6
    q[..., 0] = 15.0 * math.sqrt(d)
    return case.but(q=q, k=k)


def mixed_logits(rng: np.random.Generator, n: int) -> Attention:
    """Rows near -300, 0 and +300 in one matrix."""
    case = large_logits(rng, n, 1.0)
    q = case.q.clone()
    q[..., 0] *= torch.linspace(-1, 1, q.shape[2])
    return case.but(q=q)


@check("s1-attention.causal", points=6, concept="causal", needs=(VALUES,))
def attention_causal(ctx: Context) -> None:
    _attention(
        _causal, otherwise="causal-mask", known=(_square,),
        control=lambda ctx, case: _right(ctx, case.but(mask_mode=0)),
        catch=lambda: only(suspects(CAUSAL), "causal-ignored", "causal-strict", "causal-one-ahead", "causal-fill"),
    ).run(ctx)  # fmt: skip


CAUSAL_CHECK = "s1-attention.causal"


@check("s1-attention.causal-offset", points=4, concept="causal-alignment", needs=(VALUES, CAUSAL_CHECK))
def attention_causal_offset(ctx: Context) -> None:
    """S1 < S2: the last query sees every key."""
    _attention(
        _offset, otherwise="causal-alignment", known=(_square, _causal),
        control=lambda ctx, case: _right(ctx, case.but(mask_mode=0)),
        catch=lambda: only(suspects(CAUSAL), "causal-top-left", "causal-offset-sign"),
    ).run(ctx)  # fmt: skip


@check("s1-attention.empty-rows", points=3, concept="empty-rows", needs=(VALUES, CAUSAL_CHECK, "s1-attention.causal-offset"))
def attention_empty_rows(ctx: Context) -> None:
    """S1 > S2 with a causal mask: the first S1 - S2 queries see no key and give 0."""
    shapes = (Shape(1, 2, seq_q=11, seq_kv=7, dim=8), Shape(2, 1, seq_q=12, seq_kv=9, dim=6))

    def control(ctx: Context, case: Attention) -> bool:
        """The rows that see a key are right."""
        got = _call(ctx, case)
        start = case.q.shape[2] - case.k.shape[2]
        return isinstance(got, Tensor) and distance(got[:, :, start:], case.truth[0][:, :, start:]) <= case.expected.tol

    _attention(
        lambda rng, n: _plain(rng, shapes[n], mask_mode=3), otherwise="empty-row", control=control, known=(_square, _causal, _offset),
        catch=lambda: only(suspects(EMPTY_ROWS), "empty-row-nan", "empty-row-average"),
    ).run(ctx)  # fmt: skip


@check("s1-attention.gqa", points=4, concept="gqa", needs=(VALUES,))
def attention_gqa(ctx: Context) -> None:
    shapes = (Shape(2, 6, 2, seq_q=8, dim=8), Shape(1, 8, 4, seq_q=9, dim=6))
    _attention(
        lambda rng, n: _plain(rng, shapes[n]), otherwise="gqa-mapping",
        control=lambda ctx, case: _right(ctx, case.but(k=each(case.k, case.group), v=each(case.v, case.group))),
        catch=lambda: only(suspects(HEADS), "gqa-interleaved", "gqa-one-head"),
    ).run(ctx)  # fmt: skip


def each(x: Tensor, group: int) -> Tensor:
    return x.repeat_interleave(group, dim=1)


@check("s1-attention.inputs", points=2, concept="inputs", needs=(VALUES,))
def attention_inputs(ctx: Context) -> None:
    """Strided and shared inputs are read right and left alone, and a second call gives the same."""
    _attention(
        lambda rng, n: strided(_plain(rng, Shape(2, 3, seq_q=8 + n, dim=6))), otherwise="assumes-contiguous", known=(_square,),
        control=lambda ctx, case: _right(ctx, case.but(q=case.q.contiguous(), k=case.k.contiguous(), v=case.v.contiguous())),
    ).run(ctx)  # fmt: skip
    case = _plain(ctx.rng("shared"), Shape(1, 2, seq_q=9, dim=6), mask_mode=3)
    unchanged(ctx, ctx.subject.call("scaled_dot_product_attention", case.q, case.k, case.v, **_keywords(case)).changed, "qkv")
    _attention(
        lambda rng, n: shared(_plain(rng, Shape(1, 2, seq_q=9 + n, dim=6))), otherwise="input-modified", known=(_square,),
        control=lambda ctx, case: _right(ctx, case.but(q=case.q.clone(), k=case.k.clone(), v=case.v.clone())),
    ).run(ctx)  # fmt: skip


def strided(case: Attention) -> Attention:
    """The same values, stored as [B, S, N, D]."""
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (case.q, case.k, case.v))
    return case.but(q=q, k=k, v=v)


def shared(case: Attention) -> Attention:
    """q, k and v are one tensor, as in self-attention without projections."""
    return case.but(k=case.q, v=case.q)


# s1-module -------------------------------------------------------------------------------------------------------

MODULE = "StandardAttention"


@check("s1-module.parameters", points=0, concept="module")
def module_parameters(ctx: Context) -> None:
    """The four projections exist under their names, with weights and biases of the right shapes."""
    require_parameters(ctx, ctx.subject.state(ctx.subject.construct(MODULE, 12, 3)), 12)


def _call_module(ctx: Context, case: Module) -> Any:
    handle = ctx.subject.construct(MODULE, case.hidden, case.heads)
    ctx.subject.load_state(handle, {**ctx.subject.state(handle), **case.state})
    return ctx.subject.forward(handle, case.x).value


def _module(make: Any, **more: Any) -> Examination:
    return Examination(
        call=_call_module, make=make, expect=lambda case: {"output": case.expected}, suspects=module_suspects, **more
    )


@check("s1-module.values", points=12, concept="module", needs=("s1-module.parameters",))
def module_values(ctx: Context) -> None:
    """One head, so that nothing but the projections and attention itself can be wrong."""
    sizes = ((2, 7, 1, 8), (3, 5, 1, 6))
    _module(
        lambda rng, n: draw_module(rng, *sizes[n]),
        catch=lambda: only(module_suspects(), "scale-missing", "out-proj-missing", "bias-missing", "projection-swapped"),
    ).run(ctx)  # fmt: skip


@check("s1-module.heads", points=10, concept="heads", needs=("s1-module.values",))
def module_heads(ctx: Context) -> None:
    """Several heads, against torch.nn.MultiheadAttention with the same weights."""
    sizes = ((2, 6, 4, 3), (3, 5, 2, 4))
    _module(
        lambda rng, n: draw_module(rng, *sizes[n]), otherwise="heads-handling",
        control=lambda ctx, case: all_right(_call_module(ctx, one_head(case)), {"output": one_head(case).expected}),
        catch=lambda: only(module_suspects(), "heads-split", "heads-merge", "heads-not-split"),
    ).run(ctx)  # fmt: skip


@check("s1-module.shape", points=3, concept="module", needs=("s1-module.values",))
def module_shape(ctx: Context) -> None:
    """The shapes of the course text: 768 wide, 12 heads, [2, 128, 768] in and out."""
    handle = ctx.subject.construct(MODULE, 768, 12)
    got = ctx.subject.forward(handle, normal(ctx.rng(), 2, 128, 768)).value
    if not isinstance(got, Tensor) or list(got.shape) != [2, 128, 768]:
        shape = list(got.shape) if isinstance(got, Tensor) else type(got).__name__
        ctx.fail(
            say("输出形状应是 [2, 128, 768]，得到 {shape}。", "The output must be [2, 128, 768], it is {shape}.", shape=shape),
            evidence={"shape": shape, "expected": [2, 128, 768]},
        )
    if not bool(got.isfinite().all()):
        ctx.fail(say("输出里有 NaN 或无穷大。", "The output holds NaN or infinity."), misconception="unstable-softmax")


@check("s1-module.indivisible", points=3, concept="heads", needs=("s1-module.parameters", "s1-module.values"))
def module_indivisible(ctx: Context) -> None:
    require_value_error(ctx, MODULE, (10, 3))


@check("s1-module.repeat", points=2, concept="repeatable", needs=("s1-module.values",))
def module_repeat(ctx: Context) -> None:
    """Another length and batch after the first, and the first again: nothing may be remembered, nothing is random."""
    a, b = draw_module(ctx.rng("a"), 2, 6, 2, 4), draw_module(ctx.rng("b"), 1, 9, 2, 4)
    handle = ctx.subject.construct(MODULE, a.hidden, a.heads)
    repeatable(ctx, lambda ctx, case: ctx.subject.forward(handle, case.x).value, [a, b])


# s1-cost ---------------------------------------------------------------------------------------------------------


def _arguments(ctx: Context, n: int) -> dict[str, int]:
    """Six numbers that all differ, so that no two formulas agree by chance."""
    rng = ctx.rng(n)
    batch, heads, head_dim = (int(x) for x in rng.choice([3, 5, 7, 11, 13], 3, replace=False))
    seq_q, seq_kv = (int(x) for x in rng.choice([101, 127, 151, 173, 199, 211], 2, replace=False))
    return {
        "batch": batch, "num_heads": heads, "seq_q": seq_q, "seq_kv": seq_kv, "head_dim": head_dim * 8,
        "bytes_per_element": 2 if n % 2 else 4,
    }  # fmt: skip


@check("s1-cost.flops", points=5, concept="flops")
def cost_flops(ctx: Context) -> None:
    check_number(ctx, "attention_cost", "flops", cost.FLOPS, cost.WRONG_FLOPS, lambda n: _arguments(ctx, n))


@check("s1-cost.hbm-bytes", points=6, concept="memory-traffic")
def cost_hbm_bytes(ctx: Context) -> None:
    check_number(ctx, "attention_cost", "hbm_bytes", cost.HBM_BYTES, cost.WRONG_HBM_BYTES, lambda n: _arguments(ctx, n))


@check("s1-cost.score-bytes", points=4, concept="quadratic-memory")
def cost_score_bytes(ctx: Context) -> None:
    check_number(ctx, "attention_cost", "score_bytes", cost.SCORE_BYTES, cost.WRONG_SCORE_BYTES, lambda n: _arguments(ctx, n))
