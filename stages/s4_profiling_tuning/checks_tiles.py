"""Checks of s4-tiles: the inequalities of the buffers, to the byte, and the tiles that keep the Cube fed."""

from __future__ import annotations

from collections.abc import Sequence

from grader.checking.compare import returned
from grader.text import Text
from grader.vocabulary import Context, check, say

from . import fitting_mistakes as mistakes
from .fitting_mistakes import BLOCK_KV, Buffers, Tiles
from .plain_values import idea_behind

KI = 1024
ASCEND950 = {
    "l1": 512 * KI, "l0a": 64 * KI, "l0b": 64 * KI, "l0c": 256 * KI, "ub": 253_952,
    "l2_bytes_per_cycle": 100, "hbm_bytes_per_cycle": 31,
}  # fmt: skip


def _tiles(ctx: Context, case: Buffers) -> Tiles:
    value = ctx.subject.call("feasible_tiles", dict(case.soc), case.head_dim, **case.options()).value
    pairs = isinstance(value, (list, tuple)) and all(
        isinstance(item, (tuple, list)) and len(item) == 2 and all(type(x) is int for x in item) for item in value
    )
    if not pairs:
        ctx.fail(
            say(
                "应返回 (block_q, block_kv) 的列表，得到 {got}。",
                "It must return a list of (block_q, block_kv), it returned {got}.",
                got=returned(value),
            ),
            misconception="wrong-return",
            evidence={"got": returned(value)},
        )
    return [(item[0], item[1]) for item in value]


def _require(ctx: Context, cases: Sequence[Buffers]) -> None:
    seen = [(case, _tiles(ctx, case)) for case in cases]
    for case, got in seen:
        want = mistakes.right(case)
        if got == want:
            continue
        lost, added = [t for t in want if t not in set(got)], [t for t in got if t not in set(want)]
        ctx.fail(
            _difference(case, lost, added),
            misconception=idea_behind(seen, mistakes.right, mistakes.IDEAS, lambda a, b: a == b),
            evidence={"case": str(case), "expected": _limits(want), "got": _limits(got)},
        )


def _difference(case: Buffers, lost: Tiles, added: Tiles) -> Text:
    """One tile too many or too few, with the buffer that decides."""
    if not lost and not added:
        return say(
            "块都对，但次序不对或有重复：应按 (block_q, block_kv) 递增。",
            "The tiles are right but out of order, or some come twice: in increasing (block_q, block_kv).",
        )
    foreign = [(m, n) for m, n in added if not (16 <= m <= 256 and n in BLOCK_KV)]
    if foreign:
        return say(
            "({m}, {n}) 不在候选之中：block_q 是 16～256，block_kv 是 64、128、256 之一，次序 (block_q, block_kv)。",
            "({m}, {n}) is no candidate: block_q is 16 to 256, block_kv 64, 128 or 256, in the order "
            "(block_q, block_kv).",
            m=foreign[0][0],
            n=foreign[0][1],
        )
    m, n = min(added) if added else max(lost)
    uses = {name: use(m, n, case.head_dim, case) for name, use in mistakes.USES.items()}
    full = [name for name, used in uses.items() if used > case.soc[name]]
    if added and full:
        return say(
            "({m}, {n}) 放不下：{name} 要 {used} 字节，只有 {there}。",
            "({m}, {n}) does not fit: {name} needs {used} bytes of {there}.",
            m=m,
            n=n,
            name=full[0].upper(),
            used=f"{uses[full[0]]:,}",
            there=f"{case.soc[full[0]]:,}",
        )
    cube, load = 2 * m * n * case.head_dim / mistakes.MAC, mistakes.load_cycles(n, case.head_dim, case)
    if added:
        return say(
            "({m}, {n}) 喂不饱 Cube：计算 {cube:.0f} 周期，载入 {load:.0f} 周期。",
            "({m}, {n}) starves the Cube: {cube:.0f} cycles of products, {load:.0f} of loading.",
            m=m,
            n=n,
            cube=cube,
            load=load,
        )
    return say(
        "少了 ({m}, {n})：{uses}，都放得下{fed}。",
        "({m}, {n}) is missing: {uses} all fit{fed}.",
        m=m,
        n=n,
        uses=", ".join(f"{name.upper()} {used:,}/{case.soc[name]:,}" for name, used in uses.items()),
        fed="" if case.hit_rate is None else say("，也喂得饱", " and the Cube is fed"),
    )


