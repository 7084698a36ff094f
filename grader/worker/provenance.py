"""Which operator that is none of torch's gave a value: evidence that an exercise about calling one calls it.

An operator can be called for show, or be fed a result that was computed elsewhere (attention over one key returns v as
it is). So what counts is what it gave when all that it was fed as v, or as upstream gradient, were the caller's values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

FED: dict[str, tuple[int, ...]] = {  # operator -> positions of v and of the upstream gradient
    "cann_ops_transformer.flash_attn": (2,),
    "cann_ops_transformer.flash_attn_grad": (2, 3),
    "npu.npu_fusion_attention": (2,),
    "npu.npu_fusion_attention_grad": (2, 3),
}
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes of an element


class _Given(NamedTuple):
    operator: str
    place: int  # among the operator's results
    value: Tensor
    fed: list[Tensor]


class Provenance:
    """Told of every call of such an operator, then asked."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}
        self._given: list[_Given] = []

    def note(self, operator: str, args: Any, result: Any) -> None:
        self.calls[operator] = self.calls.get(operator, 0) + 1
        fed = [_copy(args[place]) for place in FED.get(operator, ()) if place < len(args)]
        for place, value in enumerate(result if isinstance(result, (tuple, list)) else (result,)):
            if isinstance(value, Tensor):
                self._given.append(_Given(operator, place, _copy(value), fed))

    def origins(self, tensors: Iterable[Tensor], inputs: Iterable[Tensor]) -> list[str]:
        """For each tensor the operator whose calls together gave all its values, in whatever layout and perhaps among
        others, from values of the ``inputs``; "" for none."""
        pools = list(self._pools([_kinds(x) for x in inputs]))
        return [next((name for name, pool in pools if _holds(pool, own)), "") for own in map(_sorted, tensors)]

    def _pools(self, inputs: list[Tensor]) -> Iterable[tuple[str, Tensor]]:
        """By operator and place among its results: all values that it gave, sorted."""
        for name in self.calls:
            mine = [given for given in self._given if given.operator == name]
            by_argument = zip(*(given.fed for given in mine), strict=True)
            fed = [torch.cat([x.flatten() for x in parts]) for parts in by_argument]
            if all(any(torch.equal(_kinds(x), own) for own in inputs) for x in fed):
                for place in sorted({given.place for given in mine}):
                    values = [_sorted(given.value) for given in mine if given.place == place]
                    if len({x.dtype for x in values}) == 1:
                        yield name, torch.cat(values).sort().values


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().clone()  # what the learner writes into it later is no result of the operator


def _sorted(tensor: Tensor) -> Tensor:
    """The elements as integers, sorted: the same for every layout of the same values."""
    flat = tensor.detach().cpu().flatten()
    integer = INTEGERS.get(flat.element_size())
    return (flat.view(integer) if integer is not None else flat.to(torch.float64)).sort().values


def _kinds(tensor: Tensor) -> Tensor:
    """Which values there are, without zeros: the same for every layout, repetition and padding."""
    flat = tensor.detach().cpu().flatten()
    return flat[flat != 0].unique()


def _holds(pool: Tensor, part: Tensor) -> bool:
    """Whether the sorted ``pool`` holds each value of the sorted ``part`` at least as often."""
    if pool.dtype != part.dtype or len(part) > len(pool):
        return False
    values, counts = part.unique_consecutive(return_counts=True)
    there = torch.searchsorted(pool, values, right=True) - torch.searchsorted(pool, values)
    return bool((there >= counts).all())
