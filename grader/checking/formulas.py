"""Checks of functions that return numbers by name: ``{"flops": ..., "hbm_bytes": ...}``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grader.checking.compare import returned
from grader.text import say
from grader.vocabulary import Context

Formula = Callable[..., float]

_LETTERS = {
    "B": "batch",
    "N": "num_heads",
    "S1": "seq_q",
    "S2": "seq_kv",
    "D": "head_dim",
    "e": "bytes_per_element",
    "bq": "block_q",
    "bkv": "block_kv",
}


def formula(text: str) -> Formula:
    """``formula("4*B*N*S1*S2*D")``: a function of batch, num_heads, ... by keyword, in the letters of the course."""
    code = compile(text, "<formula>", "eval")

    def value(**given: int) -> float:
        letters = {letter: given[name] for letter, name in _LETTERS.items() if name in given}
        return float(eval(code, {"ceil": math.ceil, "__builtins__": {}}, letters))

    return value


def formulas(table: Mapping[str, Sequence[str]]) -> list[tuple[str, Formula]]:
    """Misconception -> the formulas that come of it."""
    return [(id, formula(text)) for id, texts in table.items() for text in texts]


def check_number(
    ctx: Context,
    function: str,
    key: str,
    right: Formula,
    wrong: Sequence[tuple[str, Formula]],
    arguments: Callable[[int], dict[str, int]],
    draws: int = 2,
) -> None:
    """``function(**arguments(n))[key]`` must equal ``right`` for every draw.

    A formula of ``wrong`` is named when it, and no formula of another name, gives what was returned on all of them.
    """
    seen: list[tuple[dict[str, int], float]] = []
    for n in range(draws):
        given = arguments(n)
        keywords: dict[str, Any] = dict(given)
        seen.append((given, _number(ctx, ctx.subject.call(function, **keywords).value, key)))
    if all(_same(got, right(**given)) for given, got in seen):
        return
    fitting = {id for id, formula in wrong if all(_same(got, formula(**given)) for given, got in seen)}
    given, got = next((g, v) for g, v in seen if not _same(v, right(**g)))
    ctx.fail(
        say(
            "{key} 应为 {want:,.0f}，得到 {got:,.10g}（参数 {given}）。",
            "{key} must be {want:,.0f}, it is {got:,.10g} (for {given}).",
            key=key,
            want=right(**given),
            got=got,
            given=", ".join(f"{k}={v}" for k, v in given.items()),
        ),
        misconception=fitting.pop() if len(fitting) == 1 else None,
        evidence={"expected": right(**given), "got": got if math.isfinite(got) else str(got), "case": str(given)},
    )


def _number(ctx: Context, value: Any, key: str) -> float:
    if not isinstance(value, Mapping) or key not in value:
        ctx.fail(
            say(
                "应返回含有 {key!r} 的字典，得到 {got}。",
                "It must return a dict with {key!r}, it returned {got}.",
                key=key,
                got=returned(value),
            ),
            misconception="wrong-return",
            evidence={"got": returned(value)},
        )
    number = value[key]
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        ctx.fail(
            say(
                "{key!r} 应是一个数，得到 {got}。",
                "{key!r} must be a number, it is {got}.",
                key=key,
                got=returned(number),
            ),
            misconception="wrong-return",
            evidence={"got": returned(number)},
        )
    return float(number)


def _same(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-12)
