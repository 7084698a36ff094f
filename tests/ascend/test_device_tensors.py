"""Tensors of the device are torch's own: same types, same printing, modules that move, copies that arrive."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import kernels.ascend

kernels.ascend.install()


def test_a_tensor_of_the_device_is_a_plain_tensor():
    x = torch.randn(2, 3, device="npu")
    assert type(x) is torch.Tensor
    assert (x.device, x.is_npu, x.is_cpu, x.get_device()) == (torch.device("npu", 0), True, False, 0)
    assert type(nn.Parameter(x)) is nn.Parameter
    assert "device='npu:0'" in repr(x)
    with pytest.raises(TypeError, match=r"Use Tensor.cpu\(\)"):
        x.numpy()


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.tensor([1.0, 2.0], device="npu"),
        lambda: torch.tensor([1.0, 2.0]).npu(),
        lambda: torch.tensor([1.0, 2.0]).npu(0),
        lambda: torch.tensor([1.0, 2.0]).to("npu:0", non_blocking=True),
        lambda: torch.tensor([1, 2]).to(torch.device("npu"), torch.float32),
        lambda: torch.arange(1.0, 3.0, device="npu"),
        lambda: torch.zeros(2, device="npu") + torch.tensor([1.0, 2.0], device="npu"),
        lambda: torch.empty(2, device="npu").copy_(torch.tensor([1.0, 2.0])),
        lambda: torch.tril_indices(2, 2, device="npu")[0, 1:].float() + torch.tensor([0.0, 1.0]).npu(),
    ],
)
def test_ways_onto_the_device_and_back(make):
    x = make()
    assert x.device.type == "npu"
    for back in (x.cpu(), x.to("cpu"), x.to("cpu", non_blocking=True), torch.empty(2).copy_(x)):
        assert back.device.type == "cpu"
        assert back.tolist() == [1.0, 2.0] == x.tolist()


def test_a_copy_shares_no_memory_with_its_source():
    there = torch.ones(3)
    here = there.npu()
    here += 1
    assert there.tolist() == [1, 1, 1]
    back = here.cpu()
    back += 1
    assert here.tolist() == [2, 2, 2]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_every_dtype_of_the_cpu(dtype):
    values = torch.tensor([[0, 1], [2, 3]]).to(dtype)
    x = values.npu()
    assert torch.equal((x + x).cpu(), values + values)
    assert torch.equal(x.t().contiguous().cpu(), values.t())
    assert torch.equal(x.to(torch.complex128).cpu(), values.to(torch.complex128))


def test_lazy_conjugates_and_negatives():
    z = torch.tensor([1 + 2j, 3 - 1j], device="npu")
    assert z.conj().is_conj()
    assert torch.equal((z.conj() * 2).cpu(), z.cpu().conj() * 2)
    assert z.conj().imag.is_neg()
    assert torch.equal(z.conj().imag.cpu(), z.cpu().conj().imag)
    assert torch.equal(torch.view_as_real(z).cpu(), torch.view_as_real(z.cpu()))
    z.imag.add_(1)
    assert z.tolist() == [1 + 3j, 3 + 0j]


def test_a_module_moves_with_its_parameters_the_same_objects():
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5, bias=False))
    model[1].weight = model[0].weight  # tied
    before = list(model.parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model.npu()
    assert [x is y for x, y in zip(before, model.parameters(), strict=True)] == [True]
    assert model[1].weight is model[0].weight
    assert model[0].weight.device.type == "npu"
    start = model[0].weight.detach().clone()
    model(torch.tensor([1, 2]).npu()).sum().backward()
    optimizer.step()
    assert not torch.equal(start, model[1].weight)
    assert model.cpu()[1].weight is before[0]
    assert before[0].grad.device.type == "cpu"


def test_a_deep_copy_is_independent():
    model = nn.Linear(2, 2).npu()
    other = copy.deepcopy(model)
    assert other.weight.device.type == "npu"
    with torch.no_grad():
        other.weight.zero_()
    assert model.weight.abs().sum() > 0


def test_default_device_and_context():
    with torch.device("npu"):
        assert {torch.ones(1).device.type, torch.tensor(1).device.type, nn.Linear(1, 1).weight.device.type} == {"npu"}
    torch.set_default_device("npu")
    try:
        assert torch.randn(2).device.type == "npu"
    finally:
        torch.set_default_device(None)
    assert torch.ones(1).device.type == "cpu"


@pytest.mark.parametrize("size", [(5,), (2,), (3, 4)])
def test_out_takes_the_result_whatever_its_size(size):
    x, out = torch.randn(*size, device="npu"), torch.empty(0, device="npu")
    assert torch.exp(x, out=out) is out
    assert torch.equal(out, x.exp())
    values, places = torch.empty(0, device="npu"), torch.empty(0, dtype=torch.int64, device="npu")
    torch.sort(x, out=(values, places))
    assert torch.equal(values, x.sort().values)
    assert torch.equal(places, x.sort().indices)


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize(
    "write",
    [
        lambda x: x[1:].add_(x[:-1]),
        lambda x: x[1:].copy_(x[:-1]),
        lambda x: torch.exp(x[:-1], out=x[1:]),
        lambda x: torch.cat([x[:3], x[3:]], out=x),
    ],
)
def test_overlaps_are_refused_as_on_the_cpu(device, write):
    with pytest.raises(RuntimeError, match="single memory location"):
        write(torch.arange(6.0, device=device))


def test_functions_of_functions():
    x = torch.randn(3, 3, device="npu")
    assert torch.allclose(torch.vmap(torch.linalg.vector_norm)(x), torch.linalg.vector_norm(x, dim=1))
    assert torch.equal(torch.func.grad(lambda y: (y**2).sum())(x), 2 * x)
    assert torch.allclose(torch.func.jvp(torch.sin, (x,), (x,))[1], x.cos() * x)
    assert torch.compile(lambda y: y + 1, backend="eager")(x).device.type == "npu"


def test_torch_accelerator_knows_the_device():
    assert torch.accelerator.current_accelerator() == torch.device("npu")
    assert torch.accelerator.device_count() == 1
    torch.accelerator.synchronize()
    assert torch.accelerator.memory_allocated() == torch.npu.memory_allocated()
