"""Is a returned tensor right? Kind, shape, dtype first, then values against a float64 expectation.

The tolerance follows flash-attention's own tests: a right answer may err a small multiple of what plain PyTorch in the
same dtype errs on the same inputs, and never less than rounding alone explains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor

from grader.text import Text, say
from grader.vocabulary import Context

ACCUMULATE = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


def accumulate_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which sums are kept for inputs of ``dtype``: float32 for half precisions, else the same."""
    return ACCUMULATE.get(dtype, dtype)


def eps(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps


def rounding(dtype: torch.dtype) -> float:
    """What storing one result in ``dtype`` may cost, relative to the largest value.

    Half precisions get two units: one for the result, one for weights that were cast before the product with V, as
    the hardware does it.
    """
    return 4 * eps(dtype) if accumulate_dtype(dtype) == dtype else 2 * eps(dtype)


def tolerance(
    oracle: Tensor,
    plains: Iterable[Tensor],
    *,
    dtype: torch.dtype,
    logits: float,
    magnitude: float,
    factor: float = 2.0,
) -> float:
    """``max(factor * largest plain error, (2 * eps * (1 + logits) + rounding) * magnitude)``.

    ``plains`` are same-dtype computations with float32 sums, ``logits`` bounds the sum of |q||k| times the scale,
    ``magnitude`` the size of what is summed. float64 has no better oracle than float64, hence its wider bound.
    """
    measured = max((largest_error(plain, oracle) for plain in plains), default=0.0)
    slack = 50.0 if dtype == torch.float64 else 1.0
    unit = eps(accumulate_dtype(dtype))
    bound = (2 * unit * (1 + logits) + rounding(dtype)) * magnitude
    return max(factor * measured if math.isfinite(measured) else 0.0, bound) * slack


def error_of(got: Tensor, want: Tensor) -> Tensor:
    """|got - want| in float64; 0 where both are the same infinity or both NaN, inf where only one is not finite."""
    a, b = got.detach().to(torch.float64), want.detach().to(torch.float64)
    same = (a == b) | (a.isnan() & b.isnan())
    return torch.where(same, 0.0, (a - b).abs()).nan_to_num(nan=math.inf, posinf=math.inf)


def largest(error: Tensor) -> float:
    return float(error.max()) if error.numel() else 0.0


def largest_error(got: Tensor, want: Tensor) -> float:
    """The maximum of :func:`error_of`."""
    if not want.numel():
        return 0.0
    error = float((got.detach().to(torch.float64) - want).abs_().max())
    return error if math.isfinite(error) else largest(error_of(got, want))  # most tensors are finite


def distance(got: Tensor, want: Tensor) -> float:
    """The largest error, ``inf`` when the shapes differ."""
    return largest_error(got, want) if got.shape == want.shape else math.inf


@dataclass(frozen=True)
class Expected:
    """What one returned tensor must be. ``value`` is the float64 oracle."""

    name: str
    value: Tensor
    tol: float
    dtype: torch.dtype
    rows: int = 0  # rows (dimension -2) per tile of the error picture; 0 = no picture
    columns: int = 0  # the check's block_kv, for the caption


def spell(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def number(value: float) -> float | str:
    """A number that JSON can hold."""
    return value if math.isfinite(value) else str(value)


def returned(value: Any) -> str:
    """One line saying what a returned object is: ``float32 [2, 3]``, ``tuple of 2``, ``None``."""
    if isinstance(value, Tensor):
        return f"{spell(value.dtype)} {list(value.shape)}"
    if isinstance(value, (tuple, list)):
        items = [returned(item) for item in value[:4]] + ["..."] * (len(value) > 4)
        return f"{type(value).__name__}({', '.join(items)})"
    if isinstance(value, dict):
        return f"dict({', '.join(map(str, list(value)[:6]))})"
    return repr(value)[:60]


def require_tensors(ctx: Context, value: Any, names: tuple[str, ...]) -> tuple[Tensor, ...]:
    """``value`` must be one tensor (one name) or a tuple or list of as many tensors as there are names."""
    items = (value,) if len(names) == 1 else tuple(value) if isinstance(value, (tuple, list)) else ()
    if len(items) != len(names) or not all(isinstance(item, Tensor) for item in items):
        _wrong_return(ctx, value, names)
    return items


def _wrong_return(ctx: Context, value: Any, names: tuple[str, ...]) -> NoReturn:
    want = names[0] if len(names) == 1 else f"({', '.join(names)})"
    if value is None:
        ctx.fail(
            say(
                "函数返回了 None：是不是漏了 return？应返回 {want}。",
                "The function returned None: is a return missing? It must return {want}.",
                want=want,
            ),
            misconception="wrong-return",
            evidence={"got": "None"},
        )
    ctx.fail(
        say(
            "应返回张量 {want}，得到的是 {got}。",
            "It must return {want} (tensors), it returned {got}.",
            want=want,
            got=returned(value),
        ),
        misconception="wrong-return",
        evidence={"got": returned(value)},
    )


def require_like(
    ctx: Context,
    got: Tensor,
    expected: Expected,
    *,
    shapes: Mapping[tuple[int, ...], str] | None = None,
    dtypes: Mapping[torch.dtype, str] | None = None,
    case: Text | None = None,
    otherwise: Callable[[], str | None] = lambda: None,
) -> None:
    """Shape, dtype and device. ``shapes`` and ``dtypes`` name ideas that a certain wrong shape or dtype gives away,
    ``otherwise()`` the idea behind any other wrong shape."""
    evidence: dict[str, Any] = {"case": str(case)} if case else {}
    want = tuple(expected.value.shape)
    if tuple(got.shape) != want:
        ctx.fail(
            say(
                "{name} 的形状应是 {want}，得到的是 {got}。",
                "{name} must have shape {want}, it has {got}.",
                name=expected.name,
                want=list(want),
                got=list(got.shape),
            ),
            misconception=(shapes or {}).get(tuple(got.shape)) or otherwise() or "wrong-shape",
            evidence={**evidence, "shape": list(got.shape), "expected": list(want)},
        )
    if got.dtype != expected.dtype:
        ctx.fail(
            say(
                "{name} 的 dtype 应是 {want}，得到的是 {got}。",
                "{name} must be {want}, it is {got}.",
                name=expected.name,
                want=spell(expected.dtype),
                got=spell(got.dtype),
            ),
            misconception=(dtypes or {}).get(got.dtype, "wrong-dtype"),
            evidence={**evidence, "expected": spell(expected.dtype), "got": spell(got.dtype)},
        )
    if got.device != expected.value.device:
        ctx.fail(
            say(
                "{name} 应在 {want} 上，却在 {got} 上。",
                "{name} must be on {want}, it is on {got}.",
                name=expected.name,
                want=expected.value.device,
                got=got.device,
            ),
            evidence=evidence,
        )


def right(got: Tensor, expected: Expected) -> bool:
    return (
        got.shape == expected.value.shape
        and got.dtype == expected.dtype
        and largest_error(got, expected.value) <= expected.tol
    )


def evidence_of(got: Tensor, expected: Expected, case: Text | None = None) -> dict[str, Any]:
    """The largest error, where it is, what stands there, and the error by tile."""
    error = error_of(got, expected.value)
    index = [int(i) for i in torch.unravel_index(error.argmax(), error.shape)] if error.dim() else []
    place = tuple(index)
    evidence: dict[str, Any] = {
        "tensor": expected.name,
        "max_error": number(largest(error)),
        "tolerance": number(expected.tol),
        "index": index,
        "expected": number(float(expected.value[place])),
        "got": number(float(got[place])),
    }
    if case:
        evidence["case"] = str(case)
    if expected.rows and error.dim() >= 2:
        evidence["tile_errors"] = tile_errors(error, expected.rows, expected.columns)
    return evidence


def tile_errors(error: Tensor, rows: int, columns: int) -> dict[str, Any]:
    """The largest error of each tile of ``rows`` rows (first axis) in each batch and head (second axis)."""
    flat = error.reshape(-1, *error.shape[-2:])
    table = [[number(largest(head)) for head in part] for part in flat.split(rows, dim=1)]
    return {"block_q": rows, "block_kv": columns, "errors": table}


def describe(got: Tensor, expected: Expected) -> Text:
    """One sentence: how wrong, and where."""
    error = error_of(got, expected.value)
    index = [int(i) for i in torch.unravel_index(error.argmax(), error.shape)]
    place = tuple(index)
    wrong = error > expected.tol
    share = 100 * float(wrong.double().mean())
    bad = int(got.to(torch.float64).isnan().sum())
    values = {
        "name": expected.name,
        "share": f"{share:.0f}" if share >= 1 else "<1",
        "error": f"{largest(error):.2g}",
        "tol": f"{expected.tol:.1g}",
        "index": index,
        "want": f"{float(expected.value[place]):.5g}",
        "got": f"{float(got[place]):.5g}",
        "bad": bad,
    }
    if bad and not expected.value.isnan().any():
        text = say("{name} 里有 {bad} 个 NaN。", "{name} holds {bad} NaN.", **values)
    else:
        text = say(
            "{name} 有 {share}% 的元素不对，最大误差 {error}（容差 {tol}），在 {index} 处应为 {want}，得到 {got}。",
            "{name} is wrong in {share}% of its elements; the largest error is {error} (tolerance {tol}), at {index}: "
            "expected {want}, got {got}.",
            **values,
        )
    first = first_bad_tile(wrong, expected.rows)
    return text if first is None else text.plus(first)


def first_bad_tile(wrong: Tensor, rows: int) -> Text | None:
    """Which tile of rows goes wrong first; None when every tile does, since then the place says nothing."""
    if not rows or wrong.dim() < 2:
        return None
    by_row = wrong.any(dim=-1).reshape(-1, wrong.shape[-2]).any(dim=0)
    bad = [bool(part.any()) for part in by_row.split(rows)]
    if all(bad) or not any(bad):
        return None
    i = bad.index(True)
    return say(
        "第一个出错的行块是第 {i} 块（第 {a} 到 {b} 行）。",
        "The first wrong tile of rows is number {i} (rows {a} to {b}).",
        i=i,
        a=i * rows,
        b=min((i + 1) * rows, wrong.shape[-2]) - 1,
    )
