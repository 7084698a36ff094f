"""Saving and loading, between devices and under map_location, and storages made by hand."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn

import kernels.ascend

kernels.ascend.install()


def through_a_file(thing, **options):
    file = io.BytesIO()
    torch.save(thing, file)
    file.seek(0)
    return torch.load(file, **options)


@pytest.mark.parametrize(
    ("location", "device"),
    [(None, "npu:0"), ("cpu", "cpu"), ("npu", "npu:0"), (torch.device("npu"), "npu:0"), ({"npu:0": "cpu"}, "cpu")],
)
def test_tensors_of_the_device(location, device):
    x = torch.randn(3, 4, device="npu")
    loaded = through_a_file({"x": x, "row": x[1], "step": 7}, map_location=location)
    assert torch.equal(loaded["x"].cpu(), x.cpu())
    assert {str(loaded["x"].device), str(loaded["row"].device)} == {device}
    loaded["x"].zero_()  # one storage before and after
    assert loaded["row"].tolist() == [0, 0, 0, 0]


def test_tensors_of_the_cpu_are_loaded_onto_the_device():
    x = torch.randn(3, 4)
    assert torch.equal(through_a_file(x, map_location="npu").cpu(), x)
    assert through_a_file(x, map_location="npu").device.type == "npu"
    with pytest.raises(RuntimeError, match=r'npu:1 does not exist.* map_location="npu"'):
        through_a_file(x, map_location="npu:1")


def test_a_checkpoint_of_training_goes_on_where_it_stopped():
    def train(model, optimizer, steps):
        for step in range(steps):
            optimizer.zero_grad()
            model(torch.full((2, 3), float(step), device="npu")).pow(2).sum().backward()
            optimizer.step()

    torch.manual_seed(0)
    model = nn.Linear(3, 2).npu()
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer, 2)
    kept = through_a_file({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, map_location="cpu")
    train(model, optimizer, 2)
    again = nn.Linear(3, 2).npu()
    again.load_state_dict(kept["model"])
    its = torch.optim.AdamW(again.parameters())
    its.load_state_dict(kept["optimizer"])
    assert {state["exp_avg"].device.type for state in its.state.values()} == {"npu"}
    train(again, its, 2)
    assert torch.equal(again.weight, model.weight)


def test_storages_made_by_hand():
    before = torch.npu.memory_allocated()
    storage = torch.UntypedStorage(8, device="npu")
    assert storage.device == torch.device("npu", 0)
    assert torch.npu.memory_allocated() - before == 8
    assert torch.ones(2).untyped_storage().npu().is_npu
    assert torch.tensor([1.5, 2.5], device="npu").untyped_storage().cpu().nbytes() == 8
    x = torch.empty(0, device="npu").set_(storage, 0, (2,), (1,)).fill_(3)
    assert storage.tolist() == torch.full((2,), 3.0).untyped_storage().tolist()
    assert x.untyped_storage().data_ptr() == storage.data_ptr()
    assert (storage.new().device, storage.new().nbytes()) == (torch.device("npu", 0), 0)
    assert torch.UntypedStorage(4).device.type == torch.UntypedStorage(4).new().device.type == "cpu"
