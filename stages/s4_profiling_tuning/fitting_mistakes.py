"""Which tiles fit the buffers of a core: the right list, and the lists that wrong ideas give.

The inequalities are those of the performance analysis in ops-transformer (attention/flash_attn/docs), for the 950.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import Any

Tiles = list[tuple[int, int]]
BLOCK_Q, BLOCK_KV = range(16, 257), (64, 128, 256)
MAC = 4096  # multiply-adds of the Cube per cycle


@dataclass(frozen=True)
class Buffers:
    """The arguments of ``feasible_tiles``."""

    soc: dict[str, int]
    head_dim: int
    shared_so: bool = False
    hit_rate: float | None = None

    def options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"shared_so": True} if self.shared_so else {}
        return options | ({} if self.hit_rate is None else {"hit_rate": self.hit_rate})

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={self.soc[name]}" for name in ("l1", "l0a", "l0b", "l0c", "ub"))
        return f"head_dim={self.head_dim}, {', '.join(f'{k}={v}' for k, v in self.options().items()) or '-'}; {sizes}"


Use = Callable[[int, int, int, Buffers], float]


def use_l1(m: int, n: int, d: int, case: Buffers) -> float:
    return 4 * m * d + 6 * m * n + 4 * n * d


def use_l0a(m: int, n: int, d: int, case: Buffers) -> float:
    return 4 * m * min(d, 128)


def use_l0b(m: int, n: int, d: int, case: Buffers) -> float:
    return 4 * min(n, 128) * min(d, 128)


def use_l0c(m: int, n: int, d: int, case: Buffers) -> float:
    """Of the whole buffer, so that S fits one of four slots and O two."""
    return max(4 * (4 * m * n), 2 * (4 * m * d))


def use_ub(m: int, n: int, d: int, case: Buffers) -> float:
    if case.shared_so:
        return 4 * m * max(n, d) + 2 * m * n + 2 * m * d + m * n + 54 * m + 512
    return 7 * m * n + 6 * m * d + 54 * m + 512


USES: dict[str, Use] = {"l1": use_l1, "l0a": use_l0a, "l0b": use_l0b, "l0c": use_l0c, "ub": use_ub}


def load_cycles(n: int, d: int, case: Buffers) -> float:
    hit = case.hit_rate or 0.0
    return 4 * n * d * (hit / case.soc["l2_bytes_per_cycle"] + (1 - hit) / case.soc["hbm_bytes_per_cycle"])


def linear_cycles(n: int, d: int, case: Buffers) -> float:
    """Bandwidths averaged, as the upstream document does it."""
    hit = case.hit_rate or 0.0
    return 4 * n * d / (hit * case.soc["l2_bytes_per_cycle"] + (1 - hit) * case.soc["hbm_bytes_per_cycle"])


@dataclass(frozen=True)
class Rule:
    """One way of deciding. The fields are what a mistake changes."""

    uses: dict[str, Use] = field(default_factory=lambda: USES)
    fits: Callable[[float, int], bool] = lambda used, there: used <= there
    load: Callable[[int, int, Buffers], float] = load_cycles
    macs: float = 1.0
    feeds: Callable[[float, float], bool] = lambda cube, load: cube >= load
    asked: Callable[[Buffers], bool] = lambda case: case.hit_rate is not None

    def __call__(self, case: Buffers) -> Tiles:
        return [
            (m, n)
            for m in BLOCK_Q
            for n in BLOCK_KV
            if all(self.fits(use(m, n, case.head_dim, case), case.soc[name]) for name, use in self.uses.items())
            and (
                not self.asked(case)
                or self.feeds(self.macs * m * n * case.head_dim * 2 / MAC, self.load(n, case.head_dim, case))
            )
        ]


right = Rule()


def _without(name: str) -> Rule:
    return Rule(uses={key: use for key, use in USES.items() if key != name})


def _other(name: str, use: Use) -> Rule:
    return Rule(uses=USES | {name: use})


def _rounded(case: Buffers) -> Tiles:
    """The largest M per N by solving for M and rounding instead of cutting off: 101.95 becomes 102."""
    tiles = []
    for m in BLOCK_Q:
        for n in BLOCK_KV:
            before = m - 0.5
            if all(use(before, n, case.head_dim, case) <= case.soc[name] for name, use in USES.items()):  # type: ignore[arg-type]
                tiles.append((m, n))
    fed = set(Rule(uses={})(case))
    return [tile for tile in tiles if tile in fed]


def _kib(used: float, there: int) -> bool:
    return used // 1024 <= there // 1024


def _sorted_by_kv(case: Buffers) -> Tiles:
    return sorted(right(case), key=lambda tile: (tile[1], tile[0]))


IDEAS: list[tuple[str, Callable[[Buffers], Tiles]]] = [
    ("tiles-strict", Rule(fits=lambda used, there: used < there)),
    ("tiles-rounded", _rounded),
    ("tiles-rounded", Rule(fits=_kib)),
    ("tiles-rounded", Rule(fits=lambda used, there: used // 1024 < there / 1024 or used <= there)),
    *((f"tiles-no-{name}", _without(name)) for name in ("l1", "l0a", "l0b", "l0c", "ub")),
    ("tiles-l0c-slots", _other("l0c", lambda m, n, d, case: max(4 * m * n, 4 * m * d))),
    ("tiles-l0c-slots", _other("l0c", lambda m, n, d, case: 4 * (4 * m * n))),
    ("tiles-l0c-slots", _other("l0c", lambda m, n, d, case: 2 * (4 * m * d))),
    ("tiles-l0c-slots", _other("l0c", lambda m, n, d, case: 4 * max(4 * m * n, 4 * m * d))),
    ("tiles-whole-rows", _other("ub", lambda m, n, d, case: 2 * use_ub(m, n, d, case) - 512)),
    ("tiles-ub-small-parts", _other("ub", lambda m, n, d, case: use_ub(m, n, d, case) - 54 * m - 512)),
    ("tiles-ub-small-parts", _other("ub", lambda m, n, d, case: use_ub(m, n, d, case) - 512)),
    ("tiles-ub-small-parts", _other("ub", lambda m, n, d, case: use_ub(m, n, d, case) - 54 * m)),
    ("tiles-shared-ignored", lambda case: right(Buffers(case.soc, case.head_dim, False, case.hit_rate))),
    ("tiles-shared-always", lambda case: right(Buffers(case.soc, case.head_dim, True, case.hit_rate))),
    ("tiles-l0-pieces", _other("l0a", lambda m, n, d, case: 4 * m * d)),
    ("tiles-l0-pieces", _other("l0b", lambda m, n, d, case: 4 * n * d)),
    (
        "tiles-l0-pieces",
        Rule(uses=USES | {"l0a": lambda m, n, d, case: 4 * m * d, "l0b": lambda m, n, d, case: 4 * n * d}),
    ),
    ("tiles-order", _sorted_by_kv),
    ("tiles-order", lambda case: right(case)[::-1]),
    ("tiles-linear-mix", Rule(load=linear_cycles)),
    ("tiles-hit-rate-zero", Rule(asked=lambda case: bool(case.hit_rate))),
    ("tiles-hit-rate-ignored", Rule(asked=lambda case: False)),
    ("tiles-one-operand", Rule(load=lambda n, d, case: load_cycles(n, d, case) / 2)),
    ("tiles-one-product", Rule(macs=0.5)),
    ("tiles-one-product", Rule(macs=2.0)),
    ("tiles-feeds-turned", Rule(feeds=lambda cube, load: cube <= load)),
    (
        "tiles-hit-rate-turned",
        Rule(load=lambda n, d, case: load_cycles(n, d, Buffers(case.soc, d, False, 1 - (case.hit_rate or 0.0)))),
    ),
]


def largest(case: Buffers, block_kv: int) -> int:
    """The largest block_q that fits beside this block_kv, 0 for none."""
    return max((m for m, n in right(case) if n == block_kv), default=0)


def smallest_fed(case: Buffers) -> int:
    """The smallest block_q whose products take as long as loading K and V."""
    return ceil(MAC * load_cycles(128, case.head_dim, case) / (2 * 128 * case.head_dim))
