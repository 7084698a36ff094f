"""What goes into a learner's function and what comes out, copied: neither side writes into the other's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.live.device import Device
from grader.subject import Crashed
from grader.worker.provenance import INTEGERS
from grader.worker.provided import Provided, make


class Copies:
    """Copies of nested arguments. Strides and offsets stay, and tensors that share a storage go on sharing one."""

    def __init__(self, device: Device, objects: Sequence[Any] = ()) -> None:
        self.device, self.objects = device, objects
        self._storages: dict[int, tuple[Any, Tensor]] = {}  # address of StorageImpl -> (original, its bytes copied)
        self._tensors: dict[int, tuple[Tensor, Tensor]] = {}  # id -> (original, a view of the copy nobody else has)

    def copy(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            self._tensors[id(value)] = (value, self._twin(value))
            return self._twin(value).requires_grad_(value.requires_grad)
        if isinstance(value, (tuple, list)):
            return type(value)(self.copy(item) for item in value)
        if isinstance(value, dict):
            return {key: self.copy(item) for key, item in value.items()}
        if type(value) is Provided:
            return self._provide(value)
        return value

    def _provide(self, value: Provided) -> Any:
        if value.name != "forward":
            return make(value, self.device.launch)
        module, x = self.objects[value.options["handle"]], self.copy(value.options["x"])
        return torch.no_grad()(lambda: module(x))

    def storages(self) -> list[Any]:
        return [copied.untyped_storage() for _, copied in self._storages.values()]

    def changed(self, value: Any) -> bool:
        """Whether the copy of a tensor somewhere in ``value`` has other bytes than the original."""
        return any(not _same_bytes(*self._tensors[id(tensor)]) for tensor in tensors(value))

    def _twin(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._storages:
            self._storages[storage._cdata] = (storage, self.device.copy(storage))
        return self.device.twin(tensor, self._storages[storage._cdata][1])


def _same_bytes(first: Tensor, second: Tensor) -> bool:
    second = second.cpu()
    integer = INTEGERS.get(first.element_size())
    if integer is None or first.dtype == torch.bool:
        return torch.equal(first, second)
    return torch.equal(first.detach().view(integer), second.detach().view(integer))


def tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)


def plain(value: Any, home: str) -> Any:
    """The value as the wire would bring it: plain CPU tensors (those ``home`` on the device are copied), numbers,
    strings, None and containers of them."""
    if isinstance(value, Tensor):
        is_plain = type(value) in (Tensor, torch.nn.Parameter)
        if not is_plain or value.device.type not in ("cpu", home) or value.layout != torch.strided:
            detail = f"{type(value).__name__} on {value.device.type}, {value.layout}"
            raise Crashed("garbage", f"a plain torch.Tensor is wanted, on {home}, got {detail}")
        return value.detach().to("cpu", copy=True)
    if isinstance(value, (tuple, list)):
        items = (plain(item, home) for item in value)
        return type(value)(items) if type(value) in (tuple, list) else tuple(items)
    if isinstance(value, dict):
        return {key: plain(item, home) for key, item in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise Crashed("garbage", f"tensors and numbers are wanted, got {type(value).__name__}")
