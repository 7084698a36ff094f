"""The device's memory is counted to the byte: what a program holds, and the most it held."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn

import kernels.ascend
from kernels.ascend.device.soc import use_soc

kernels.ascend.install()
KIB = 1024


@pytest.fixture
def grown():
    """How many bytes more than at the start of the test."""
    gc.collect()
    torch.npu.empty_cache()
    torch.npu.reset_peak_memory_stats()
    start = torch.npu.memory_allocated()
    return lambda figure=torch.npu.memory_allocated: figure() - start


def test_tensors_are_counted_while_they_live(grown):
    x = torch.empty(KIB, dtype=torch.uint8, device="npu")
    y = torch.ones(KIB, device="npu")
    assert grown() == KIB + 4 * KIB
    view = y[10:20].t()
    alias = y.detach()
    assert grown() == 5 * KIB
    del y, x
    assert grown() == 4 * KIB
    del view, alias
    assert grown() == 0


def test_the_peak_holds_what_was_there_together(grown):
    x = torch.ones(KIB, device="npu")
    x = x + 1 + x
    assert grown() == 4 * KIB
    assert grown(torch.npu.max_memory_allocated) == 3 * 4 * KIB
    torch.npu.reset_peak_memory_stats()
    assert grown(torch.npu.max_memory_allocated) == 4 * KIB


def test_in_place_and_out_take_nothing(grown):
    x, out = torch.ones(KIB, device="npu"), torch.empty(KIB, device="npu")
    x.mul_(2).add_(x)
    torch.exp(x, out=out)
    assert grown(torch.npu.max_memory_allocated) == 8 * KIB


def test_reserved_memory_is_given_back_by_empty_cache(grown):
    x = torch.ones(KIB, device="npu")
    del x
    assert grown() == 0
    assert grown(torch.npu.memory_reserved) == 4 * KIB
    torch.npu.empty_cache()
    assert grown(torch.npu.memory_reserved) == 0
    assert grown(torch.npu.max_memory_reserved) == 4 * KIB
    assert torch.npu.memory_stats()["allocated_bytes.all.current"] == torch.npu.memory_allocated()
    assert f"{torch.npu.memory_allocated():,} B" in torch.npu.memory_summary()


def test_the_card_is_as_large_as_its_soc_says(grown):
    try:
        use_soc("Ascend910B4")
        free, total = torch.npu.mem_get_info()
        assert total == 32 * KIB**3
        assert free == total - torch.npu.memory_reserved()
    finally:
        use_soc("950")


def test_growing_in_place_is_counted(grown):
    x = torch.ones(4, device="npu")
    x.resize_(KIB)
    assert grown() == 4 * KIB
    x.set_()
    assert grown() == 0


def test_training_leaves_nothing_behind(grown):
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 1)).npu()
    optimizer = torch.optim.AdamW(model.parameters())
    held = []
    for _ in range(5):
        loss = model(torch.randn(4, 8, device="npu")).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        del loss
        held.append(grown())
    parameters = sum(parameter.nbytes for parameter in model.parameters())
    assert held == [4 * parameters] * 5  # parameters, gradients, two moments
    del model, optimizer
    gc.collect()
    assert grown() == 0


def test_quadratic_and_linear_attention_are_told_apart(grown):
    def peak(attend) -> int:
        q = torch.randn(1, 2, 512, 32, device="npu")
        torch.npu.reset_peak_memory_stats()
        before = torch.npu.memory_allocated()
        attend(q)
        return torch.npu.max_memory_allocated() - before

    def naive(q):
        return torch.softmax(q @ q.transpose(-1, -2), -1) @ q

    def by_row_tiles(q):
        return [naive_rows @ q for naive_rows in ((part @ q.transpose(-1, -2)).softmax(-1) for part in q.split(32, 2))]

    scores = 2 * 512 * 512 * 4
    assert peak(naive) >= 2 * scores
    assert peak(by_row_tiles) < scores
