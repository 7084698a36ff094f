"""Checks of s2-backward and s2-function. ``values`` and ``memory`` gate the rest of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.cases import Attention, Shape, draw, normal
from grader.compare import Expected, describe, evidence_of, largest, require_like, require_tensors, returned, right
from grader.diagnose import Suspect
from grader.examine import Examination, all_right, only, repeatable, unchanged
from grader.memory import require_linear
from grader.subject import Outcome, Raised
from grader.vocabulary import Context, check, say

from . import backward_cases as back
from . import forward_cases as cases
from .backward_cases import NAMES, backward_suspects, with_dout
from .checks_forward import CAUSAL_KNOWN, require_tiles

FUNCTION = "flash_attention_backward"
VALUES, MEMORY, REPEAT = "s2-backward.values", "s2-backward.memory", "s2-backward.repeat"
ARGUMENTS = ("q", "k", "v", "dout", "attn_out", "softmax_lse")

Make = Callable[[np.random.Generator, int], Attention]
Control = Callable[[Context, Attention], bool]


def call(ctx: Context, case: Attention) -> Any:
    return ctx.subject.call(FUNCTION, *back.inputs(case), **case.options()).value


def shapes(case: Attention) -> dict[str, dict[tuple[int, ...], str]]:
    """dk or dv with one head per query head: the sum over the group is missing."""
    (b, n1, _, d), s2, dv = case.q.shape, case.k.shape[2], case.v.shape[-1]
    if case.group == 1:
        return {}
    return {"dk": {(b, n1, s2, d): "gqa-gradient-not-summed"}, "dv": {(b, n1, s2, dv): "gqa-gradient-not-summed"}}


def upstream(make: Make) -> Make:
    return lambda rng, n: with_dout(rng, make(rng, n))


def backward(make: Make, otherwise: str | None = None, control: Control | None = None, catch: Sequence[Suspect] = (),
             known: Sequence[Make] = (cases.even,), **more: Any) -> Examination:  # fmt: skip
    return Examination(
        call=call, make=upstream(make), expect=back.expected, suspects=backward_suspects, otherwise=otherwise, control=control,
        catch=lambda: catch, known=[upstream(make) for make in known], shapes=shapes, **more,
    )  # fmt: skip


def is_right(ctx: Context, case: Attention) -> bool:
    if case.dout is None or case.dout.shape[:3] != case.q.shape[:3] or case.dout.shape[-1] != case.v.shape[-1]:
        case = with_dout(ctx.rng("control dout"), case)
    return all_right(call(ctx, case), back.expected(case))


def without_mask(ctx: Context, case: Attention) -> bool:
    return is_right(ctx, case.but(mask_mode=0))


@check(VALUES, points=0, concept="gradients")
def backward_values(ctx: Context) -> None:
    """No mask, whole tiles, one kv head per query head, a random upstream gradient. Worth nothing without O(N) memory."""
    catch = only(backward_suspects(), "d-term-missing", "scale-missing-dq", "scale-missing-dk", "scale-in-dv", "gradient-overwritten")
    backward(cases.even, catch=catch, known=()).run(ctx)


@check(MEMORY, points=5, concept="linear-memory", needs=(VALUES,))
def backward_memory(ctx: Context) -> None:
    """N = 2048, where P and dP take 17 MB each; the right values too, so that what ran is what was measured."""
    case = with_dout(ctx.rng("dout"), cases.one_head(ctx.rng(), 2048, 256, dim=8))
    forward = forward_by_rows(case)
    arguments = (case.q, case.k, case.v, case.dout, *forward)
    outcome = ctx.subject.call(FUNCTION, *arguments, memory=True, **case.options())
    require_gradients(ctx, case, forward, require_tensors(ctx, outcome.value, NAMES))
    require_linear(ctx, outcome, 2048)


def forward_by_rows(case: Attention) -> tuple[Tensor, Tensor]:
    """attn_out and softmax_lse in float32, some rows at a time."""
    outs, lses = [], []
    for q in (case.q * case.factor).split(256, dim=2):
        scores = q @ case.k.mT
        lses.append(scores.logsumexp(-1))
        outs.append((scores - lses[-1][..., None]).exp_() @ case.v)
    return torch.cat(outs, dim=2), torch.cat(lses, dim=2)


def require_gradients(ctx: Context, case: Attention, forward: tuple[Tensor, Tensor], got: tuple[Tensor, ...]) -> None:
    """dq of some rows, dk and dv of some keys, of a long case without mask."""
    for name, tensor, like in zip(NAMES, got, (case.q, case.k, case.v), strict=True):
        require_like(ctx, tensor, Expected(name, like, 0.0, like.dtype), case=case.describe())
    places = torch.from_numpy(np.sort(ctx.rng("places").choice(case.q.shape[2], 16, replace=False)))
    wanted = (back.of_rows(case, places), *back.of_keys(case, *forward, places))
    for tensor, expected in zip(got, wanted, strict=True):
        some = tensor[:, :, places]
        if not right(some, expected):
            ctx.fail(describe(some, expected), evidence=evidence_of(some, expected, case.describe()))


@check(REPEAT, points=0.5, concept="repeatable", needs=(VALUES, MEMORY))
def backward_repeat(ctx: Context) -> None:
    """Nothing is kept between calls. Comes early: a state would make every other finding doubtful."""
    drawn = [with_dout(ctx.rng(f"dout {n}"), cases.odd_one(ctx.rng(n), n)) for n in range(3)]
    repeatable(ctx, call, [drawn[1], drawn[0], drawn[2]])
    repeatable(ctx, call, [drawn[0], drawn[2], drawn[1]])


def needs(*others: str) -> tuple[str, ...]:
    return (VALUES, MEMORY, REPEAT, *(f"s2-backward.{name}" for name in others))


@check("s2-backward.scale", points=1, concept="scale", needs=needs())
def backward_scale(ctx: Context) -> None:
    make: Make = lambda rng, n: draw(rng, Shape(1, 2, seq_q=32, dim=8 - 2 * n), scale=(0.62, 0.21)[n], block_q=16, block_kv=16)
    backward(make, "scale-ignored", lambda ctx, case: is_right(ctx, case.but(scale=None))).run(ctx)


@check("s2-backward.tails", points=2, concept="tail-tiles", needs=needs())
def backward_tails(ctx: Context) -> None:
    """Short tiles at the end, length 1, blocks larger than the sequence."""
    control: Control = lambda ctx, case: is_right(ctx, cases.even(ctx.rng("control"), 0))
    for first in (0, 1):
        backward(lambda rng, n, first=first: cases.tails(rng, n ^ first), "tail-tiles", control).run(ctx)
    for shape, block in ((Shape(1, 2, seq_q=1, dim=8), 16), (Shape(1, 2, seq_q=9, seq_kv=7, dim=4), 128)):
        backward(lambda rng, n, shape=shape, block=block: draw(rng, shape, block_q=block, block_kv=block), "small-lengths", control).run(ctx)


@check("s2-backward.rectangular", points=1.5, concept="shapes", needs=needs())
def backward_rectangular(ctx: Context) -> None:
    control: Control = lambda ctx, case: is_right(ctx, cases.square(case).but(dout=None))
    for first in (0, 1):
        backward(lambda rng, n, first=first: cases.rectangular(rng, n ^ first), "lengths-assumed-equal", control).run(ctx)


@check("s2-backward.gqa", points=2.5, concept="gqa", needs=needs())
def backward_gqa(ctx: Context) -> None:
    """dk and dv of a kv head add up what its whole group of query heads gives."""
    catch = only(backward_suspects(), "gqa-gradient-not-summed", "gqa-gradient-mean", "gqa-interleaved")
    backward(cases.gqa, "gqa-mapping", lambda ctx, case: is_right(ctx, cases.ungrouped(case)), catch, known=()).run(ctx)


@check("s2-backward.causal", points=1.5, concept="causal", needs=needs())
def backward_causal(ctx: Context) -> None:
    catch = only(backward_suspects(), "causal-ignored", "causal-strict", "causal-local-index")
    backward(cases.causal, "causal-mask", without_mask, catch).run(ctx)
    backward(lambda rng, n: cases.causal(rng, 1 - n), "causal-mask", without_mask).run(ctx)


@check("s2-backward.causal-offset", points=1, concept="causal-alignment", needs=needs("tails", "rectangular", "causal"))
def backward_causal_offset(ctx: Context) -> None:
    catch = only(backward_suspects(), "causal-top-left", "causal-offset-sign")
    backward(cases.causal_offset, "causal-alignment", without_mask, catch, CAUSAL_KNOWN).run(ctx)


@check("s2-backward.empty-rows", points=1.5, concept="empty-rows", needs=needs("tails", "rectangular", "causal", "causal-offset"))
def backward_empty_rows(ctx: Context) -> None:
    """Rows that see no key (lse = +inf) give dq = 0 and add nothing to dk and dv."""
    backward(cases.empty_rows, "empty-row-gradients", without_mask, known=(*CAUSAL_KNOWN, cases.causal_offset)).run(ctx)


@check("s2-backward.window", points=1, concept="window", needs=needs("tails", "rectangular", "causal"))
def backward_window(ctx: Context) -> None:
    backward(cases.window, "window-mask", without_mask).run(ctx)
    for sides in ((6, 9), (-1, 7), (13, -1)):
        other = (5, 12) if min(sides) >= 0 else tuple(max(-1, side - 2) for side in sides)
        backward(lambda rng, n, pair=(sides, other): cases.window(rng, n, pair[n]), "window-mask", without_mask).run(ctx)
    backward(cases.window_offset, "window-alignment", without_mask, known=(cases.even, cases.window)).run(ctx)


@check("s2-backward.half", points=1, concept="half-precision", needs=needs("rectangular"))
def backward_half(ctx: Context) -> None:
    """Gradients in the dtypes of q, k, v; sums in float32, also over many tiles."""
    wrong = {torch.float32: "half-output-dtype", torch.float64: "half-output-dtype"}
    in_float32: Control = lambda ctx, case: is_right(
        ctx, case.but(q=case.q.float(), k=case.k.float(), v=case.v.float(), dout=case.dout.float() if case.dout is not None else None))
    for dtype in (torch.float16, torch.bfloat16):
        make: Make = lambda rng, n, dtype=dtype: draw(rng, Shape(1, 2, seq_q=32, dim=8), dtype=dtype, block_q=16, block_kv=16)
        backward(make, "half-precision", in_float32, dtypes=wrong).run(ctx)
    Examination(
        call=call, make=cases.cancelling_gradients, expect=back.expected, otherwise="half-accumulators", control=in_float32,
    ).run(ctx)  # fmt: skip


@check("s2-backward.value-dim", points=0.5, concept="shapes", needs=needs())
def backward_value_dim(ctx: Context) -> None:
    make: Make = lambda rng, n: draw(rng, Shape(1, 2, seq_q=32, dim=(8, 5)[n], value_dim=(5, 8)[n]), block_q=16, block_kv=16)
    control: Control = lambda ctx, case: is_right(ctx, case.but(v=case.k, dout=None))
    backward(make, "value-dim-assumed", control).run(ctx)
    backward(lambda rng, n: make(rng, 1 - n), "value-dim-assumed", control).run(ctx)


@check("s2-backward.inputs", points=0.5, concept="inputs", needs=needs())
def backward_inputs(ctx: Context) -> None:
    """Strided inputs are read right, and none of the six is changed."""
    case = with_dout(ctx.rng("dout"), cases.even(ctx.rng(), 0))
    unchanged(ctx, ctx.subject.call(FUNCTION, *back.inputs(case), **case.options()).changed, ARGUMENTS)
    backward(lambda rng, n: cases.strided(cases.even(rng, n)), "assumes-contiguous",
             lambda ctx, case: is_right(ctx, cases.contiguous(case))).run(ctx)  # fmt: skip


@check("s2-backward.hidden-tiles", points=0.5, concept="hidden-tiles", needs=needs("causal"))
def backward_hidden_tiles(ctx: Context) -> None:
    """Five products per visible tile, none for a hidden one: observed with a causal mask."""
    case = with_dout(ctx.rng("dout"), cases.one_head(ctx.rng(), 256, 32, dim=4, mask_mode=3))
    trace = ctx.subject.call(FUNCTION, *back.inputs(case), observe=True, **case.options()).trace
    if trace is None:
        raise RuntimeError("the subject observed nothing")
    require_tiles(ctx, case, trace.flops, 0.5, 1.3, "tiles-unseen", "hidden-tiles-computed", products=5)


# s2-function -----------------------------------------------------------------------------------------------------

APPLY = "FlashAttentionFunction"
OUTPUTS = ("attn_out", "softmax_lse")
APPLY_VALUES, APPLY_MEMORY = "s2-function.values", "s2-function.memory"


def arguments(case: Attention) -> tuple[Any, ...]:
    """The positional arguments of ``apply``."""
    return (case.q, case.k, case.v, case.scale, case.mask_mode, case.win_left, case.win_right, case.block_q, case.block_kv)


def differentiate(ctx: Context, case: Attention, wrt: Sequence[int] = (0, 1, 2), memory: bool = False) -> Outcome:
    """apply, then the gradients of attn_out for the case's upstream gradient."""
    try:
        return ctx.subject.backward(APPLY, arguments(case), (case.dout, None), wrt, memory=memory)
    except Raised as error:
        if "incorrect number of gradients" in error.text:
            error.misconception = "function-gradient-count"
        elif "does not require grad" in error.text:
            error.misconception = "function-not-differentiable"
        raise