def _limits(tiles: Tiles) -> str:
    """``64: 16..128 (113), 128: 16..101 (86)``: how far block_q goes for each block_kv."""
    rows = {n: [m for m, kv in tiles if kv == n] for n in BLOCK_KV}
    return ", ".join(f"{n}: {min(ms)}..{max(ms)} ({len(ms)})" if ms else f"{n}: -" for n, ms in rows.items())


def _drawn(ctx: Context, name: str, **options: object) -> list[Buffers]:
    """Chips with buffers of other sizes, on which each buffer decides somewhere."""
    rng = ctx.rng(name)
    cases = []
    for n, tight in enumerate(rng.permutation(["l1", "l0a", "l0b", "l0c", "ub"])):
        head_dim = (64, 128, 256)[n % 3]
        soc = dict(ASCEND950) | {"l1": 2048 * KI, "l0a": 256 * KI, "l0b": 128 * KI, "l0c": 1024 * KI, "ub": 1024 * KI}
        m, kv = int(rng.integers(40, 120)), int(rng.choice(BLOCK_KV))
        case = Buffers(soc, head_dim, **options)  # type: ignore[arg-type]
        soc[tight] = int(mistakes.USES[tight](m, kv, head_dim, case)) + 8 * int(rng.integers(1, 4))
        cases.append(case)
    return cases


@check("s4-tiles.buffers", points=4, concept="buffers")
def tiles_buffers(ctx: Context) -> None:
    """A 950 with three head dims, then chips on which one buffer at a time is the tight one."""
    _require(ctx, [Buffers(ASCEND950, head_dim) for head_dim in (64, 128, 256)] + _drawn(ctx, "tight"))


@check("s4-tiles.to-the-byte", points=1, concept="buffers", needs=("s4-tiles.buffers",))
def tiles_to_the_byte(ctx: Context) -> None:
    """A buffer that is full to the last byte, and one that lacks a byte."""
    rng = ctx.rng()
    cases = []
    for n, name in enumerate(("ub", "l1", "l0c", "l0a")):
        head_dim, m, kv = (256, 128, 64)[n % 3], int(rng.integers(48, 112)), int(rng.choice((64, 128)))
        roomy = dict(ASCEND950) | {"l1": 4096 * KI, "l0a": 512 * KI, "l0b": 512 * KI, "l0c": 2048 * KI, "ub": 2048 * KI}
        full = int(mistakes.USES[name](m, kv, head_dim, Buffers(roomy, head_dim)))
        cases += [Buffers(roomy | {name: full}, head_dim), Buffers(roomy | {name: full - 1}, head_dim)]
    _require(ctx, cases)


@check("s4-tiles.shared", points=2, concept="buffers", needs=("s4-tiles.buffers",))
def tiles_shared(ctx: Context) -> None:
    """S and O in one buffer: block_q = 128 fits with head_dim 256, on a 950 with 768 bytes to spare."""
    cases = [Buffers(ASCEND950, head_dim, shared_so=True) for head_dim in (64, 128, 256)]
    _require(ctx, cases + _drawn(ctx, "tight", shared_so=True))


@check("s4-tiles.fed", points=3, concept="feeding", needs=("s4-tiles.buffers",))
def tiles_fed(ctx: Context) -> None:
    """Loading K and V against computing, at hit rates of 1, 0 and between; bandwidths of several chips."""
    rng = ctx.rng()
    roomy = {"l1": 4096 * KI, "l0a": 512 * KI, "l0b": 512 * KI, "l0c": 4096 * KI, "ub": 4096 * KI}
    cases = [Buffers(ASCEND950, 128, hit_rate=1.0), Buffers(ASCEND950, 256, shared_so=True, hit_rate=1.0)]
    for n in range(3):
        bandwidths = {
            "l2_bytes_per_cycle": int(rng.integers(90, 120)),
            "hbm_bytes_per_cycle": int(rng.integers(34, 60)),
        }
        soc = dict(ASCEND950) | roomy | bandwidths
        cases.append(Buffers(soc, (128, 64, 256)[n], hit_rate=float(f"{rng.uniform(0.3, 0.8):.2f}")))
    bandwidths = {"l2_bytes_per_cycle": 110, "hbm_bytes_per_cycle": int(rng.integers(40, 80))}
    cases += [Buffers(dict(ASCEND950) | roomy | bandwidths, 128, hit_rate=hit) for hit in (0.0, 0)]
    _require(ctx, cases)
