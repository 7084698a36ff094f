"""How the checks of s2-forward call it, what must come back, and how a regime of its own is examined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grader.checking.cases import Attention, Make
from grader.checking.compare import Expected
from grader.checking.diagnose import Suspect
from grader.checking.examine import Examination, all_right
from grader.subject import Outcome, Raised, Trace
from grader.vocabulary import Context, say

from . import forward_cases as cases
from .mistakes import forward_suspects

FUNCTION = "flash_attention_forward"
NAMES = ("attn_out", "softmax_lse")

Control = Callable[[Context, Attention], bool]


def call(ctx: Context, case: Attention) -> Any:
    return ctx.subject.call(FUNCTION, case.q, case.k, case.v, **case.options()).value


def expect_out(case: Attention) -> dict[str, Expected]:
    return {"attn_out": case.expected}


def expect_lse(case: Attention) -> dict[str, Expected]:
    return {"softmax_lse": case.expected_lse}


def shapes(case: Attention) -> dict[str, dict[tuple[int, ...], str]]:
    """Shapes of attn_out that give an idea away."""
    b, n, s1, _ = case.q.shape
    dim, full = case.v.shape[-1], s1 // max(case.block_q, 1) * case.block_q
    given = {(b, s1, n, dim): "layout-transposed"}
    if full != s1:
        given[(b, n, full, dim)] = "tail-dropped"
        given[(b, n, full + case.block_q, dim)] = "tail-padded"
    return {"attn_out": given}


def forward(
    make: Make,
    otherwise: str | None = None,
    control: Control | None = None,
    catch: Sequence[Suspect] = (),
    known: Sequence[Make] = (cases.even,),
    **more: Any,
) -> Examination:
    """One regime, examined after ``values``, on whose cases the program is therefore ``known`` to be right."""
    return Examination(
        call=call,
        make=make,
        expect=expect_out,
        suspects=forward_suspects,
        otherwise=otherwise,
        control=control,
        catch=lambda: catch,
        known=known,
        shapes=shapes,
        names=NAMES,
        **more,
    )


def is_right(ctx: Context, case: Attention) -> bool:
    return all_right(call(ctx, case), expect_out(case), NAMES)


def right_after(change: Callable[[Attention], Attention]) -> Control:
    """Control: the same inputs after ``change``, which takes away what the check is about."""
    return lambda ctx, case: is_right(ctx, change(case))


def right_on(make: Make) -> Control:
    """Control: another, ordinary case."""
    return lambda ctx, case: is_right(ctx, make(ctx.rng("control"), 0))


def odd_ones(ctx: Context, call: Callable[[Context, Attention], Any]) -> list[Attention]:
    """What is asked again and again: first rows that see no key, where a buffer that is kept shows; whole square tiles
    where masks or S1 != S2 make the function raise, so that this is no matter of what it keeps."""
    first, *others = (cases.odd_one(ctx.rng(n), n) for n in (1, 0, 2))
    try:
        call(ctx, first)
    except Raised:
        first = cases.square(first.but(mask_mode=0))
    return [first, *others]


without_mask = right_after(lambda case: case.but(mask_mode=0))


def trace_of(outcome: Outcome) -> Trace:
    if outcome.trace is None:
        raise RuntimeError("the subject observed nothing")
    return outcome.trace


def visible_flops(case: Attention) -> int:
    """Two products, q k^T and p v, per tile that holds a visible pair, for every batch and head."""
    mask, total = case.visible, 0
    batch, heads, _, dim = case.q.shape
    per_pair = 2 * batch * heads * (dim + case.v.shape[-1])
    for i in range(0, mask.shape[0], case.block_q):
        for j in range(0, mask.shape[1], case.block_kv):
            tile = mask[i : i + case.block_q, j : j + case.block_kv]
            total += per_pair * tile.numel() if bool(tile.any()) else 0
    return total


def require_tiles(
    ctx: Context, case: Attention, flops: int, most: float, too_many: str, *, least: float = 0.5, products: int = 2
) -> None:
    """The products that ran against the ``products`` that every visible tile needs (D = Dv)."""
    wanted = visible_flops(case) * products // 2
    if least * wanted <= flops <= most * wanted:
        return
    evidence = {"expected": wanted, "got": flops, "case": str(case.describe())}
    if flops < wanted:
        ctx.fail(
            say(
                "看到的矩阵乘法是 {got:,} 次浮点运算，可见的块需要 {want:,} 次：没有看到逐块的矩阵乘法。",
                "The products observed are {got:,} flops, the visible tiles need {want:,}: no tile-by-tile products "
                "were seen.",
                got=flops,
                want=wanted,
            ),
            misconception="tiles-unseen",
            evidence=evidence,
        )
    ctx.fail(
        say(
            "矩阵乘法用了 {got:,} 次浮点运算，可见的块只需要 {want:,} 次。",
            "The products took {got:,} flops, the visible tiles need only {want:,}.",
            got=flops,
            want=wanted,
        ),
        misconception=too_many,
        evidence=evidence,
    )


def require_small(ctx: Context, case: Attention, trace: Trace) -> None:
    """No intermediate beyond 1.5 tiles (or the rows themselves), no product across more positions than a tile has.

    For B = N1 = N2 = 1 and lengths of several blocks: there nobody needs anything larger.
    """
    length, dim = case.q.shape[2:]
    limit = 1.5 * max(case.block_q * case.block_kv, length * dim)
    across = max((max(sides) for _, *sides in trace.matmuls), default=0)
    tile = f"[{case.block_q}, {case.block_kv}]"
    if trace.largest > limit:
        shape = list(trace.largest_shape)
        ctx.fail(
            say(
                "block_q={q}、block_kv={kv} 时出现了 {shape} 的中间张量（{op}）：比一块 {tile} 大。",
                "With block_q={q} and block_kv={kv} an intermediate of shape {shape} appeared ({op}), larger than a "
                "tile {tile}.",
                q=case.block_q,
                kv=case.block_kv,
                shape=shape,
                op=trace.largest_op,
                tile=tile,
            ),
            misconception="block-size-ignored",
            evidence={"max_error": trace.largest, "tolerance": limit, "shape": shape, "case": str(case.describe())},
        )
    if across > 1.5 * max(case.block_q, case.block_kv):
        ctx.fail(
            say(
                "有一个矩阵乘法跨过了 {n} 个位置，一块只有 {tile}：K、V 没有按 block_kv 分块。",
                "A product runs across {n} positions, while a tile is {tile}: K and V are not taken by tiles of "
                "block_kv.",
                n=across,
                tile=tile,
            ),
            misconception="block-size-ignored",
            evidence={"max_error": across, "tolerance": max(case.block_q, case.block_kv), "case": f"{case.describe()}"},
        )


def require_large(ctx: Context, case: Attention, trace: Trace) -> None:
    """Some product takes a whole tile: smaller ones, or the two block sizes exchanged, waste what was tuned.

    Told by the products that sum over keys, or over queries in a backward pass, whichever are more.
    """
    across, others = max((k, max(batch, m, n)) for batch, m, k, n in trace.matmuls)
    if across >= case.block_kv and others >= case.block_q:
        return
    ctx.fail(
        say(
            "block_q={q}、block_kv={kv} 时，最大的一次矩阵乘法只有 {others} 个 query、{across} 个 key：不是要求的块。",
            "With block_q={q} and block_kv={kv} the largest product takes {others} queries and {across} keys: not the "
            "tiles that were asked for.",
            q=case.block_q,
            kv=case.block_kv,
            others=others,
            across=across,
        ),
        misconception="block-size-ignored",
        evidence={"got": [others, across], "expected": [case.block_q, case.block_kv], "case": str(case.describe())},
    )
