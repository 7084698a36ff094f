"""Checks of what is built on forward: s2-module, s2-varlen, and the traffic formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.compare import Expected, describe, evidence_of, require_like, require_tensors, right
from grader.examine import Examination, all_right, only, repeatable
from grader.formulas import check_number, formula, formulas
from grader.memory import require_linear
from grader.modules import (
    Module, draw_module, module_suspects, one_head, packed, require_parameters, require_value_error,
)  # fmt: skip
from grader.subject import Outcome
from grader.vocabulary import Context, check, say

from . import forward_cases as cases
from .module_mistakes import tiled_module_suspects
from .varlen_cases import Packed, pack, varlen_suspects

# s2-module -------------------------------------------------------------------------------------------------------

MODULE = "FlashAttentionV1"
MODULE_VALUES, MODULE_MEMORY = "s2-module.values", "s2-module.memory"


def build(ctx: Context, case: Module) -> int:
    """A FlashAttentionV1 with the weights of the case."""
    handle = ctx.subject.construct(MODULE, case.hidden, case.heads, **({"block_size": case.block_size} if case.block_size else {}))
    ctx.subject.load_state(handle, {**ctx.subject.state(handle), **case.state})
    return handle


def call_module(ctx: Context, case: Module) -> Any:
    return ctx.subject.forward(build(ctx, case), case.x).value


def module(make: Any, **more: Any) -> Examination:
    return Examination(
        call=call_module, make=make, expect=lambda case: {"output": case.expected},
        suspects=lambda: [*module_suspects(), *tiled_module_suspects()], **more,
    )  # fmt: skip


def module_right(ctx: Context, case: Module) -> bool:
    return all_right(call_module(ctx, case), {"output": case.expected})


@check("s2-module.parameters", points=0, concept="module")
def flash_module_parameters(ctx: Context) -> None:
    """The same parameters as StandardAttention, under the same names."""
    require_parameters(ctx, ctx.subject.state(ctx.subject.construct(MODULE, 12, 3)), 12)


def one_headed(rng: np.random.Generator, n: int) -> Module:
    return draw_module(rng, *((2, 32, 1, 8, 8), (1, 36, 1, 6, 12))[n])


@check(MODULE_VALUES, points=0, concept="module", needs=("s2-module.parameters",))
def flash_module_values(ctx: Context) -> None:
    """One head, several whole blocks. Worth nothing without O(N) memory."""
    module(
        one_headed, catch=lambda: only(module_suspects(), "scale-missing", "out-proj-missing", "bias-missing"),
    ).run(ctx)  # fmt: skip


@check(MODULE_MEMORY, points=4, concept="linear-memory", needs=("s2-module.parameters", MODULE_VALUES))
def flash_module_memory(ctx: Context) -> None:
    """N = 2048 with one head of 8: an N x N matrix takes 17 MB."""
    case = draw_module(ctx.rng(), 1, 2048, 1, 8, 256)
    outcome = ctx.subject.forward(build(ctx, case), case.x, memory=True)
    (output,) = require_tensors(ctx, outcome.value, ("output",))
    require_like(ctx, output, Expected("output", case.x, 0.0, case.x.dtype), case=case.describe())
    rows = torch.from_numpy(np.sort(ctx.rng("rows").choice(2048, 16, replace=False)))
    expected = rows_of(case, rows)
    if not right(output[:, rows], expected):
        ctx.fail(describe(output[:, rows], expected), evidence=evidence_of(output[:, rows], expected, case.describe()))
    require_linear(ctx, outcome, 2048)


def rows_of(case: Module, rows: Tensor) -> Expected:
    """The module's output at some positions, attention by the oracle."""
    inner = case.inner()
    some = inner.but(q=inner.q[:, :, rows], block_q=0)
    weight, bias = case.state["out_proj.weight"].double(), case.state["out_proj.bias"].double()
    attended = some.truth[0].transpose(1, 2).flatten(2)
    tol = 4 * some.expected.tol * float(weight.abs().sum(1).max())
    return Expected("output", attended @ weight.T + bias, tol, case.x.dtype)