def call_apply(ctx: Context, case: Attention) -> Any:
    """(attn_out, softmax_lse, dq, dk, dv)."""
    outputs, gradients = differentiate(ctx, case).value
    out, lse = require_tensors(ctx, outputs, OUTPUTS)
    if not isinstance(gradients, (tuple, list)) or not all(isinstance(g, Tensor) for g in gradients):
        ctx.fail(
            say("q、k、v 都需要梯度，backward 给出的是 {got}。", "q, k and v all need a gradient, backward gave {got}.",
                got=returned(gradients)),
            misconception="function-gradient-missing", evidence={"got": returned(gradients)},
        )
    return (out, lse, *gradients)


def expect_apply(case: Attention) -> dict[str, Expected]:
    return {"attn_out": case.expected, **back.expected(case)}


def apply_suspects() -> list[Suspect]:
    """Wrong backward passes behind a right forward pass."""
    return [Suspect(s.id, _with_output(s.values), s.also, s.loose) for s in backward_suspects()]


def _with_output(values: Callable[[Attention], Any]) -> Callable[[Attention], dict[str, Tensor]]:
    return lambda case: {"attn_out": case.truth[0], **values(case)}


def applied(make: Make, otherwise: str | None = None, control: Control | None = None,
            suspects: Callable[[], Sequence[Suspect]] = tuple) -> Examination:  # fmt: skip
    return Examination(
        call=call_apply, make=upstream(make), expect=expect_apply, suspects=suspects, otherwise=otherwise, control=control,
        names=("attn_out", "softmax_lse", *NAMES), shapes=shapes,
    )  # fmt: skip


