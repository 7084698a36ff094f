"""What the device refuses, each with an error that says what to do."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import kernels.ascend

kernels.ascend.install()

CPU_23 = torch.ones(2, 3)


@pytest.fixture
def x():
    return torch.ones(2, 3, device="npu")


@pytest.mark.parametrize(
    ("operator", "argument", "mix"),
    [
        ("aten::add.Tensor", "other", lambda x: x + CPU_23),
        ("aten::add.Tensor", "self", lambda x: CPU_23 + x),
        ("aten::mm", "mat2", lambda x: x @ CPU_23.t()),
        ("aten::addmm", "self", lambda x: nn.Linear(3, 3)(x)),
        ("aten::embedding", "indices", lambda x: F.embedding(torch.tensor([0]), x)),
        ("aten::nll_loss_forward", "target", lambda x: F.cross_entropy(x, torch.tensor([0, 1]))),
        ("aten::cat", "tensors", lambda x: torch.cat([x, CPU_23])),
        ("aten::where.self", "condition", lambda x: torch.where(CPU_23 > 0, x, x)),
        ("aten::masked_fill.Scalar", "mask", lambda x: x.masked_fill(CPU_23 > 0, 0)),
        ("aten::add.out", "out", lambda x: torch.add(x, x, out=torch.empty(2, 3))),
        ("aten::add_.Tensor", "self", lambda x: torch.ones(2, 3).add_(x)),
        ("aten::add_.Tensor", "self", lambda x: torch.tensor(1.0).add_(x[0, 0])),
        ("aten::index.Tensor", "self", lambda x: torch.ones(2)[torch.tensor([0]).npu()]),
        ("aten::index_put_", "values", lambda x: x.__setitem__(x > 0, torch.ones(6))),
    ],
)
def test_tensors_on_mixed_devices(x, operator, argument, mix):
    with pytest.raises(RuntimeError, match="found at least two devices, npu:0 and cpu!") as refused:
        mix(x)
    assert f"argument {argument} of operator {operator})" in str(refused.value)
    assert '.to("npu")' in str(refused.value)


def test_what_may_be_mixed_on_a_card_may_be_mixed_here(x):
    assert torch.equal((x + torch.tensor(2.0)).cpu(), torch.full((2, 3), 3.0))
    assert torch.equal(x[torch.tensor([0, 1])].cpu(), x.cpu())
    x[0] = torch.tensor([1.0, 2.0, 3.0])
    x[1] = torch.tensor(7.0)
    assert x.tolist() == [[1, 2, 3], [7, 7, 7]]


def in_context(device):
    with torch.device(device):
        return torch.ones(1)


@pytest.mark.parametrize(
    "use",
    [
        lambda x: torch.empty(1, device="npu:1"),
        lambda x: torch.tensor([1.0], device="npu:1"),
        lambda x: torch.randn(1, device="npu:7"),
        lambda x: torch.tril_indices(2, 2, device="npu:1"),
        lambda x: torch.ones(1).to("npu:1"),
        lambda x: torch.ones(1).npu(1),
        lambda x: x.to("npu:1"),
        lambda x: nn.Linear(1, 1).to("npu:1"),
        lambda x: nn.Linear(1, 1).npu(1),
        lambda x: torch.npu.set_device(1),
        lambda x: torch.npu.set_device("npu:1"),
        lambda x: torch.npu.device(1),
        lambda x: torch.npu.synchronize(1),
        lambda x: torch.npu.memory_allocated("npu:1"),
        lambda x: torch.npu.get_device_name(1),
        lambda x: torch.Generator("npu:1"),
        lambda x: torch.UntypedStorage(4, device="npu:1"),
        lambda x: in_context("npu:1"),
    ],
)
def test_there_is_one_device(x, use):
    with pytest.raises(RuntimeError, match=r'npu:[17] does not exist: there is one emulated NPU, npu:0\. Write "npu"'):
        use(x)


@pytest.mark.parametrize(
    ("what", "use"),
    [
        ("layout torch.sparse_coo", lambda x: x.to_sparse()),
        ("layout torch.sparse_csr", lambda x: x.to_sparse_csr()),
        ("A sparse tensor", lambda x: torch.eye(3).to_sparse().npu()),
        ("A sparse tensor", lambda x: torch.sparse_coo_tensor(torch.tensor([[0]]).npu(), x[0, :1], (3,))),
        ("A nested tensor", lambda x: torch.nested.nested_tensor([x, x]).sin()),
        ("dtype torch.qint8", lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)),
        ("layout torch._mkldnn", lambda x: x.to_mkldnn()),
        ("nn.LSTM", lambda x: nn.LSTM(3, 4).npu()(x[None])),
        ("nn.GRU", lambda x: nn.GRU(3, 4).npu()(x[None])),
        ("A packed sequence", lambda x: nn.utils.rnn.pack_padded_sequence(x[None], torch.tensor([2]))),
        ("resize_ of a storage", lambda x: x.untyped_storage().resize_(100)),
        ("while other tensors share it", lambda x: (x.view(-1), x.resize_(100))),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_is_not_supported_says_so(x, what, use):
    with pytest.raises(NotImplementedError, match="not supported by the emulated NPU") as refused:
        use(x)
    assert what in str(refused.value)


def test_an_operator_for_the_cpu_only_is_refused_as_on_a_card(x):
    library = torch.library.Library("of_someone_else", "DEF")
    library.define("double(Tensor x) -> Tensor")
    library.impl("double", lambda y: y * 2, "CPU")
    assert torch.ops.of_someone_else.double(CPU_23).sum() == 12
    with pytest.raises(NotImplementedError, match=r"of_someone_else::double is not supported by the emulated NPU"):
        torch.ops.of_someone_else.double(x)


def test_errors_of_kernels_arrive_through_backward(x):
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y):
            return y.clone()

        @staticmethod
        def backward(ctx, dy):
            return dy @ torch.ones(3, 3)

    with pytest.raises(RuntimeError, match="argument mat2 of operator aten::mm"):
        Broken.apply(x.requires_grad_()).sum().backward()


def test_pinned_memory_is_for_the_cpu(x):
    pinned = CPU_23.pin_memory()
    assert pinned.is_pinned()
    assert not CPU_23.is_pinned()
    assert torch.equal(pinned.to("npu", non_blocking=True).cpu(), CPU_23)
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        x.pin_memory()
    with pytest.raises(RuntimeError, match="Only tensors of the CPU can be pinned"):
        torch.empty(1, device="npu", pin_memory=True)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(CPU_23), batch_size=2, pin_memory=True)
    assert [batch.is_pinned() for (batch,) in loader] == [True]
