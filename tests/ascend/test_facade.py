"""ops_transformer.FlashAttention: the same numbers as the standard module, on the CPU and through both operators."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import documented
import pytest
import torch
from torch import nn

import kernels.ascend
from kernels import flash
from kernels.ascend import facade
from kernels.ascend.backend import Ascend950, CpuReference
from kernels.ascend.device import soc
from kernels.ascend.fusion import forward as fusion_tiles
from kernels.standard import StandardAttention

kernels.ascend.install()
from ops_transformer import FlashAttention  # noqa: E402

REPOSITORY = Path(kernels.ascend.__file__).parents[2]
PLACES = ["cpu", "950", "Ascend910B3"]


@pytest.fixture(autouse=True)
def same_chip():
    before = soc.current_soc().name
    yield
    soc.use_soc(before)


def on(place: str, module: nn.Module) -> nn.Module:
    if place == "cpu":
        return module
    soc.use_soc(place)
    return module.npu()


def twins(hidden_dim: int = 128, num_heads: int = 2, **options) -> tuple[StandardAttention, FlashAttention]:
    torch.manual_seed(0)
    standard, ours = StandardAttention(hidden_dim, num_heads), FlashAttention(hidden_dim, num_heads, **options)
    ours.load_state_dict(standard.state_dict())
    return standard, ours


@pytest.mark.parametrize("place", PLACES)
def test_values_and_gradients_are_those_of_the_standard_module(place):
    standard, ours = twins()
    ours = on(place, ours)
    x, dout = torch.randn(2, 37, 128), torch.randn(2, 37, 128)
    x_standard, x_ours = x.clone().requires_grad_(), (x if place == "cpu" else x.npu()).clone().requires_grad_()
    wanted, got = standard(x_standard), ours(x_ours)
    assert got.dtype == torch.float32
    assert got.device == x_ours.device
    tolerance = 1e-5 if place == "cpu" else 3e-3
    assert torch.allclose(got.cpu(), wanted, atol=tolerance)
    wanted.backward(dout)
    got.backward(dout.to(got.device))
    pairs = [(x_ours.grad, x_standard.grad)]
    pairs += [(a.grad, b.grad) for a, b in zip(ours.parameters(), standard.parameters())]
    for a, b in pairs:
        assert a.dtype == torch.float32
        assert (a.cpu() - b).abs().max() <= tolerance * 10 * b.abs().max().clamp(min=0.1)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_narrow_module_stays_narrow(place, dtype):
    _, ours = twins()
    ours = on(place, ours).to(dtype)
    x = torch.randn(1, 9, 128).to(dtype)
    assert ours(x if place == "cpu" else x.npu()).dtype == dtype


@pytest.mark.parametrize("place", ["950", "Ascend910B3"])
def test_float32_goes_through_the_operator_in_16_bits(place, monkeypatch):
    _, ours = twins()
    ours = on(place, ours)
    seen = []
    apply = facade._Attention.apply
    monkeypatch.setattr(facade._Attention, "apply", lambda backend, *qkv: seen.extend(qkv) or apply(backend, *qkv))
    ours(torch.randn(1, 9, 128).npu())
    assert {x.dtype for x in seen} == {torch.float16}


@pytest.mark.parametrize("place", ["cpu", "950"])
@pytest.mark.parametrize("block_size", [16, 48])
def test_block_size_is_the_tile_size(place, block_size, monkeypatch):
    blocks = []
    tiles = flash.visible_tiles
    monkeypatch.setattr(flash, "visible_tiles", lambda *args: blocks.append(args[2:4]) or tiles(*args))
    _, ours = twins(block_size=block_size)
    ours = on(place, ours)
    x = torch.randn(1, 64, 128)
    ours(x if place == "cpu" else x.npu()).sum().backward()
    assert blocks == [(block_size, block_size)] * 2


def test_block_size_is_the_tile_size_of_the_910b(monkeypatch):
    sizes = []
    scores = fusion_tiles.Group.scores
    monkeypatch.setattr(
        fusion_tiles.Group, "scores", lambda group, query, keys, rows, cols: sizes.append((rows, cols))
        or scores(group, query, keys, rows, cols)
    )  # fmt: skip
    _, ours = twins(block_size=48)
    on("Ascend910B3", ours)(torch.randn(1, 64, 128).npu()).sum().backward()
    tiles = [(slice(a, b), slice(c, d)) for a, b in ((0, 48), (48, 64)) for c, d in ((0, 48), (48, 64))]
    assert sizes == tiles * 2  # forward and backward


def test_on_hardware_block_size_is_said_once_to_be_ignored(monkeypatch):
    monkeypatch.setattr(facade, "_backend_of", lambda device: Ascend950(documented.cann_ops_transformer(), "cpu"))
    facade._say_once_that_tiles_are_chosen.cache_clear()
    _, ours = twins(block_size=48)
    ours = ours.half()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            ours(torch.randn(1, 9, 128).half())
    (said,) = caught
    assert str(said.message) == "block_size is ignored on Ascend 950: the operator's own tiling code chooses the tiles."
    assert said.filename == __file__
    facade._say_once_that_tiles_are_chosen.cache_clear()


def test_elsewhere_nothing_is_said():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for place in PLACES:
            _, ours = twins(block_size=48)
            x = torch.randn(1, 9, 128)
            on(place, ours)(x if place == "cpu" else x.npu())


def test_head_dimensions_that_no_operator_takes():
    x = torch.randn(1, 9, 96)
    _, ours = twins(96, 3, block_size=32)
    assert ours(x).shape == x.shape  # the CPU takes any
    with pytest.raises(
        RuntimeError, match=r"hidden_dim 96 / num_heads 3 = 32: .* it takes 64, 72, 128, 256, 192 with Dv 128"
    ):
        on("950", ours)(x.npu())
    assert on("Ascend910B3", ours)(x.npu()).shape == x.shape
    with pytest.raises(RuntimeError, match=r"Ascend910A.* has no FlashAttention operator"):
        on("Ascend910A", ours)(x.npu())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [((100, 3), "hidden_dim 100 is not a multiple of num_heads 3"), ((64, 2, 0), "block_size must be positive, not 0")],
)
def test_bad_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        FlashAttention(*arguments)


def test_the_signature_and_the_parameters_are_those_of_the_course():
    ours = FlashAttention(hidden_dim=768, num_heads=12, block_size=256)
    assert ours.block_size == 256
    assert FlashAttention(64, 2).block_size == 256
    assert ours.state_dict().keys() == StandardAttention(768, 12).state_dict().keys()
    assert isinstance(facade._backend_of(torch.device("cpu")), CpuReference)


@pytest.mark.parametrize("chip", ["950", "Ascend910B3"])
def test_the_deployment_programme_runs(chip):
    command = [
        sys.executable, "-m", "grader.commands.run", str(REPOSITORY / "examples" / "npu_deployment.py"),
        "--hidden-dim", "128", "--num-heads", "2", "--vocabulary", "300", "--tokens", "32", "--iterations", "5",
    ]  # fmt: skip
    environment = {"PATH": "", "PYTHONPATH": str(REPOSITORY), "FLASHDOJO_SOC": chip, "PYTHONWARNINGS": "error"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert not run.stderr
    device, shape, loss, speed = run.stdout.splitlines()
    assert device.endswith("(emulated)")
    assert shape == "attention: [2, 32, 128] torch.float32 on npu:0"
    first, last = (float(x) for x in loss.removeprefix("loss: ").partition(" in")[0].split(" -> "))
    assert last < first - 0.5
    assert speed.endswith("it/s (median of 5) on this CPU, which says nothing about an NPU")
