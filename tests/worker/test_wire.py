from __future__ import annotations

import contextlib
import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.worker import wire


def to_bytes(head, body=None) -> bytearray:
    data = bytearray()
    wire.send(data.extend, head, body)
    return data


def from_bytes(data) -> wire.Frame:
    rest = memoryview(bytes(data))

    def fill(buffer: memoryview) -> None:
        nonlocal rest
        if len(rest) < len(buffer):
            raise EOFError
        buffer[:], rest = rest[: len(buffer)], rest[len(buffer) :]

    return wire.receive(fill)


def there_and_back(body):
    return from_bytes(to_bytes({}, body)).body


def test_plain_values_come_back_as_they_were():
    value = [None, True, 0, -(2**63), 1.5, float("inf"), "q·k", ("a", [1, (2,)]), {"x": 1, 3: (4,)}]
    assert there_and_back(value) == value


def test_nan_comes_back():
    assert there_and_back(float("nan")) != there_and_back(0.0)


@pytest.mark.parametrize("dtype", list(wire.DTYPES.values()))
def test_every_dtype_comes_back_with_the_same_bits(dtype):
    tensor = torch.arange(12).reshape(3, 4).to(dtype)
    back = there_and_back(tensor)
    assert back.dtype == dtype
    assert torch.equal(back, tensor)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1)])
def test_odd_shapes(shape):
    assert there_and_back(torch.ones(shape)).shape == shape


def test_strides_offset_and_shared_storage_are_kept():
    whole = torch.randn(6, 8)
    turned, part, again = there_and_back((whole.t(), whole[2:5, ::2], whole))
    assert turned.stride() == (1, 8)
    assert (part.stride(), part.storage_offset()) == ((8, 2), 16)
    assert torch.equal(part, whole[2:5, ::2])
    assert turned.untyped_storage()._cdata == part.untyped_storage()._cdata == again.untyped_storage()._cdata
    part.zero_()
    assert again[2, 0] == 0


def test_expanded_input_stays_expanded():
    assert there_and_back(torch.ones(1, 3).expand(5, 3)).stride() == (0, 1)


class Named(tuple):
    pass


def test_subclasses_of_plain_containers_become_plain():
    value = there_and_back(Named((1, 2)))
    assert type(value) is tuple
    assert type(there_and_back(torch.Size([2, 3]))) is tuple


def endless():
    value: list = []
    value.append(value)
    return value


class Liar:
    __class__ = torch.Tensor  # type: ignore[assignment]


REFUSED = {
    "cycle": (endless, "garbage"),
    "lying class": (Liar, "garbage"),
    "object": (object, "garbage"),
    "generator": (lambda: (x for x in ()), "garbage"),
    "integer of 200 bits": (lambda: 1 << 200, "garbage"),
    "integer of 5000 digits": (lambda: 10**5000, "garbage"),
    "long string": (lambda: "x" * 10**6, "too_large"),
    "long list": (lambda: [0] * 10**6, "too_large"),
    "endless view": (lambda: torch.ones(1).expand(1 << 40), "too_large"),
    "meta tensor": (lambda: torch.ones(2, device="meta"), "garbage"),
    "sparse tensor": (lambda: torch.eye(3).to_sparse(), "garbage"),
    "tensor subclass": (lambda: torch.ones(2).as_subclass(type("Sub", (torch.Tensor,), {})), "garbage"),
    "tuple as key": (lambda: {(1, 2): 3}, "garbage"),
    "long key": (lambda: {"k" * 1000: 3}, "garbage"),
    "key of 5000 digits": (lambda: {10**5000: 3}, "garbage"),
    "eight-bit float": (lambda: torch.ones(2).to(torch.float8_e4m3fn), "garbage"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_sent_is_refused(name):
    make, reason = REFUSED[name]
    with pytest.raises(wire.Unsendable) as refused:
        to_bytes({}, make())
    assert refused.value.reason == reason


def frame(header, payload=b"", magic=b"FDJ1", header_size=None, payload_size=None) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    sizes = len(raw) if header_size is None else header_size, len(payload) if payload_size is None else payload_size
    return wire.PREFIX.pack(magic, *sizes) + raw + payload


def header(body=None, tensors=(), storages=(), head=None):
    return {"head": head or {}, "body": body, "tensors": list(tensors), "storages": list(storages)}


FORGED = {
    "magic": frame(header(), magic=b"HTTP"),
    "not json": frame(b"{"),
    "deep json": frame(b"[" * 200_000),
    "number of many digits": frame(b'{"head":' + b"9" * 100_000 + b"}"),
    "not utf-8": frame(b"\xff\xfe"),
    "wrong fields": frame({"head": {}}),
    "head is a list": frame(header(head=[1])),
    "payload size differs": frame(header(storages=[8]), b"1234"),
    "negative storage": frame(header(storages=[-8])),
    "storages of a string": frame(header() | {"storages": "abc"}),
    "tensor without storage": frame(header(["T", 0], [[0, "float32", [1], [1], 0]])),
    "tensor beyond its storage": frame(header(["T", 0], [[0, "float32", [9], [1], 0]], [4]), b"1234"),
    "offset beyond its storage": frame(header(["T", 0], [[0, "float32", [1], [1], 1]], [4]), b"1234"),
    "stride beyond its storage": frame(header(["T", 0], [[0, "float32", [2], [1 << 61], 0]], [8]), b"12345678"),
    "negative stride": frame(header(["T", 0], [[0, "float32", [2], [-1], 0]], [8]), b"12345678"),
    "negative shape": frame(header(["T", 0], [[0, "float32", [-2, -1], [1, 1], 0]], [8]), b"12345678"),
    "dtype of python": frame(header(["T", 0], [[0, "__class__", [1], [1], 0]], [4]), b"1234"),
    "endless expansion": frame(header(["T", 0], [[0, "float32", [1 << 60], [0], 0]], [4]), b"1234"),
    "too many dimensions": frame(header(["T", 0], [[0, "float32", [1] * 99, [1] * 99, 0]], [4]), b"1234"),
    "no such tensor": frame(header(["T", 3])),
    "negative tensor": frame(header(["T", -1])),
    "unknown tag": frame(header(["x", []])),
    "dict of odd pairs": frame(header(["d", [[1]]])),
    "dict with a list as key": frame(header(["d", [[[1], 2]]])),
    "object": frame(header({"a": 1})),
    "nested": frame(header(eval("['l', [" * 40 + "]]" * 40))),
    "huge integer": frame(header(1 << 300)),
    "huge header": frame(header(), header_size=1 << 31),
    "huge payload": frame(header(), payload_size=1 << 50),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_forged_frames_are_refused(name):
    with pytest.raises(wire.Garbage):
        from_bytes(FORGED[name])


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_noise_is_refused_or_cut_short(noise):
    with pytest.raises((wire.Garbage, EOFError)):
        from_bytes(noise)


@settings(max_examples=80, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_any_json_as_body_is_read_or_refused(body):
    with contextlib.suppress(wire.Garbage):
        from_bytes(frame(header(body)))


def test_strings_are_safe_to_show():
    raw = json.dumps(header("a\ud800b\x1b[31mc\u202ed")).encode()
    text = from_bytes(frame(raw)).body
    text.encode("utf-8")
    assert "\x1b" not in text
    assert "\u202e" not in text