MODULE_NEEDS = ("s2-module.parameters", MODULE_VALUES, MODULE_MEMORY)


@check("s2-module.heads", points=2, concept="heads", needs=MODULE_NEEDS)
def flash_module_heads(ctx: Context) -> None:
    """Several heads: the same result as standard attention with shared weights."""
    sizes = ((2, 16, 4, 3, 8), (1, 24, 2, 4, 8))
    module(
        lambda rng, n: draw_module(rng, *sizes[n]), otherwise="heads-handling",
        control=lambda ctx, case: module_right(ctx, one_head(case)), known=(one_headed,),
        catch=lambda: only(module_suspects(), "heads-split", "heads-merge", "heads-not-split"),
    ).run(ctx)  # fmt: skip


@check("s2-module.tails", points=2, concept="tail-tiles", needs=(*MODULE_NEEDS, "s2-module.heads"))
def flash_module_tails(ctx: Context) -> None:
    """A length that is no multiple of block_size, and one below it."""
    def control(ctx: Context, case: Module) -> bool:
        length = max(case.x.shape[1] // case.block_size, 1) * case.block_size
        x = case.x.repeat(1, 1 + length // case.x.shape[1], 1)[:, :length]
        return module_right(ctx, Module(x, case.heads, case.state, case.block_size))

    for length, block in ((29, 8), (13, 16), (5, 256)):
        module(
            lambda rng, n, length=length, block=block: draw_module(rng, 1 + n, length + 2 * n, 2, 4, block), otherwise="tail-tiles",
            control=control, known=(one_headed,),
        ).run(ctx)  # fmt: skip


@check("s2-module.block-size", points=1, concept="tile-size", needs=MODULE_NEEDS)
def flash_module_block_size(ctx: Context) -> None:
    """block_size is honoured: with 8 x 8 blocks of 16 nothing larger than the activations appears."""
    case = draw_module(ctx.rng(), 1, 128, 1, 4, 16)
    outcome: Outcome = ctx.subject.forward(build(ctx, case), case.x, observe=True)
    trace = outcome.trace
    limit = 1.5 * 128 * 4
    if trace is not None and trace.largest > limit:
        ctx.fail(
            say("block_size=16 时出现了 {shape} 的中间张量（{op}）。", "With block_size=16 an intermediate of shape {shape} appeared ({op}).",
                shape=list(trace.largest_shape), op=trace.largest_op),
            misconception="block-size-ignored",
            evidence={"max_error": trace.largest, "tolerance": limit, "shape": list(trace.largest_shape)},
        )


@check("s2-module.indivisible", points=0.5, concept="heads", needs=MODULE_NEEDS)
def flash_module_indivisible(ctx: Context) -> None:
    require_value_error(ctx, MODULE, (10, 3))


@check("s2-module.repeat", points=0.5, concept="repeatable", needs=MODULE_NEEDS)
def flash_module_repeat(ctx: Context) -> None:
    """The default block_size; another length and batch; the first again."""
    a, b = draw_module(ctx.rng("a"), 2, 20, 2, 4), draw_module(ctx.rng("b"), 1, 33, 2, 4)
    handle = build(ctx, a)
    repeatable(ctx, lambda ctx, case: ctx.subject.forward(handle, case.x).value, [a, b])


# s2-varlen -------------------------------------------------------------------------------------------------------

VARLEN = "flash_attention_varlen"
VARLEN_NAMES = ("attn_out", "softmax_lse")
VARLEN_VALUES, VARLEN_MEMORY = "s2-varlen.values", "s2-varlen.memory"


def call_varlen(ctx: Context, case: Packed) -> Any:
    return ctx.subject.call(VARLEN, case.q, case.k, case.v, *case.cu_seqlens, **case.options()).value


def varlen_shapes(case: Packed) -> dict[str, dict[tuple[int, ...], str]]:
    t, n = case.q.shape[:2]
    return {"softmax_lse": {(t, n): "varlen-lse-layout"}, "attn_out": {(n, t, case.v.shape[-1]): "varlen-output-layout"}}


def varlen(make: Any, otherwise: str | None = None, control: Callable[[Context, Packed], bool] | None = None,
           both: bool = False) -> Examination:  # fmt: skip
    """attn_out alone, so that wrong ideas can be named; ``both`` looks at softmax_lse as well."""
    return Examination(
        call=call_varlen, make=make, expect=lambda case: case.expected if both else {"attn_out": case.expected["attn_out"]},
        suspects=varlen_suspects, otherwise=otherwise, control=control, names=VARLEN_NAMES, shapes=varlen_shapes,
    )  # fmt: skip


def varlen_right(ctx: Context, case: Packed) -> bool:
    return all_right(call_varlen(ctx, case), {"attn_out": case.expected["attn_out"]}, VARLEN_NAMES)


def ordinary(ctx: Context, case: Packed) -> bool:
    """Control: sequences with keys, one kv head per query head, no mask."""
    return varlen_right(ctx, pack(ctx.rng("control"), (9, 16, 5)))


@check(VARLEN_VALUES, points=0, concept="varlen")
def varlen_values(ctx: Context) -> None:
    """Three sequences of different lengths which must not see one another. Worth nothing without O(N) memory."""
    varlen(lambda rng, n: pack(rng, ((17, 9, 32), (5, 26, 16, 11))[n])).run(ctx)


@check(VARLEN_MEMORY, points=1.5, concept="linear-memory", needs=(VARLEN_VALUES,))
def varlen_memory(ctx: Context) -> None:
    """A sequence of 2048 among short ones: an N x N matrix takes 17 MB."""
    case = pack(ctx.rng(), (40, 2048, 24), heads=1, dim=8, block=256)
    outcome = ctx.subject.call(VARLEN, case.q, case.k, case.v, *case.cu_seqlens, memory=True, **case.options())
    out, _ = require_tensors(ctx, outcome.value, VARLEN_NAMES)
    require_like(ctx, out, Expected("attn_out", case.q, 0.0, case.q.dtype), case=case.describe())
    rows = torch.from_numpy(np.sort(ctx.rng("rows").choice(2048, 16, replace=False)))
    part = case.parts()[1]
    some = part.but(q=part.q[:, :, rows], block_q=0).expected
    got = out[40 + rows].transpose(0, 1)[None]
    if not right(got, some):
        ctx.fail(describe(got, some), evidence=evidence_of(got, some, case.describe()))
    require_linear(ctx, outcome, 2048)


VARLEN_NEEDS = (VARLEN_VALUES, VARLEN_MEMORY)


@check("s2-varlen.lse", points=0.5, concept="lse", needs=VARLEN_NEEDS)
def varlen_lse(ctx: Context) -> None:
    """softmax_lse is [N1, T1] float32."""
    varlen(lambda rng, n: pack(rng, (17, 9, 20)), "lse-value", varlen_right, both=True).run(ctx)


@check("s2-varlen.borders", points=0.5, concept="varlen", needs=VARLEN_NEEDS)
def varlen_borders(ctx: Context) -> None:
    """Sequences with other numbers of queries than of keys."""
    varlen(lambda rng, n: pack(rng, ((9, 14), (20, 3, 8))[n], ((21, 6), (7, 19, 8))[n]), "varlen-borders", ordinary).run(ctx)


@check("s2-varlen.empty", points=0.75, concept="varlen", needs=(*VARLEN_NEEDS, "s2-varlen.borders"))
def varlen_empty(ctx: Context) -> None:
    """Sequences without queries, without keys, or without both: the rows without keys give 0 and +inf."""
    makes: list[Callable[[np.random.Generator, int], Packed]] = [
        lambda rng, n: pack(rng, (12, 0, 9, 0), (12, 0, 9, 0)),
        lambda rng, n: pack(rng, (8, 7, 0, 5), (10, 0, 6, 9)),
    ]
    for make in makes:
        varlen(make, "varlen-empty-sequence", ordinary, both=True).run(ctx)


@check("s2-varlen.causal", points=1, concept="causal", needs=(*VARLEN_NEEDS, "s2-varlen.borders"))
def varlen_causal(ctx: Context) -> None:
    """mask_mode 3 within each sequence; then with S1 != S2, aligned bottom-right in each."""
    unmasked = lambda ctx, case: varlen_right(ctx, Packed(case.q, case.k, case.v, case.lengths_q, case.lengths_kv, block=case.block))
    varlen(lambda rng, n: pack(rng, ((17, 9, 32), (5, 26, 16))[n], mask_mode=3), "causal-mask", unmasked).run(ctx)
    varlen(lambda rng, n: pack(rng, ((7, 9, 20), (5, 16, 3))[n], ((12, 9, 33), (5, 26, 16))[n], mask_mode=3), "causal-alignment", unmasked).run(ctx)


@check("s2-varlen.gqa", points=0.75, concept="gqa", needs=VARLEN_NEEDS)
def varlen_gqa(ctx: Context) -> None:
    varlen(lambda rng, n: pack(rng, ((9, 14), (5, 8, 3))[n], heads=6, kv_heads=(2, 3)[n]), "gqa-mapping", ordinary).run(ctx)


# s2-traffic ------------------------------------------------------------------------------------------------------

FLOPS = formula("4*B*N*S1*S2*D")
HBM_BYTES = formula("e*B*N*(2*S1*D + ceil(S1/bq)*2*S2*D) + 4*B*N*S1")

WRONG_FLOPS = formulas({
    "flops-half": ["2*B*N*S1*S2*D", "B*N*S1*S2*D"],
    "cost-batch-or-heads": ["4*N*S1*S2*D", "4*B*S1*S2*D", "4*S1*S2*D"],
    "cost-square": ["4*B*N*S1*S1*D", "4*B*N*S2*S2*D"],
    "flops-head-dim": ["4*B*N*S1*S2", "4*B*N*S1*S2*D*N", "4*B*N*S1*S2*D/N"],
    "flops-bytes": ["4*e*B*N*S1*S2*D"],
    "flops-training": ["12*B*N*S1*S2*D", "14*B*N*S1*S2*D", "8*B*N*S1*S2*D", "10*B*N*S1*S2*D"],
    "flops-per-tile": ["4*B*N*bq*bkv*D", "4*B*N*ceil(S1/bq)*bq*ceil(S2/bkv)*bkv*D", "4*B*N*S1*S2*D*ceil(S1/bq)"],
    "flops-softmax": [f"B*N*S1*S2*(4*D + {n})" for n in range(1, 9)],
})  # fmt: skip

WRONG_HBM_BYTES = formulas({
    "traffic-floor": ["e*B*N*(2*S1*D + (S1//bq)*2*S2*D) + 4*B*N*S1"],
    "traffic-fraction": ["e*B*N*(2*S1*D + (S1/bq)*2*S2*D) + 4*B*N*S1"],
    "traffic-once": ["e*B*N*(2*S1*D + 2*S2*D) + 4*B*N*S1", "e*B*N*(2*S1*D + 2*S2*D)"],
    "traffic-wrong-loop": [
        "e*B*N*(2*S1*D + ceil(S2/bkv)*2*S2*D) + 4*B*N*S1", "e*B*N*(2*S2*D + ceil(S2/bkv)*2*S1*D) + 4*B*N*S1",
        "e*B*N*(ceil(S2/bkv)*2*S1*D + 2*S2*D) + 4*B*N*S1", "e*B*N*(2*S1*D + ceil(S1/bkv)*2*S2*D) + 4*B*N*S1",
        "e*B*N*(2*S1*D + ceil(S1/bq)*ceil(S2/bkv)*2*S2*D) + 4*B*N*S1", "e*B*N*(2*S1*D + ceil(S2/bq)*2*S2*D) + 4*B*N*S1",
        "e*B*N*ceil(S1/bq)*(2*S1*D + 2*S2*D) + 4*B*N*S1",
    ],
    "traffic-lse-missing": ["e*B*N*(2*S1*D + ceil(S1/bq)*2*S2*D)"],
    "traffic-lse-size": [
        "e*B*N*(2*S1*D + ceil(S1/bq)*2*S2*D + S1)", "e*B*N*(2*S1*D + ceil(S1/bq)*2*S2*D) + B*N*S1",
        "e*B*N*(2*S1*D + ceil(S1/bq)*2*S2*D) + 8*B*N*S1", "e*B*N*(2*S1*D + ceil(S1/bq)*2*S2*D) + 4*B*N*S1*D",
        "e*B*N*(2*S1*D + ceil(S1/bq)*2*S2*D) + 4*S1", "e*B*N*(2*S1*D + ceil(S1/bq)*2*S2*D) + 4*B*S1",
    ],
    "traffic-one-operand": [
        "e*B*N*(2*S1*D + ceil(S1/bq)*S2*D) + 4*B*N*S1", "e*B*N*(S1*D + ceil(S1/bq)*2*S2*D) + 4*B*N*S1",
        "e*B*N*(ceil(S1/bq)*2*S2*D) + 4*B*N*S1",
    ],
    "traffic-scores": ["e*B*N*(2*S1*D + 2*S2*D + 4*S1*S2)", "e*B*N*(2*S1*D + ceil(S1/bq)*2*S2*D + 4*S1*S2) + 4*B*N*S1"],
    "bytes-element-size": ["B*N*(2*S1*D + ceil(S1/bq)*2*S2*D) + 4*B*N*S1", "B*N*(2*S1*D + ceil(S1/bq)*2*S2*D + S1)"],
    "cost-batch-or-heads": [
        "e*N*(2*S1*D + ceil(S1/bq)*2*S2*D) + 4*N*S1", "e*B*(2*S1*D + ceil(S1/bq)*2*S2*D) + 4*B*S1",
        "e*(2*S1*D + ceil(S1/bq)*2*S2*D) + 4*S1",
    ],
    "cost-square": ["e*B*N*(2*S1*D + ceil(S1/bq)*2*S1*D) + 4*B*N*S1", "e*B*N*(2*S2*D + ceil(S1/bq)*2*S2*D) + 4*B*N*S1"],
})  # fmt: skip


def traffic_arguments(ctx: Context, n: int) -> dict[str, int]:
    """Eight numbers that all differ. Case 2 has blocks that divide the lengths."""
    rng = ctx.rng(n)
    batch, heads, head_dim = (int(x) for x in rng.choice([3, 5, 7, 11, 13], 3, replace=False))
    seq_q, seq_kv = (int(x) for x in rng.choice([509, 613, 727, 829, 911], 2, replace=False))
    block_q, block_kv = ((32, 80), (112, 48), (64, 96))[n]
    if n == 2:
        seq_q, seq_kv = 64 * batch * 2, 96 * heads
    return {
        "batch": batch, "num_heads": heads, "seq_q": seq_q, "seq_kv": seq_kv, "head_dim": 8 * head_dim, "block_q": block_q,
        "block_kv": block_kv, "bytes_per_element": 2 if n != 1 else 4,
    }  # fmt: skip


@check("s2-traffic.flops", points=1.5, concept="flops")
def traffic_flops(ctx: Context) -> None:
    check_number(ctx, "flash_traffic", "flops", FLOPS, WRONG_FLOPS, lambda n: traffic_arguments(ctx, n), draws=3)


@check("s2-traffic.hbm-bytes", points=3.5, concept="memory-traffic")
def traffic_hbm_bytes(ctx: Context) -> None:
    """K and V are read once for every query tile, and a short tile at the end is one too."""
    check_number(ctx, "flash_traffic", "hbm_bytes", HBM_BYTES, WRONG_HBM_BYTES, lambda n: traffic_arguments(ctx, n), draws=3)
