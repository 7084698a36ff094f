"""Views, in-place operators and storages: whatever a program does to tensors of the device, the same happens as on the
CPU, and the same tensors share memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import kernels.ascend

kernels.ascend.install()

Step = Callable[[Tensor, Tensor, int, int], object]  # a tensor, another one, two numbers


def only(changed: object) -> None:
    """In place: nothing new joins the tensors."""


def grow(x: Tensor, *size: int) -> None:
    """resize_; what is new in the storage, which torch leaves undefined, becomes 7."""
    before = x.untyped_storage().nbytes() // 4
    x.resize_(size)
    after = x.untyped_storage().nbytes() // 4
    if after > before:
        x.new_empty(0).set_(x.untyped_storage(), before, (after - before,), (1,)).fill_(7)


def out_of(make: Callable[..., Tensor]) -> Step:
    def step(x: Tensor, y: Tensor, a: int, b: int) -> object:
        make(x, out=y)
        return None

    return step


STEPS: dict[str, Step] = {
    # views
    "view": lambda x, y, a, b: x.view(-1),
    "view_as_dtype": lambda x, y, a, b: x.view(torch.int32).view(torch.float32),
    "t": lambda x, y, a, b: x.t(),
    "transpose": lambda x, y, a, b: x.transpose(a % x.dim(), b % x.dim()),
    "slice": lambda x, y, a, b: x[a % 3 :: 1 + b % 3],
    "select": lambda x, y, a, b: x.select(0, a % x.shape[0]),
    "narrow": lambda x, y, a, b: x.narrow(0, a % x.shape[0], 1),
    "expand": lambda x, y, a, b: x.unsqueeze(0).expand(2, *x.shape),
    "unfold": lambda x, y, a, b: x.unfold(0, 1 + a % 2, 1 + b % 2),
    "diagonal": lambda x, y, a, b: x.diagonal(),
    "as_strided": lambda x, y, a, b: x.as_strided((1 + a % 2, 1 + b % 2), (1, 1), a % 2),
    "chunk": lambda x, y, a, b: x.chunk(2)[-1],
    "reshape": lambda x, y, a, b: x.reshape(-1),
    "contiguous": lambda x, y, a, b: x.contiguous(),
    "detach": lambda x, y, a, b: x.detach(),
    # fresh tensors
    "clone": lambda x, y, a, b: x.clone(),
    "add": lambda x, y, a, b: x + y,
    "flip": lambda x, y, a, b: x.flip(0),
    "masked_select": lambda x, y, a, b: x.masked_select(x > a),
    # values in place
    "add_": lambda x, y, a, b: only(x.add_(a)),
    "mul_": lambda x, y, a, b: only(x.mul_(y)),
    "zero_": lambda x, y, a, b: only(x[0].zero_()),
    "copy_": lambda x, y, a, b: only(x.copy_(y)),
    "setitem": lambda x, y, a, b: x.__setitem__(slice(a % 2, None), float(b)),
    "index_put_": lambda x, y, a, b: x.__setitem__(torch.tensor([0], device=x.device), float(b)),
    "masked_fill_": lambda x, y, a, b: only(x.masked_fill_(x > a, float(b))),
    # sizes in place
    "t_": lambda x, y, a, b: only(x.t_()),
    "transpose_": lambda x, y, a, b: only(x.transpose_(0, a % x.dim())),
    "squeeze_": lambda x, y, a, b: only(x.squeeze_()),
    "unsqueeze_": lambda x, y, a, b: only(x.unsqueeze_(a % 2)),
    "as_strided_": lambda x, y, a, b: only(x.as_strided_((1 + a % 2,), (1,))),
    "resize_": lambda x, y, a, b: grow(x, 1 + a, 1 + b % 3),
    "resize_as_": lambda x, y, a, b: only(x.resize_as_(x[:1])),
    # storages
    "set_": lambda x, y, a, b: only(x.set_(y)),
    "set_storage": lambda x, y, a, b: only(x.set_(y.untyped_storage(), 0, (min(1, y.numel()),), (1,))),
    "data": lambda x, y, a, b: setattr(x, "data", y),
    # out=
    "exp_out": out_of(torch.exp),
    "sum_out": out_of(lambda x, out: torch.sum(x, 0, out=out)),
    "sort_out": lambda x, y, a, b: torch.sort(x, out=(y, x.new_empty(0, dtype=torch.int64)))[1].float(),
}  # fmt: skip


def attempt(step: Step, pool: list[Tensor], chosen: tuple[int, int, int, int]) -> str:
    """Do a step; a new tensor joins the pool. Gives what became of it."""
    x, y = pool[chosen[0] % len(pool)], pool[chosen[1] % len(pool)]
    try:
        made = step(x, y, *chosen[2:])
    except NotImplementedError as error:
        return f"not on the device: {error}"
    except (RuntimeError, IndexError, ValueError, ZeroDivisionError):
        return "refused by torch"
    if isinstance(made, Tensor):
        pool.append(made)
    return "done"


def shares(x: Tensor, y: Tensor) -> bool:
    return x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


numbers = st.integers(0, 7)
steps = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.tuples(numbers, numbers, numbers, numbers)), max_size=12)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@settings(max_examples=300, deadline=None, derandomize=True)
@given(steps)
def test_any_program_does_the_same_on_both_devices(program: list[tuple[str, tuple[int, int, int, int]]]) -> None:
    on_cpu = [torch.arange(12.0).reshape(3, 4), torch.arange(6.0).reshape(2, 3) / 2]
    on_npu = [x.to("npu") for x in on_cpu]
    for name, chosen in program:
        expected, happened = attempt(STEPS[name], on_cpu, chosen), attempt(STEPS[name], on_npu, chosen)
        if happened.startswith("not on the device: resize_ of a tensor whose memory would have to grow while other"):
            return
        assert happened == expected, name
        if expected == "refused by torch":  # halfway or not: the tensors' state is nothing to rely on
            return
        for x, y in zip(on_cpu, on_npu, strict=True):
            assert y.device == torch.device("npu", 0)
            assert (x.shape, x.stride(), x.storage_offset()) == (y.shape, y.stride(), y.storage_offset()), name
            assert torch.equal(x, y.cpu()), name
        pairs = [(i, j) for i in range(len(on_cpu)) for j in range(i) if on_cpu[i].numel() and on_cpu[j].numel()]
        for i, j in pairs:
            assert shares(on_cpu[i], on_cpu[j]) == shares(on_npu[i], on_npu[j]), name
