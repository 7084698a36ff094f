"""Frames between the judge and a worker: a JSON header, then the raw bytes of tensor storages. Never pickle.

    | "FDJ1" | header length: u32 | payload length: u64 | header (JSON) | storage 0 | storage 1 | ...

The header is ``{"head": plain JSON, "body": tree, "tensors": [[storage, dtype, shape, stride, offset]], "storages":
[bytes]}``. In the tree a scalar stands for itself, everything else is a tagged list: ``["l", [...]]`` list,
``["t", [...]]`` tuple, ``["d", [[key, value], ...]]`` dict, ``["T", i]`` tensor i, and, to a worker only,
``["P", [name, options]]`` a :class:`.provided.Provided`. Tensors that share a storage share it on the other side too,
and strides and offsets are kept.

The reader trusts nothing: sizes, counts, depth, dtype names and shapes are checked before they are used.
"""

from __future__ import annotations

import ctypes
import json
import math
import re
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .provided import Provided

PREFIX = struct.Struct("<4sIQ")
MAGIC = b"FDJ1"
HEADER_CAP = 8 << 20  # bytes of JSON
PAYLOAD_CAP = 64 << 20  # bytes of tensors, and of any one tensor when it is written out in full
JOINED_CAP = 256 << 10  # bytes of tensors that are copied to go out in one piece, which wakes the reader once
DEPTH_CAP = 16
NODE_CAP = 400_000
STRING_CAP = 20_000
INTEGER_BITS = 127

DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name)
    for name in (
        "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
        "bool", "uint8", "int8", "int16", "int32", "int64",
    )
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}

Send = Callable[[Any], None]  # sends all of a buffer
Fill = Callable[[memoryview], None]  # fills all of a buffer


class Unsendable(Exception):
    """A value has no form on the wire. ``reason`` as in :class:`grader.subject.Crashed`: garbage or too_large."""

    def __init__(self, reason: str, detail: str):
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


class Garbage(Exception):
    """What arrived is not a frame."""


class TooLarge(Garbage):
    """What arrived is larger than any answer may be."""


class Frame(NamedTuple):
    head: dict[str, Any]
    body: Any
    storages: list[torch.UntypedStorage]  # as received, in order


def as_buffer(storage: torch.UntypedStorage) -> memoryview:
    """The bytes of a CPU storage, without numpy and without a copy. The caller keeps the storage alive."""
    size = storage.nbytes()
    if size == 0:
        return memoryview(bytearray())
    return memoryview((ctypes.c_char * size).from_address(storage.data_ptr())).cast("B")


class Packer:
    """Turns a value into a tree, collecting its tensors."""

    def __init__(self) -> None:
        self.tensors: list[list[Any]] = []
        self.storages: list[torch.UntypedStorage] = []
        self._known: dict[int, int] = {}
        self._nodes = 0

    def tree(self, value: Any, depth: int = 0) -> Any:
        kind = type(value)
        self._nodes += 1
        if depth > DEPTH_CAP:
            raise Unsendable("garbage", f"nested deeper than {DEPTH_CAP}")
        if self._nodes > NODE_CAP:
            raise Unsendable("too_large", f"more than {NODE_CAP} values")
        if value is None or kind is bool or kind is float:
            return value
        if kind is Tensor or kind is torch.nn.Parameter:
            return ["T", self._tensor(value)]
        if issubclass(kind, int):
            number = int.__int__(value)
            if number.bit_length() > INTEGER_BITS:
                raise Unsendable("garbage", f"an integer of {number.bit_length()} bits")
            return number
        if issubclass(kind, float):
            return float.__float__(value)
        if issubclass(kind, str):
            text = str.__str__(value)
            if len(text) > STRING_CAP:
                raise Unsendable("too_large", f"a string of {len(text)} characters")
            return text
        if issubclass(kind, tuple):
            return ["t", [self.tree(item, depth + 1) for item in tuple.__iter__(value)]]
        if issubclass(kind, list):
            return ["l", [self.tree(item, depth + 1) for item in list.__iter__(value)]]
        if issubclass(kind, dict):
            return ["d", [[self._key(k), self.tree(v, depth + 1)] for k, v in dict.items(value)]]
        if kind is Provided:
            return ["P", [value.name, self.tree(dict(value.options), depth + 1)]]
        if kind.__module__ == "numpy" and hasattr(kind, "item") and getattr(value, "ndim", None) == 0:
            return self.tree(value.item(), depth + 1)
        raise Unsendable("garbage", kind.__qualname__ if kind.__module__ == "builtins" else describe(kind))

    def _key(self, key: Any) -> Any:
        sound = key.bit_length() <= INTEGER_BITS if type(key) is int else type(key) is str and len(key) <= 200
        if not sound:
            raise Unsendable("garbage", f"a dict key of type {type(key).__qualname__}")
        return key

    def _tensor(self, tensor: Tensor) -> int:
        if tensor.layout is not torch.strided:
            raise Unsendable("garbage", f"a tensor of layout {tensor.layout}")
        if tensor.device.type != "cpu":
            raise Unsendable("garbage", f"a tensor on the device {tensor.device}")
        if tensor.dtype not in NAMES:
            raise Unsendable("garbage", f"a tensor of {tensor.dtype}")
        if tensor.numel() * tensor.element_size() > PAYLOAD_CAP:
            raise Unsendable("too_large", f"a tensor of shape {tuple(tensor.shape)}")
        tensor = tensor.detach().resolve_conj().resolve_neg()
        storage = tensor.untyped_storage()
        index = self._known.get(storage._cdata)
        if index is None:
            index = self._known[storage._cdata] = len(self.storages)
            self.storages.append(storage)
        self.tensors.append(
            [index, NAMES[tensor.dtype], list(tensor.shape), list(tensor.stride()), tensor.storage_offset()]
        )
        return len(self.tensors) - 1


