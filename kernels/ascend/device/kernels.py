"""How an operator of torch runs on the device: on the CPU's own kernel, over the same memory.

A kernel is made from an operator's schema. It turns tensors of the device into their aliases on the CPU, calls the
operator once and hands fresh results over to the device. What is written in place is written through the alias.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from kernels.ascend.device import queue, refusals, rng
from kernels.ascend.device.alias import CPU, cpu_alias
from kernels.ascend.device.memory import on_npu
from kernels.ascend.device.outs import GROWS, fresh, take, target_of
from kernels.ascend.device.refusals import OnCpu
from kernels.ascend.device.shared import Shared, overlap

Kernel = Callable[..., Any]

INDICES = "List[Optional[Tensor]]"  # the type of indices


def kernel_for(op: Any) -> Kernel:
    """The kernel of one operator (an OpOverload)."""
    arguments = op._schema.arguments
    written = [place for place, argument in enumerate(arguments) if _is_written(argument)]
    if any(arguments[place].is_out for place in written):
        kernel = _into_outs(op, [arguments[place].name for place in written if arguments[place].is_out])
    elif written:
        kernel = _in_place(op, written)
    elif any(argument.name == "device" for argument in arguments):
        kernel = _factory(op)
    else:
        kernel = _plain(op)
    if op._schema.returns and not any("Tensor" in str(result.type) for result in op._schema.returns):
        kernel = _answering(kernel)
    for place, argument in enumerate(arguments):
        if argument.name == "generator":
            kernel = _drawing(kernel, place)
    return kernel


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _to_cpu(value: Any) -> Any:
    if isinstance(value, Tensor):
        if not value.is_cpu:
            return cpu_alias(value)
        if value.dim():  # a tensor of one number may come from the CPU, as on a card
            raise OnCpu
        return value
    if type(value) in (list, tuple):
        return [_to_cpu(item) for item in value]
    return value


_all_to_cpu = functools.partial(map, _to_cpu)


def _converter(op: Any) -> Callable[[tuple[Any, ...]], Iterable[Any]]:
    """From positional arguments to those for the CPU. Indices may lie there already, if what they index does not."""
    arguments = enumerate(op._schema.arguments)
    lists = [place for place, argument in arguments if argument.name == "indices" and str(argument.type) == INDICES]
    if not lists:
        return _all_to_cpu

    def convert(args: tuple[Any, ...]) -> Iterable[Any]:
        if args[0].is_cpu:
            raise OnCpu
        for place, value in enumerate(args):
            if place in lists:
                yield [index if index is None or index.is_cpu else cpu_alias(index) for index in value]
            else:
                yield _to_cpu(value)

    return convert


def _handed_over(result: Any) -> Any:
    if isinstance(result, Tensor):
        return on_npu(result)
    if type(result) is list:
        return [_handed_over(item) for item in result]
    if isinstance(result, tuple):
        return tuple([_handed_over(item) for item in result])
    return result


def _plain(op: Any) -> Kernel:
    call, convert = op._op, _converter(op)

    def plain(*args: Any, **kwargs: Any) -> Any:
        try:
            if kwargs:
                result = call(*convert(args), **{name: _to_cpu(value) for name, value in kwargs.items()})
            else:
                result = call(*convert(args))
        except OnCpu:
            raise refusals.mixed_devices(op, args, kwargs) from None
        return _handed_over(result)

    return plain


def _factory(op: Any) -> Kernel:
    """For operators that are told the device."""
    call = op._op

    def on_cpu(value: Any) -> Any:
        if not isinstance(value, torch.device):
            return value
        refusals.check_device(value)
        return CPU

    def factory(*args: Any, **kwargs: Any) -> Any:
        return _handed_over(call(*map(on_cpu, args), **{name: on_cpu(value) for name, value in kwargs.items()}))

    return factory


def _in_place(op: Any, written: list[int]) -> Kernel:
    call, convert = op._op, _converter(op)
    returned = [_place_of(op, result) for result in op._schema.returns]

    def in_place(*args: Any, **kwargs: Any) -> Any:
        try:
            to_cpu = convert
            for place in written:
                if isinstance(args[place], Tensor):
                    if args[place].is_cpu:
                        raise OnCpu
                    if overlap(args[place], args[:place] + args[place + 1 :]):
                        to_cpu = Shared().to_cpu
            result = call(*to_cpu(args), **{name: _to_cpu(value) for name, value in kwargs.items()})
        except OnCpu:
            raise refusals.mixed_devices(op, args, kwargs) from None
        if len(returned) == 1:
            return _handed_over(result) if returned[0] is None else args[returned[0]]
        if returned:
            return tuple(
                _handed_over(value) if place is None else args[place] for place, value in zip(returned, result)
            )
        return None

    return in_place


def _place_of(op: Any, result: Any) -> int | None:
    """Which argument a return value is; None for a fresh tensor."""
    if result.alias_info is not None:
        for place, argument in enumerate(op._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.before_set == result.alias_info.before_set:
                return place
    return None


def _into_outs(op: Any, outs: list[str]) -> Kernel:
    """For the variants with out=."""
    call, convert = op._op, _converter(op)

    def into_outs(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name) for name in outs}
        shared = Shared()
        try:
            apart = not any(overlap(out, args) for out in given.values() if isinstance(out, Tensor))
            on_cpu = list(convert(args)) if apart else shared.to_cpu(args)
            named = {name: _to_cpu(value) for name, value in kwargs.items()}
            targets = {name: target_of(out, shared) for name, out in given.items()}
        except OnCpu:
            raise refusals.mixed_devices(op, args, kwargs | given) from None
        try:
            call(*on_cpu, **named, **targets)
        except RuntimeError as error:
            if GROWS not in str(error):
                raise
            targets = {name: fresh(out) for name, out in given.items()}
            call(*on_cpu, **named, **targets)
        for name, out in given.items():
            take(out, targets[name])
        return given[outs[0]] if len(outs) == 1 else tuple(given.values())

    return into_outs


def _answering(kernel: Kernel) -> Kernel:
    """Results that are no tensors leave the device: the program waits for them."""

    def answering(*args: Any, **kwargs: Any) -> Any:
        queue.wait()
        return kernel(*args, **kwargs)

    return answering


def _drawing(kernel: Kernel, place: int) -> Kernel:
    """Draw from the device's generator, unless another of the device is given."""

    def drawing(*args: Any, **kwargs: Any) -> Any:
        if len(args) > place:
            return kernel(*args[:place], rng.checked(args[place]), *args[place + 1 :], **kwargs)
        kwargs["generator"] = rng.checked(kwargs.get("generator"))
        return kernel(*args, **kwargs)

    return drawing