def applies(ctx: Context, case: Attention) -> bool:
    if case.dout is None or case.dout.shape[:3] != case.q.shape[:3]:
        case = with_dout(ctx.rng("control dout"), case)
    return all_right(call_apply(ctx, case), expect_apply(case), ("attn_out", "softmax_lse", *NAMES))


@check(APPLY_VALUES, points=0, concept="autograd")
def function_values(ctx: Context) -> None:
    """apply gives attn_out, and its gradients are those of the formulas. Worth nothing without O(N) memory."""
    applied(cases.even, suspects=apply_suspects).run(ctx)
    drawn = [with_dout(ctx.rng(f"dout {n}"), cases.even(ctx.rng(n), 0)) for n in (0, 2)]
    repeatable(ctx, call_apply, drawn)
    if not applies(ctx, drawn[0]):  # the same shapes as before, other inputs
        ctx.fail(
            say("换一组同样形状的输入再调用，结果就不对了。", "Called again with other inputs of the same shape, the result is wrong."),
            misconception="state-between-calls", evidence={"case": str(drawn[0].describe())},
        )


@check(APPLY_MEMORY, points=2.5, concept="linear-memory", needs=(APPLY_VALUES,))
def function_memory(ctx: Context) -> None:
    """N = 2048, forward and backward: no N x N matrix is computed or saved."""
    case = with_dout(ctx.rng("dout"), cases.one_head(ctx.rng(), 2048, 256, dim=8))
    outcome = differentiate(ctx, case, memory=True)
    require_gradients(ctx, case, forward_by_rows(case), require_tensors(ctx, outcome.value[1], NAMES))
    require_linear(ctx, outcome, 2048)


