"""Random numbers: a generator of the device's own, which repeats itself when it is seeded."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import kernels.ascend

kernels.ascend.install()

DRAWS = {
    "randn": lambda g: torch.randn(5, device="npu", generator=g),
    "rand": lambda g: torch.rand(5, device="npu", generator=g),
    "randint": lambda g: torch.randint(0, 1000, (5,), device="npu", generator=g),
    "randperm": lambda g: torch.randperm(50, device="npu", generator=g),
    "bernoulli": lambda g: torch.bernoulli(torch.full((50,), 0.5, device="npu"), generator=g),
    "multinomial": lambda g: torch.multinomial(torch.ones(50, device="npu"), 5, generator=g),
    "normal": lambda g: torch.normal(torch.zeros(5, device="npu"), 1.0, generator=g),
    "uniform_": lambda g: torch.empty(5, device="npu").uniform_(generator=g),
    "poisson": lambda g: torch.poisson(torch.full((50,), 9.0, device="npu"), generator=g),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_repeats_the_numbers(name):
    draw = DRAWS[name]
    generator = torch.Generator("npu").manual_seed(7)
    first, second = draw(generator), draw(generator)
    assert not torch.equal(first, second)
    assert torch.equal(first, draw(torch.Generator(device="npu").manual_seed(7)))
    torch.manual_seed(7)
    assert torch.equal(first, draw(None))
    torch.npu.manual_seed(7)
    assert torch.equal(first, draw(None))


def test_dropout_draws_from_the_device():
    x = torch.ones(1000, device="npu")
    torch.npu.manual_seed(3)
    here = torch.get_rng_state()
    first = F.dropout(x, 0.25)
    assert torch.equal(here, torch.get_rng_state())
    torch.npu.manual_seed(3)
    assert torch.equal(first, F.dropout(x, 0.25))
    assert sorted(set(first.tolist())) == [0.0, pytest.approx(1 / 0.75)]
    assert 700 < (first > 0).sum().item() < 800
    assert torch.equal(F.dropout(x, 0.25, training=False), x)


def test_the_two_devices_have_generators_of_their_own():
    torch.manual_seed(1)
    here, there = torch.get_rng_state(), torch.npu.get_rng_state()
    torch.randn(3, device="npu")
    assert torch.equal(here, torch.get_rng_state())
    assert not torch.equal(there, torch.npu.get_rng_state())
    torch.npu.set_rng_state(there)
    assert torch.equal(torch.randn(3, device="npu").cpu(), torch.randn(3))
    with torch.random.fork_rng(device_type="npu"):
        torch.npu.manual_seed(99)
    assert torch.npu.initial_seed() == 1


def test_generators_belong_to_a_device():
    generator = torch.Generator("npu")
    assert isinstance(generator, torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator)
    assert generator.device == torch.device("npu", 0)
    assert torch.Generator().device.type == "cpu"
    generator.manual_seed(5)
    assert torch.equal(*(torch.randn(2, device="npu", generator=g) for g in (generator.clone_state(), generator)))
    with pytest.raises(RuntimeError, match="Expected a 'npu' device type for generator but found 'cpu'"):
        torch.randn(2, device="npu", generator=torch.Generator())


def test_checkpointing_draws_the_same_numbers_again():
    x = torch.ones(100, device="npu", requires_grad=True)
    out = checkpoint(lambda y: F.dropout(y, 0.5) * y, x, use_reentrant=False)
    out.sum().backward()
    assert torch.equal(x.grad, 2 * out)
