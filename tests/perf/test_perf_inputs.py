"""SoCs, shapes and schedules: what is understood and how the rest is refused."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from kernels.machine import chips
from kernels.perf import SCHEDULES, SOCS, BadSchedule, BadShape, Schedule, Shape, UnknownSoc, find_soc, schedule_for
from kernels.perf.socs import STANDS_FOR


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("Ascend950PR_9589", "Ascend950PR_9589"),
        ("950pr_9599", "Ascend950PR_9599"),
        ("950PR", "Ascend950PR_9589"),
        (" 950dt ", "Ascend950DT_9581"),
        ("910b4-1", "Ascend910B4-1"),
        ("ASCEND910B1", "Ascend910B1"),
        ("A3", "Ascend910_9391"),
        ("910_93", "Ascend910_9391"),
    ],
)
def test_socs_by_name(name, full):
    assert find_soc(name).name == full


def test_the_emulated_chips_are_the_same_by_every_name():
    for short in {*chips.BY_FAMILY, *STANDS_FOR}:
        assert find_soc(short).name == chips.find_soc(short).name, short
    shared = chips.SOCS.keys() & SOCS.keys()
    assert len(shared) == 29
    for name in shared:
        ours, emulated = SOCS[name], chips.SOCS[name]
        assert (ours.cores, 2 * ours.cores) == (emulated.cube_core_num, emulated.vector_core_num), name
        assert (ours.arch == "3510") == (emulated.family == "950"), name


def test_what_the_table_says():
    b3, pr = find_soc("910B3"), find_soc("950PR")
    assert (b3.cores, b3.mhz, b3.l2_bytes, b3.arch) == (20, 1800, 192 << 20, "2201")
    assert (pr.cores, pr.mhz, pr.hbm_bytes_per_cycle, pr.arch) == (32, 1650, 31, "3510")
    assert b3.peak_tflops == pytest.approx(294.9, abs=0.05)
    assert pr.peak_tflops == pytest.approx(432.5, abs=0.05)
    assert (pr.architecture.ub, pr.architecture.l1, b3.architecture.l0c) == (253952, 524288, 131072)
    assert len(SOCS) == 48
    assert not any(name in SOCS for name in ("Ascend910A", "Ascend910B", "Ascend910ProA"))


@pytest.mark.parametrize(("name", "nearest"), [("910B", "Ascend910B"), ("950RP", "Ascend950"), ("910B5", "Ascend910B")])
def test_an_unknown_soc_is_told_the_nearest(name, nearest):
    with pytest.raises(UnknownSoc, match="no SoC the model knows") as error:
        find_soc(name)
    assert error.value.name == name
    assert error.value.known[0].startswith(nearest)
    assert len(error.value.known) == len(SOCS)


def test_shapes_as_they_are_written():
    shape = Shape.parse("2, 8,2,100,200,64", dtype="bf16", mask="causal")
    assert shape == Shape(2, 8, 2, 100, 200, 64, "bfloat16", 3)
    assert (shape.causal, shape.element_bytes) == (True, 2)


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        ("1,2,3", {}, "six numbers"),
        ("1,2,2,16,16,x", {}, "six numbers"),
        ("1,2,2,16,-5,64", {}, "six numbers"),
        ("1,2,2,16,16," + "9" * 5000, {}, "six numbers"),
        ("x" * 100000, {}, "six numbers"),
        ("0,2,2,16,16,64", {}, "batch is 0"),
        ("65536,2,2,16,16,64", {}, "less than 65,536"),
        ("1,6,4,16,16,64", {}, "multiple of N2"),
        ("1,2,4,16,16,64", {}, "multiple of N2"),
        ("1,2,2,16,16,80", {}, "takes 64, 128, 256"),
        ("1,2,2,2000000,16,64", {}, "up to 1,048,576"),
        ("1,2,2,16,16,64", {"dtype": "float32"}, "float16"),
        ("1,2,2,16,16,64", {"mask": "window"}, "none and causal"),
    ],
)
def test_shapes_that_are_refused(text, options, problem):
    with pytest.raises(BadShape, match=problem) as error:
        Shape.parse(text, **options)
    assert problem in error.value.problem
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("value", [1.0, True, "1", None])
def test_a_size_is_a_whole_number(value):
    with pytest.raises(BadShape, match="batch is"):
        Shape(value, 1, 1, 1, 1)


def test_schedules_survive_json():
    for schedule in SCHEDULES.values():
        text = json.dumps(schedule.to_json())
        assert Schedule.from_json(text) == Schedule.from_json(json.loads(text)) == schedule
    assert Schedule.from_json({}) == Schedule()


@pytest.mark.parametrize(
    ("data", "field", "problem"),
    [
        ({"block_k": 128}, "block_k", "did you mean block_kv?"),
        ({"zzz": 1}, "zzz", "there are block_q"),
        ({"block_q": "128"}, "block_q", "no whole number"),
        ({"block_q": 128.0}, "block_q", "no whole number"),
        ({"preload": True}, "preload", "no whole number"),
        ({"block_q": 8}, "block_q", "outside 16 to 512"),
        ({"block_q": 100}, "block_q", "no multiple of 16"),
        ({"s_slots": 0}, "s_slots", "outside 1 to 16"),
        ({"s_path": "l2"}, "s_path", "none of chip, gm"),
        ({"s_path": ["chip"]}, "s_path", "none of chip, gm"),
        ({"barrier": 1}, "barrier", "neither true nor false"),
        ({"group": 2}, "group", "preload must be 0"),
        ({"block_q": float("nan")}, "block_q", "no whole number"),
        ({"block_q": 10**30}, "block_q", "outside"),
        ("{", "", "no JSON"),
        ("[" * 100000, "", "no JSON"),
        ('{"block_q": ' + "9" * 5000 + "}", "", "no JSON"),
        ({"block_q": "9" * 5000}, "block_q", "no whole number"),
        ("[1]", "", "JSON object"),
        (None, "", "JSON object"),
    ],
)
def test_schedules_that_are_refused(data, field, problem):
    with pytest.raises(BadSchedule) as error:
        Schedule.from_json(data)
    assert error.value.field == field
    assert problem in error.value.problem
    assert len(str(error.value)) < 600


def test_kernels_choose_by_the_shape():
    b3 = find_soc("910B3")
    short, long = Shape(1, 1, 1, 1024, 1024), Shape(4, 16, 16, 4096, 4096, mask_mode=3)
    assert [schedule_for("pto", b3, Shape(1, 1, 1, s, s)).block_kv for s in (1024, 8192, 16384)] == [256, 512, 1024]
    assert (schedule_for("cann", b3, short).block_q, schedule_for("cann", b3, long).block_q) == (64, 128)
    assert (schedule_for("cann", b3, short).ub_input_slots, schedule_for("cann", b3, long).ub_input_slots) == (2, 1)
    assert schedule_for("cann", b3, Shape(1, 1, 1, 64, 100)).block_kv == 112
    assert schedule_for("v8", find_soc("950PR"), short) == SCHEDULES["v8"]
    with pytest.raises(KeyError):
        schedule_for("v9", b3, short)


def test_importing_the_model_installs_no_device():
    code = "import kernels.perf, sys; print('kernels.ascend' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert out.stdout.strip() == "False"