@check("s2-function.options", points=1, concept="autograd", needs=(APPLY_VALUES, APPLY_MEMORY))
def function_options(ctx: Context) -> None:
    """scale, masks and block sizes reach both passes; GQA, tails and S1 != S2 as well."""
    plain: Control = lambda ctx, case: applies(ctx, case.but(scale=None, mask_mode=0))
    makes: list[Make] = [
        lambda rng, n: draw(rng, Shape(1, 2, seq_q=32, dim=8 - 2 * n), scale=0.3, block_q=16, block_kv=16),
        cases.causal,
        cases.window,
    ]
    for make in makes:
        applied(make, "function-options-lost", plain).run(ctx)
    applied(cases.gqa, "gqa-mapping", lambda ctx, case: applies(ctx, cases.ungrouped(case)), apply_suspects).run(ctx)


@check("s2-function.lse", points=0.5, concept="autograd", needs=(APPLY_VALUES, APPLY_MEMORY))
def function_lse(ctx: Context) -> None:
    """softmax_lse comes back right and is marked non-differentiable."""
    case = with_dout(ctx.rng("dout"), cases.even(ctx.rng(), 0))
    outcome = differentiate(ctx, case)
    _, lse = require_tensors(ctx, outcome.value[0], OUTPUTS)
    require_like(ctx, lse, case.expected_lse)
    if not right(lse, case.expected_lse):
        ctx.fail(describe(lse, case.expected_lse), misconception="lse-value", evidence=evidence_of(lse, case.expected_lse))
    if tuple(outcome.differentiable) != (True, False):
        ctx.fail(
            say("attn_out 应可求导，softmax_lse 应标记为不可求导；得到 {got}。",
                "attn_out must be differentiable and softmax_lse marked as not; found {got}.", got=list(outcome.differentiable)),
            misconception="lse-differentiable" if tuple(outcome.differentiable) == (True, True) else None,
            evidence={"got": list(outcome.differentiable), "expected": [True, False]},
        )


