"""The chips: names, numbers, what a program learns about the one that is emulated."""

from __future__ import annotations

import sys

import pytest
import torch

import kernels.ascend
from kernels.ascend.device.soc import SOCS, current_soc, find_soc, use_soc

kernels.ascend.install()


@pytest.fixture(autouse=True)
def _as_before():
    before = current_soc().name
    yield
    use_soc(before)


@pytest.mark.parametrize(
    ("name", "soc", "number", "family"),
    [
        ("950", "Ascend950PR_9589", 260, "950"),
        ("Ascend950", "Ascend950PR_9589", 260, "950"),
        ("950dt", "Ascend950DT_9581", 260, "950"),
        ("Ascend950DT_9582", "Ascend950DT_9582", 260, "950"),
        ("Ascend910B3", "Ascend910B3", 223, "910B"),
        ("910b4-1", "Ascend910B4-1", 225, "910B"),
        ("ascend910_9382", "Ascend910_9382", 253, "910_93"),
        ("910_93", "Ascend910_9391", 250, "910_93"),
        ("Ascend910B", "Ascend910B", 104, "910"),
        (" 910A ", "Ascend910A", 102, "910"),
    ],
)
def test_names_of_chips(name, soc, number, family):
    found = find_soc(name)
    assert (found.name, found.id, found.family) == (soc, number, family)
    assert found.bfloat16 == (family != "910")


def test_every_chip_has_two_vector_cores_for_a_cube_core_since_the_910b():
    assert {soc.family: soc.vector_core_num / soc.cube_core_num for soc in SOCS.values()} == {
        "910": 0, "910B": 2, "910_93": 2, "950": 2,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["", "Ascend", "H100", "Ascend910B9", "951"])
def test_an_unknown_name_says_what_to_write(name):
    with pytest.raises(ValueError, match=r"no SoC that can be emulated.*FLASHDOJO_SOC takes 950.*Ascend910B3"):
        use_soc(name)
    with pytest.raises(ValueError, match="no SoC that can be emulated"):
        kernels.ascend.install(name or "?")


@pytest.mark.parametrize(("name", "said"), [("Ascend910B9", "mean Ascend910B"), ("Ascend310P3", "310 series")])
def test_a_name_that_is_nearly_right_or_not_emulated_is_told_why(name, said):
    with pytest.raises(ValueError, match=said):
        find_soc(name)


def test_910b_alone_may_mean_two_things():
    with pytest.raises(ValueError, match="Ascend910B for the chip of the first generation"):
        find_soc("910B")


def test_what_a_program_learns():
    torch_npu = sys.modules["torch_npu"]
    assert "emulated" in torch_npu.npu.get_device_name()
    kernels.ascend.install("Ascend910B3")
    assert torch_npu.npu.get_device_name(0) == "Ascend910B3 (emulated)"
    assert torch.npu.get_soc_version() == torch.npu.utils.get_soc_version() == 223
    properties = torch.npu.get_device_properties("npu:0")
    assert (properties.cube_core_num, properties.vector_core_num) == (20, 40)
    assert properties.total_memory == 64 * 1024**3
    assert (torch.npu.device_count(), torch.npu.current_device(), torch.npu.is_available()) == (1, 0, True)
    assert torch.npu.is_bf16_supported()
    assert torch.npu.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]
    use_soc("Ascend910A")
    assert torch.npu.get_amp_supported_dtype() == [torch.float16]
    with pytest.raises(ValueError, match="Expected a npu device"):
        torch.npu.get_device_name("cpu")


def test_modules_say_that_they_are_emulated():
    for name in ("torch_npu", "torch.npu", "cann_ops_transformer", "cann_ops_transformer.ops", "ops_transformer"):
        assert sys.modules[name].__emulated__ is True
    torch_npu = sys.modules["torch_npu"]
    assert torch_npu.__version__ == torch.__version__.partition("+")[0] + "+emulated"
    assert torch_npu.npu is torch.npu
    with pytest.raises(AttributeError, match="no hardware to profile"):
        _ = torch_npu.profiler
    with pytest.raises(AttributeError, match="'no_such_thing' on the emulated NPU"):
        _ = torch.npu.no_such_thing
    operators = sys.modules["cann_ops_transformer.ops"]
    assert operators.flash_attn is sys.modules["cann_ops_transformer"].flash_attn
    assert sys.modules["cann_ops_transformer.ops.attention.flash_attn_grad"].MaskMode.CAUSAL == 3
