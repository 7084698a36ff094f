"""Checks of s1-attention. ``values`` gates the rest; every other check is one regime on its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.checking.attention_ideas import CAUSAL, EMPTY_ROWS, HEADS, SCALE
from grader.checking.cases import Attention, Make, Shape, draw, drawing, swapped
from grader.checking.compare import Expected, distance
from grader.checking.diagnose import Suspect
from grader.checking.examine import Examination, all_right, only, unchanged
from grader.checking.wrong_attention import suspects
from grader.vocabulary import Context, check

from .mistakes import attention_suspects

FUNCTION = "scaled_dot_product_attention"
VALUES, CAUSAL_CHECK, OFFSET = "s1-attention.values", "s1-attention.causal", "s1-attention.causal-offset"

Control = Callable[[Context, Attention], bool]


def call(ctx: Context, case: Attention) -> Any:
    return ctx.subject.call(FUNCTION, case.q, case.k, case.v, **keywords(case)).value


def keywords(case: Attention) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if case.scale is not None:
        given["scale"] = case.scale
    if case.mask_mode == 3:
        given["causal"] = True
    return given


def expect(case: Attention) -> dict[str, Expected]:
    return {"attn_out": case.expected}


def shapes(case: Attention) -> dict[str, dict[tuple[int, ...], str]]:
    b, n, s1, _ = case.q.shape
    given = {(b, n, s1, case.k.shape[2]): "weights-returned", (b, s1, n, case.v.shape[-1]): "layout-transposed"}
    return {"attn_out": given}


def is_right(ctx: Context, case: Attention) -> bool:
    return all_right(call(ctx, case), expect(case))


def right_after(change: Callable[[Attention], Attention]) -> Control:
    """Control: the same inputs after ``change``, which takes away what the check is about."""
    return lambda ctx, case: is_right(ctx, change(case))


without_mask = right_after(lambda case: case.but(mask_mode=0))

WHOLE = {"block_q": 0, "block_kv": 0}  # no tiles
square = drawing(Shape(2, 3, seq_q=10), Shape(3, 2, seq_q=13, dim=6), **WHOLE)
causal = drawing(Shape(2, 2, seq_q=11), Shape(1, 3, seq_q=14, dim=6), mask_mode=3, **WHOLE)
offset = drawing(Shape(1, 2, seq_q=7, seq_kv=12), Shape(2, 2, seq_q=9, seq_kv=11, dim=6), mask_mode=3, **WHOLE)


def attention(
    make: Make,
    otherwise: str | None = None,
    control: Control | None = None,
    catch: Sequence[Suspect] = (),
    known: Sequence[Make] = (square,),
) -> Examination:
    """One regime, examined after ``values``, on whose cases the program is therefore ``known`` to be right."""
    return Examination(
        call=call,
        make=make,
        expect=expect,
        suspects=attention_suspects,
        otherwise=otherwise,
        control=control,
        catch=lambda: catch,
        known=known,
        shapes=shapes,
    )


@check(VALUES, points=8, concept="attention")
def attention_values(ctx: Context) -> None:
    """No mask, S1 = S2, the default scale, several batches and heads."""
    catch = only(attention_suspects(), "scale-missing", "softmax-over-queries")
    for make in (square, swapped(square)):
        attention(make, catch=catch, known=()).run(ctx)


@check("s1-attention.scale", points=3.5, concept="scale", needs=(VALUES,))
def attention_scale(ctx: Context) -> None:
    """A given scale replaces 1/sqrt(D)."""
    make = drawing(Shape(1, 2, seq_q=9), Shape(1, 2, seq_q=10, dim=5), scales=(0.61, 0.23), **WHOLE)
    catch = only(suspects(SCALE), "scale-ignored", "scale-combined", "scale-inverted")
    attention(make, "scale-ignored", right_after(lambda case: case.but(scale=None)), catch).run(ctx)


@check("s1-attention.scale-zero", points=0.5, concept="scale", needs=(VALUES, "s1-attention.scale"))
def attention_scale_zero(ctx: Context) -> None:
    """scale=0.0 is a scale like any other: every visible key weighs the same."""
    make = drawing(Shape(1, 2, seq_q=9), Shape(1, 2, seq_q=10, dim=5), scales=(0.0, 0.0), **WHOLE)
    zero = attention(make, "scale-zero", right_after(lambda case: case.but(scale=0.4)))
    replace(zero, suspects=tuple).run(ctx)  # "the scale is ignored" gives these values too, and is not what is wrong


@check("s1-attention.rectangular", points=4, concept="shapes", needs=(VALUES,))
def attention_rectangular(ctx: Context) -> None:
    """S1 != S2 both ways, D != Dv, lengths of 1."""
    for shape in (
        Shape(2, 2, seq_q=7, seq_kv=11, dim=6, value_dim=9),
        Shape(1, 3, seq_q=12, seq_kv=5, dim=8, value_dim=3),
        Shape(2, 1, seq_q=1, seq_kv=6, dim=4, value_dim=5),
        Shape(1, 2, seq_q=4, seq_kv=1, dim=5, value_dim=7),
    ):
        attention(drawing(shape, **WHOLE), "shapes-assumed-equal", _ordinary).run(ctx)


def _ordinary(ctx: Context, case: Attention) -> bool:
    """Control: S1 = S2 and D = Dv."""
    return is_right(ctx, square(ctx.rng("control"), 0))


@check("s1-attention.stable", points=5, concept="stability", needs=(VALUES,))
def attention_stable(ctx: Context) -> None:
    """Logits around +300, around -300, rows whose logits differ by hundreds, single keys far above the others."""
    moderate = right_after(lambda case: case.but(q=case.q / 100))
    before: list[Make] = [square]
    for make in (high, low, mixed, spiky):
        attention(make, "unstable-softmax", moderate, known=tuple(before)).run(ctx)
        before.append(make)


def high(rng: np.random.Generator, n: int, sign: float = 1.0) -> Attention:
    """Every logit lies near ``sign`` * 300, and still they differ by a few."""
    case = draw(rng, Shape(1, 2, seq_q=9 + n, dim=8 - 2 * n), **WHOLE)
    k = case.k / 16
    k[..., 0] = sign * 20.0
    q = case.q * 6
    q[..., 0] = 15.0 * math.sqrt(q.shape[-1])
    return case.but(q=q, k=k)


def low(rng: np.random.Generator, n: int) -> Attention:
    return high(rng, n, -1.0)


def mixed(rng: np.random.Generator, n: int) -> Attention:
    """Rows near -300, -150, -60 and +300 in one matrix."""
    case = high(rng, n)
    q = case.q.clone()
    q[..., 0] *= torch.tensor([-1.0, 1.0, -0.2, -0.5]).repeat(3)[: q.shape[2]]
    return case.but(q=q)


def spiky(rng: np.random.Generator, n: int) -> Attention:
    """One key stands 200 above the others."""
    case = square(rng, n)
    k, q = case.k.clone(), case.q.clone()
    k[..., 0] = 0.0
    k[:, :, int(rng.integers(k.shape[2])), 0] = 1.0
    q[..., 0] = 200.0 * math.sqrt(q.shape[-1])
    return case.but(q=q, k=k)


@check(CAUSAL_CHECK, points=6, concept="causal", needs=(VALUES, "s1-attention.stable"))
def attention_causal(ctx: Context) -> None:
    """S1 = S2."""
    catch = only(suspects(CAUSAL), "causal-ignored", "causal-strict", "causal-one-ahead", "causal-fill")
    attention(causal, "causal-mask", without_mask, catch).run(ctx)


@check(OFFSET, points=4, concept="causal-alignment", needs=(VALUES, "s1-attention.rectangular", CAUSAL_CHECK))
def attention_causal_offset(ctx: Context) -> None:
    """S1 < S2: the last query sees every key."""
    catch = only(suspects(CAUSAL), "causal-top-left", "causal-offset-sign")
    attention(offset, "causal-alignment", without_mask, catch, (square, causal)).run(ctx)


@check("s1-attention.empty-rows", points=3, concept="empty-rows", needs=(VALUES, CAUSAL_CHECK, OFFSET))
def attention_empty_rows(ctx: Context) -> None:
    """S1 > S2 with a causal mask: the first S1 - S2 queries see no key and give 0."""

    def others_right(ctx: Context, case: Attention) -> bool:
        got, start = call(ctx, case), case.q.shape[2] - case.k.shape[2]
        return isinstance(got, Tensor) and distance(got[:, :, start:], case.truth[0][:, :, start:]) <= case.expected.tol

    shapes = Shape(1, 2, seq_q=11, seq_kv=7), Shape(2, 1, seq_q=12, seq_kv=9, dim=6)
    catch = only(suspects(EMPTY_ROWS), "empty-row-nan", "empty-row-average")
    make = drawing(*shapes, mask_mode=3, **WHOLE)
    attention(make, "empty-row", others_right, catch, (square, causal, offset)).run(ctx)


@check("s1-attention.gqa", points=4, concept="gqa", needs=(VALUES,))
def attention_gqa(ctx: Context) -> None:
    """Query head h reads kv head h // (N1 // N2)."""
    make = drawing(Shape(2, 6, 2, seq_q=8), Shape(1, 8, 4, seq_q=9, dim=6), **WHOLE)
    catch = only(suspects(HEADS), "gqa-interleaved", "gqa-one-head")
    attention(make, "gqa-mapping", right_after(_ungrouped), catch, known=()).run(ctx)