@check("s2-function.gradcheck", points=0.5, concept="autograd", needs=(APPLY_VALUES, APPLY_MEMORY))
def function_gradcheck(ctx: Context) -> None:
    """float64: gradients to float64 accuracy, and equal to finite differences of apply itself in random directions."""
    make: Make = lambda rng, n: draw(rng, Shape(1, 2, seq_q=12, dim=6), dtype=torch.float64, block_q=8, block_kv=8)
    applied(make, "float64-lost", lambda ctx, case: applies(
        ctx, case.but(q=case.q.float(), k=case.k.float(), v=case.v.float(), dout=case.dout.float() if case.dout is not None else None))).run(ctx)
    case = with_dout(ctx.rng("dout"), make(ctx.rng("differences"), 0))
    gradients = require_tensors(ctx, differentiate(ctx, case).value[1], NAMES)
    directions = [normal(ctx.rng(f"direction {i}"), *x.shape, dtype=torch.float64) for i, x in enumerate((case.q, case.k, case.v))]
    step = 1e-6

    def moved(sign: float) -> Tensor:
        q, k, v = (x + sign * step * u for x, u in zip((case.q, case.k, case.v), directions, strict=True))
        return require_tensors(ctx, ctx.subject.call(APPLY, *arguments(case.but(q=q, k=k, v=v))).value, OUTPUTS)[0]

    assert case.dout is not None
    by_differences = float(((moved(1) - moved(-1)) * case.dout).sum()) / (2 * step)
    by_gradients = float(sum((g * u).sum() for g, u in zip(gradients, directions, strict=True)))
    if not abs(by_differences - by_gradients) <= 1e-5 * (1 + abs(by_gradients)):
        ctx.fail(
            say("沿随机方向的差分是 {a:.8g}，梯度给出 {b:.8g}：backward 不是这个 forward 的导数。",
                "Finite differences in a random direction give {a:.8g}, the gradients {b:.8g}: backward is not the derivative of this forward.",
                a=by_differences, b=by_gradients),
            evidence={"expected": by_differences, "got": by_gradients},
        )


@check("s2-function.partial", points=0.5, concept="autograd", needs=(APPLY_VALUES, APPLY_MEMORY))
def function_partial(ctx: Context) -> None:
    """Only some of q, k, v require a gradient; and nothing is kept between calls."""
    case = with_dout(ctx.rng("dout"), cases.even(ctx.rng(), 1))
    expected = back.expected(case)
    for wrt in ((0,), (1, 2), (2,), (0, 1, 2)):
        gradients = differentiate(ctx, case, wrt).value[1]
        for place, got in zip(wrt, gradients, strict=True):
            want = expected[NAMES[place]]
            if not isinstance(got, Tensor) or not right(got, want):
                ctx.fail(
                    say("只有 {names} 需要梯度时，{name} 不对。", "When only {names} require a gradient, {name} is wrong.",
                        names=", ".join("qkv"[i] for i in wrt), name=NAMES[place]),
                    misconception="function-partial-gradients",
                    evidence=evidence_of(got, want) if isinstance(got, Tensor) and got.shape == want.value.shape else {"got": returned(got)},
                )