def describe(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"[:200]


def send(write: Send, head: dict[str, Any], body: Any = None) -> list[torch.UntypedStorage]:
    """Send one frame; returns the storages it carried. May raise :class:`Unsendable` before anything is sent."""
    packer = Packer()
    tree = packer.tree(body)
    sizes = [storage.nbytes() for storage in packer.storages]
    if sum(sizes) > PAYLOAD_CAP:
        raise Unsendable("too_large", f"{sum(sizes)} bytes of tensors")
    header = json.dumps({"head": head, "body": tree, "tensors": packer.tensors, "storages": sizes}).encode("ascii")
    if len(header) > HEADER_CAP:
        raise Unsendable("too_large", f"a header of {len(header)} bytes")
    tensors = [as_buffer(storage) for storage in packer.storages if storage.nbytes()]
    parts: list[Any] = [PREFIX.pack(MAGIC, len(header), sum(sizes)), header, *tensors]
    if sum(sizes) <= JOINED_CAP:
        parts = [b"".join(parts)]
    for part in parts:
        write(part)
    return packer.storages


def receive(fill: Fill, *, provided: bool = False) -> Frame:
    """Read one frame. Raises :class:`Garbage` when it is not one; what ``fill`` raises passes through. ``provided``:
    whether callables may be in it, which only the judge hands out."""
    prefix = bytearray(PREFIX.size)
    fill(memoryview(prefix))
    magic, header_size, payload_size = PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise Garbage("not a frame")
    if header_size > HEADER_CAP or payload_size > PAYLOAD_CAP:
        raise TooLarge(f"a frame of {header_size + payload_size} bytes")
    raw = bytearray(header_size)
    fill(memoryview(raw))
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Garbage(f"the header is not JSON: {type(error).__name__}") from None
    _expect(type(header) is dict and set(header) == {"head", "body", "tensors", "storages"}, "header fields")
    head, sizes = header["head"], header["storages"]
    _expect(type(head) is dict, "head")
    _expect(type(sizes) is list and all(_natural(n) for n in sizes) and sum(sizes) == payload_size, "storage sizes")
    _expect(type(header["tensors"]) is list and len(header["tensors"]) <= NODE_CAP, "tensor list")
    storages = []
    for size in sizes:
        storage = torch.UntypedStorage(size)
        fill(as_buffer(storage))
        storages.append(storage)
    tensors = [_build(entry, storages) for entry in header["tensors"]]
    return Frame(head, _Reader(tensors, provided).value(header["body"]), storages)


def _build(entry: Any, storages: list[torch.UntypedStorage]) -> Tensor:
    _expect(type(entry) is list and len(entry) == 5, "tensor entry")
    index, name, shape, stride, offset = entry
    _expect(_natural(index) and index < len(storages), "storage index")
    _expect(type(name) is str and name in DTYPES, "dtype")
    _expect(type(shape) is list and type(stride) is list and len(shape) == len(stride) <= 32, "dimensions")
    _expect(all(_natural(n) for n in shape) and all(_natural(n) for n in stride) and _natural(offset), "geometry")
    size = DTYPES[name].itemsize
    if math.prod(shape) * size > PAYLOAD_CAP:
        raise TooLarge(f"a tensor of shape {tuple(shape)}"[:200])
    if math.prod(shape):
        last = offset + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
        _expect((last + 1) * size <= storages[index].nbytes(), "tensor outside its storage")
    else:
        stride, offset = [1] * len(shape), 0
    return torch.empty(0, dtype=DTYPES[name]).set_(storages[index], offset, shape, stride)


class _Reader:
    def __init__(self, tensors: list[Tensor], provided: bool):
        self._tensors, self._provided, self._nodes = tensors, provided, 0

    def value(self, node: Any, depth: int = 0) -> Any:
        self._nodes += 1
        _expect(depth <= DEPTH_CAP + 1 and self._nodes <= NODE_CAP, "too deep or too many values")
        kind = type(node)
        if node is None or kind is bool or kind is float:
            return node
        if kind is int:
            _expect(node.bit_length() <= INTEGER_BITS, "integer")
            return node
        if kind is str:
            return clean(node, STRING_CAP)
        _expect(kind is list and len(node) == 2 and type(node[0]) is str, "node")
        tag, content = node
        if tag == "T":
            _expect(_natural(content) and content < len(self._tensors), "tensor index")
            return self._tensors[content]
        _expect(type(content) is list, "node content")
        if tag == "P":
            _expect(self._provided and len(content) == 2 and type(content[0]) is str, "callable")
            return Provided(content[0], self.value(content[1], depth + 1))
        if tag == "l":
            return [self.value(item, depth + 1) for item in content]
        if tag == "t":
            return tuple(self.value(item, depth + 1) for item in content)
        _expect(tag == "d", "tag")
        _expect(all(type(p) is list and len(p) == 2 and type(p[0]) in (str, int) for p in content), "pairs")
        return {clean(k, 200) if type(k) is str else k: self.value(v, depth + 1) for k, v in content}


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def clean(text: Any, cap: int) -> str:
    """A string that is safe to show and to encode: no lone surrogates, no terminal controls, at most ``cap`` long."""
    text = text if type(text) is str else ""
    text = text[:cap].encode("utf-8", "replace").decode("utf-8")
    return _CONTROL.sub("\ufffd", text)


def _natural(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _expect(true: bool, what: str) -> None:
    if not true:
        raise Garbage(what)