def _ungrouped(case: Attention) -> Attention:
    """The same values with one key/value head per query head."""
    return case.but(k=case.k.repeat_interleave(case.group, dim=1), v=case.v.repeat_interleave(case.group, dim=1))


@check("s1-attention.inputs", points=2, concept="inputs", needs=(VALUES,))
def attention_inputs(ctx: Context) -> None:
    """Strided and shared inputs are read right and left alone."""
    attention(_strided, "assumes-contiguous", right_after(_contiguous)).run(ctx)
    case = square(ctx.rng("unchanged"), 0)
    unchanged(ctx, ctx.subject.call(FUNCTION, case.q, case.k, case.v, **keywords(case)).changed, "qkv")
    attention(_shared, "input-modified", right_after(_contiguous)).run(ctx)


def _strided(rng: np.random.Generator, n: int) -> Attention:
    """Stored as [B, S, N, D]."""
    case = square(rng, n)
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (case.q, case.k, case.v))
    return case.but(q=q, k=k, v=v)


def _shared(rng: np.random.Generator, n: int) -> Attention:
    """q, k and v are one tensor, as in self-attention without projections."""
    case = square(rng, n)
    return case.but(k=case.q, v=case.q)


def _contiguous(case: Attention) -> Attention:
    """Every tensor stored on its own, in order."""
    q, k, v = (x.clone(memory_format=torch.contiguous_format) for x in (case.q, case.k, case.v))
    return case.but(q=q, k=k, v=v)
