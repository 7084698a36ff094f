"""How an operator of torch runs on the device: on the CPU's own kernel, over the same memory.

A kernel is made from an operator's schema. It turns tensors of the device into their aliases on the CPU, calls the
operator once and hands the results over to the device. What is written in place is written through the alias.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kernels.ascend.device import refusals, rng
from kernels.ascend.device.alias import CPU, cpu_alias
from kernels.ascend.device.memory import on_npu
from kernels.ascend.device.refusals import OnCpu
from kernels.ascend.device.storage import adopt, follow

Kernel = Callable[..., Any]

INDICES = "List[Optional[Tensor]]"  # indices may lie on the CPU
GROWS = "not resizable"  # what torch says when an alias would have to grow


def kernel_for(op: Any) -> Kernel:
    """The kernel of one operator (an OpOverload)."""
    arguments = op._schema.arguments
    written = [argument for argument in arguments if argument.alias_info and argument.alias_info.is_write]
    if any(argument.is_out for argument in written):
        kernel = _into_outs(op, [argument.name for argument in written if argument.is_out])
    elif written:
        kernel = _in_place(op)
    elif any(str(argument.type) == INDICES for argument in arguments):
        kernel = _indexing(op)
    elif any("Device" in str(argument.type) for argument in arguments):
        kernel = _factory(op)
    else:
        kernel = _plain(op)
    for place, argument in enumerate(arguments):
        if argument.name == "generator":
            kernel = _drawing(kernel, place)
    return kernel


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


def _handed_over(result: Any) -> Any:
    if isinstance(result, Tensor):
        return on_npu(result)
    if isinstance(result, (tuple, list)):
        return tuple(map(_handed_over, result)) if type(result) is not list else list(map(_handed_over, result))
    return result


def _plain(op: Any) -> Kernel:
    call = op._op

    def plain(*args: Any, **kwargs: Any) -> Any:
        try:
            args_on_cpu = map(_to_cpu, args)
            if kwargs:
                result = call(*args_on_cpu, **{name: _to_cpu(value) for name, value in kwargs.items()})
            else:
                result = call(*args_on_cpu)
        except OnCpu:
            raise refusals.mixed_devices(op, args, kwargs) from None
        return _handed_over(result)

    return plain


def _factory(op: Any) -> Kernel:
    call = op._op

    def factory(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if isinstance(value, torch.device):
                refusals.check_index(value)
        args = tuple(CPU if isinstance(value, torch.device) else value for value in args)
        kwargs = {name: CPU if isinstance(value, torch.device) else value for name, value in kwargs.items()}
        return _handed_over(call(*args, **kwargs))

    return factory


def _indexing(op: Any) -> Kernel:
    call = op._op

    def indexing(this: Tensor, indices: Any, *rest: Any, **kwargs: Any) -> Any:
        if this.is_cpu:
            raise refusals.mixed_devices(op, (this,), {})
        on_cpu = [cpu_alias(index) if index is not None and not index.is_cpu else index for index in indices]
        try:
            result = call(cpu_alias(this), on_cpu, *map(_to_cpu, rest), **kwargs)
        except OnCpu:
            raise refusals.mixed_devices(op, (this, None, *rest), {}) from None
        return _handed_over(result)

    return indexing


def _in_place(op: Any) -> Kernel:
    call = op._op
    arguments = op._schema.arguments
    indices = {place for place, argument in enumerate(arguments) if str(argument.type) == INDICES}
    written = {argument.name for argument in arguments if argument.alias_info and argument.alias_info.is_write}
    returned = [_written_by(op, result) for result in op._schema.returns]
    names = [argument.name for argument in arguments]

    def in_place(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args)) | kwargs
        try:
            if any(isinstance(given.get(name), Tensor) and given[name].is_cpu for name in written):
                raise OnCpu
            on_cpu = [
                [cpu_alias(x) if x is not None and not x.is_cpu else x for x in value]
                if place in indices
                else _to_cpu(value)
                for place, value in enumerate(args)
            ]
            result = call(*on_cpu, **{name: _to_cpu(value) for name, value in kwargs.items()})
        except OnCpu:
            raise refusals.mixed_devices(op, args, kwargs) from None
        if len(returned) == 1:
            return given[returned[0]] if returned[0] else _handed_over(result)
        if not returned:
            return None
        return tuple(given[name] if name else _handed_over(value) for name, value in zip(returned, result))

    return in_place


def _written_by(op: Any, result: Any) -> str | None:
    """The argument that a return value is, None if it is a fresh tensor."""
    if result.alias_info is None:
        return None
    for argument in op._schema.arguments:
        if argument.alias_info and argument.alias_info.before_set == result.alias_info.before_set:
            return argument.name
    return None


def _into_outs(op: Any, outs: list[str]) -> Kernel:
    call = op._op

    def into_outs(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name) for name in outs}
        try:
            on_cpu = list(map(_to_cpu, args))
            named = {name: _to_cpu(value) for name, value in kwargs.items()}
            targets = {name: _target(value) for name, value in given.items()}
        except OnCpu:
            raise refusals.mixed_devices(op, args, kwargs | given) from None
        try:
            call(*on_cpu, **named, **targets)
        except RuntimeError as error:
            if GROWS not in str(error):
                raise
            targets = {name: _empty_like(value) for name, value in given.items()}
            call(*on_cpu, **named, **targets)
        for name, value in given.items():
            _take(value, targets[name])
        return given[outs[0]] if len(outs) == 1 else tuple(given.values())

    return into_outs


def _target(out: Any) -> Any:
    """What the CPU's kernel writes into: the memory of out; for an empty one a tensor that may grow."""
    if isinstance(out, Tensor):
        if out.is_cpu:
            raise OnCpu
        return cpu_alias(out) if out.numel() else _empty_like(out)
    return [_target(item) for item in out]


def _empty_like(out: Any) -> Any:
    if isinstance(out, Tensor):
        return torch.empty(out.shape if not out.numel() else 0, dtype=out.dtype, device=CPU)
    return [_empty_like(item) for item in out]


def _take(out: Any, target: Any) -> None:
    """Make out what the kernel made of its target: other sizes, or memory of its own."""
    if not isinstance(out, Tensor):
        for one, other in zip(out, target):
            _take(one, other)
    elif target.data_ptr() != out.data_ptr():
        adopt(out, on_npu(target))
    elif target.shape != out.shape or target.stride() != out.stride():
        follow(out, target)


def _drawing(kernel: Kernel, place: int) -> Kernel:
    """Draw from the device's generator, unless another of the device is given."""

    def drawing(*args: Any, **kwargs: Any) -> Any:
        if len(args) > place:
            return kernel(*args[:place], rng.checked(args[place]), *args[place + 1 :], **kwargs)
        kwargs["generator"] = rng.checked(kwargs.get("generator"))
        return kernel(*args, **kwargs)

    return drawing
