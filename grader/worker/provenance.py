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
        wanted, known = list(tensors), list(inputs)
        names = [name for name in self.calls if wanted and self._fed_by(name, known)]
        return [next((name for name in names if self._gave(name, own)), "") for own in wanted]

    def _of(self, name: str) -> list[_Given]:
        return [given for given in self._given if given.operator == name]

    def _fed_by(self, name: str, inputs: list[Tensor]) -> bool:
        """Whether all calls of an operator together were fed with what one of the inputs holds, and nothing else."""
        for parts in zip(*(given.fed for given in self._of(name)), strict=True):
            if all(any(_same(part, own) for own in inputs) for part in parts):
                continue  # as it was given: the usual case, and cheap to see
            together = _kinds(torch.cat([part.flatten() for part in parts]))
            if not any(torch.equal(together, _kinds(own)) for own in inputs):
                return False
        return True

    def _gave(self, name: str, own: Tensor) -> bool:
        """Whether one of an operator's results, over all its calls, holds the values of a tensor."""
        mine = self._of(name)
        if any(_same(given.value, own) for given in mine):
            return True
        for place in sorted({given.place for given in mine}):
            values = [_sorted(given.value) for given in mine if given.place == place]
            if len({x.dtype for x in values}) == 1 and _holds(torch.cat(values).sort().values, _sorted(own)):
                return True
        return False


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().clone()  # what the learner writes into it later is no result of the operator


def _sorted(tensor: Tensor) -> Tensor:
    """The elements as integers, sorted: the same for every layout of the same values."""
    flat = tensor.detach().cpu().flatten()
    integer = INTEGERS.get(flat.element_size())
    return (flat.view(integer) if integer is not None else flat.to(torch.float64)).sort().values


def _same(one: Tensor, other: Tensor) -> bool:
    alike = one.shape == other.shape and one.dtype == other.dtype
    return alike and torch.equal(one.detach().cpu(), other.detach().cpu())


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
