"""Advice follows the columns: what bounds a kernel, what only looks like a bottleneck, and what is no fault at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grader.profiling import thresholds
from grader.profiling.advice import advise
from grader.profiling.facts import flops, span_us
from kernels.profiles import Device, Kernel, Profile

DEVICE = Device(cores=20, vector_cores=40, mhz=1800.0, name="Ascend910B3", arch="2201", hbm_bytes_per_second=1.152e12)
QKV = ((1, 16, 4096, 128),) * 3
KERNEL = Kernel(
    name="a",
    type="FlashAttentionScore",
    core="MIX_AIC",
    start_ns=0,
    duration_us=400.0,
    block_num=20,
    mix_block_num=40,
    input_shapes=QKV,
    aicore_us=390.0,
    aiv_us=390.0,
    cube_utilization=97.5,
    device=DEVICE,
)


def kernel(mac: float, vec: float, mte2: float, fixpipe: float, **changes: object) -> Kernel:
    ratios = {"mac": mac, "scalar": None, "mte1": 0.3, "mte2": mte2, "fixpipe": fixpipe}
    aiv = {"vec": vec, "scalar": None, "mte2": 0.2, "mte3": 0.1}
    return replace(KERNEL, ratios=ratios, aiv_ratios=aiv, **changes)


def profile(*kernels: Kernel) -> Profile:
    return Profile("pytorch", Path("x_ascend_pt"), list(kernels), [], DEVICE, 1, "block-num", [])


def ids(*kernels: Kernel) -> list[str]:
    return [each.id for each in advise(profile(*kernels))]


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ((0.95, 0.5, 0.6, 0.3), "aic_mac_ratio"),
        ((0.97, 0.98, 0.7, 0.5), "balanced"),  # nothing can gain more than the Cube is idle
        ((0.5, 0.9, 0.4, 0.3), "aiv_vec_ratio"),
        ((0.66, 0.5, 0.99, 0.4), "aic_mte2_ratio"),
        ((0.35, 0.55, 0.5, 0.8), "aic_fixpipe_ratio"),
        ((0.35, 0.55, 0.5, 0.6), "waiting"),
    ],
)
def test_the_bound_is_the_pipe_beyond_its_threshold(ratios: tuple[float, ...], expected: str) -> None:
    first = advise(profile(kernel(*ratios)))[0]
    assert first.id == expected
    assert dict(first.evidence)["aic_mac_ratio"] == f"{ratios[0]:.3f}"
    assert {each.column for each in first.compared} >= {"aic_mte2_ratio", "aiv_vec_ratio"}


def test_a_high_cube_utilization_is_told_from_a_busy_cube() -> None:
    assert "occupied" in ids(kernel(0.36, 0.63, 0.47, 0.58))
    assert "occupied" not in ids(kernel(0.95, 0.5, 0.6, 0.3))


def test_the_vendors_word_for_a_kernel_that_waits_for_memory_is_corrected() -> None:
    text = advise(profile(kernel(0.66, 0.5, 0.99, 0.4)))[0].text
    assert "mac" in text.zh
    assert "mac" in text.en


def test_gaps_between_kernels_come_before_the_kernels() -> None:
    two = kernel(0.95, 0.5, 0.6, 0.3), kernel(0.95, 0.5, 0.6, 0.3, start_ns=900_000)
    found = advise(profile(*two))
    assert found[0].id == "idle"
    assert "38 %" in found[0].title.en  # 500 of 1,300 us
    assert span_us(two) == (1300.0, 800.0)
    assert ids(two[0], kernel(0.95, 0.5, 0.6, 0.3, start_ns=400_000)) == ["aic_mac_ratio"]


def test_kernels_that_overlap_are_counted_once() -> None:
    assert span_us([KERNEL, replace(KERNEL, start_ns=100_000)]) == (500.0, 500.0)


def test_no_ratios_no_verdict() -> None:
    bare = replace(KERNEL, cube_utilization=None, input_shapes=None, block_num=None)
    assert ids(bare) == ["no-ratios"]
    some = {"mac": 0.12, "scalar": None, "mte1": None, "mte2": None, "fixpipe": None}
    assert "waiting" not in ids(replace(KERNEL, ratios=some))  # three of four are not known


def test_short_kernels_are_told_from_those_whose_cores_mostly_wait() -> None:
    assert ids(kernel(0.2, 0.3, 0.2, 0.2, duration_us=12.0, aicore_us=8.0)) == ["short"]
    assert ids(kernel(0.2, 0.3, 0.2, 0.2, duration_us=1000.0, aicore_us=499.0, aiv_us=499.0)) == ["launch"]
    assert "launch" not in ids(kernel(0.2, 0.3, 0.2, 0.2, duration_us=1000.0, aicore_us=501.0, aiv_us=1.0))


@pytest.mark.parametrize("times", [{"aicore_us": 200.0, "aiv_us": 450.0}, {"aicore_us": 450.0, "aiv_us": 200.0}])
@pytest.mark.parametrize("duration", [1000.0, 15.0])
def test_evidence_under_a_columns_name_is_that_columns_number(times: dict[str, float], duration: float) -> None:
    scaled = {name: value * duration / 1000 for name, value in times.items()}
    one = kernel(0.2, 0.3, 0.2, 0.2, duration_us=duration, **scaled)
    columns = {"aicore_time(us)": one.aicore_us, "aiv_time(us)": one.aiv_us, "Duration(us)": one.duration_us}
    (found,) = advise(profile(one))
    assert len(found.evidence) == 2
    for name, value in found.evidence:
        assert value == f"{columns[name]:.1f}"


@pytest.mark.parametrize("language", ["zh", "en"])
def test_the_documented_thresholds_are_the_ones_that_are_compared(language: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / language / "profiling.md").read_text("utf-8")
    table = next(part for part in text.split("\n\n") if "`aiv_vec_ratio` | 0.75" in part)
    documented = sorted(float(line.split("|")[2]) for line in table.splitlines()[2:])
    assert documented == sorted(each.value for each in thresholds.ALL)


def test_cores_without_work_and_odd_sizes() -> None:
    odd = ((1, 16, 4000, 80),) * 3
    found = ids(kernel(0.95, 0.5, 0.6, 0.3, block_num=16, input_shapes=odd))
    assert found == ["aic_mac_ratio", "cores", "aligned"]
    assert "aligned" not in ids(kernel(0.95, 0.5, 0.6, 0.3, input_shapes=((1, 16, 4096, 64),) * 3))


def test_other_kernels_get_no_advice_on_attention() -> None:
    assert ids(kernel(0.1, 0.1, 0.9, 0.1, type="MatMulV3")) == []


def test_nothing_is_said_of_how_little_bandwidth_is_used() -> None:
    assert not any("hbm" in each.column.lower() for each in thresholds.ALL)
    assert "aic_mte2_ratio" not in ids(kernel(0.95, 0.5, 0.05, 0.3))


def test_every_threshold_has_a_unit_and_an_owner_in_both_languages() -> None:
    for each in thresholds.ALL:
        for text in (each.unit, each.whose):
            assert text.zh != text.en
            assert text.zh
            assert text.en


@pytest.mark.parametrize(
    ("inputs", "changes", "expected"),
    [
        (QKV, {}, 4 * 16 * 4096 * 4096 * 128),
        (((1, 4096, 16, 128),) * 3, {}, 4 * 16 * 4096 * 4096 * 128),  # BSND
        (((64, 2, 32, 128),) * 3, {}, 4 * 64 * 2 * 32 * 32 * 128),  # a batch longer than the sequence
        (((4096, 2, 512),) * 3, {}, 4 * 2 * 4096 * 4096 * 512),  # SBH
        ((*QKV, None, None, None, (2048, 2048)), {}, 4 * 16 * 128 * 4096 * 4097 / 2),  # causal
        (QKV, {"type": "FlashAttentionScoreGrad"}, 10 * 16 * 4096 * 4096 * 128),
        (((1, 8, 128, 64), (1, 2, 512, 64), (1, 2, 512, 64)), {}, 4 * 8 * 128 * 512 * 64),  # fewer kv heads
        (((64, 32), (32, 16)), {"type": "MatMulV3", "output_shapes": ((64, 16),)}, 2 * 64 * 32 * 16),
        (((32, 64), (32, 16)), {"type": "MatMulV3", "output_shapes": ((64, 16),)}, 2 * 64 * 32 * 16),
        (((4, 64, 32), (4, 32, 16)), {"type": "BatchMatMulV2", "output_shapes": ((4, 64, 16),)}, 8 * 64 * 32 * 16),
        (((4, 64, 32), (32, 16)), {"type": "MatMulV3", "output_shapes": ((4, 64, 16),)}, 8 * 64 * 32 * 16),
        (QKV, {"type": "FusedInferAttentionScore"}, 4 * 16 * 4096 * 4096 * 128),
        (QKV, {"type": "Add"}, None),
        (((4096, 16, 128), (1, 16, 4096, 128)), {}, None),
        (None, {}, None),
    ],
)
def test_flops_from_shapes(inputs: object, changes: dict[str, object], expected: float | None) -> None:
    found = flops(replace(KERNEL, input_shapes=inputs, **changes))
    assert found is None if expected is None else found == pytest.approx(expected)
