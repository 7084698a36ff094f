"""The pipeline, the prediction from it and what it refuses."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import pytest

from kernels.perf import (
    PIPES,
    SCHEDULES,
    Deadlock,
    NoPath,
    NoVectorCode,
    Overflow,
    Refused,
    Schedule,
    Shape,
    buffer_plan,
    find_soc,
    predict,
    refusals,
    schedule_for,
    timeline,
)
from kernels.perf.kernel import longest_load, row_tiles
from kernels.perf.l2 import hit_rates, mixed

PR, A2 = find_soc("950PR"), find_soc("910B3")
USUAL = Shape(1, 16, 16, 4096, 4096, 128)
DEEP = replace(USUAL, head_dim=256)
BEST = Schedule()


def test_one_tile_at_a_time_is_the_sum_of_its_parts():
    serial = replace(BEST, preload=0, vector_code="unfused")
    events = [e for e in timeline(PR, USUAL, serial, tiles=1) if e.stage != "normalise" and e.stage != "store O"]
    by = {(e.stage, e.pipe): e for e in events}
    arch = PR.architecture
    l2 = PR.l2_bytes_per_cycle
    assert by["load Q", "MTE2"].end == pytest.approx(128 * 128 * 2 / l2 + 80)
    k = by["load K", "MTE2"]
    assert k.start == by["load Q", "MTE2"].end
    assert by["C1", "MTE1"].start == pytest.approx(k.end + arch.gm_latency)
    assert by["C1", "CUBE"].end - by["C1", "CUBE"].start == pytest.approx(128**3 / 4096 + 20)
    assert by["S out", "FIXPIPE"].start == by["C1", "CUBE"].end
    assert by["V1", "VECTOR"].start == pytest.approx(by["S out", "FIXPIPE"].end + arch.flag)
    assert by["V1", "VECTOR"].end - by["V1", "VECTOR"].start == pytest.approx(128 * 128 / 2 / 64 * 9.0 + 35)
    assert by["C2", "MTE1"].start == pytest.approx(by["P out", "MTE3"].end + arch.flag)
    assert by["V2", "VECTOR"].start == pytest.approx(by["O out", "FIXPIPE"].end + arch.flag)


def test_no_pipe_does_two_things_at_once_and_nothing_starts_before_its_data():
    for soc, name in ((PR, "v8"), (PR, "v3"), (A2, "pto"), (A2, "tilelang")):
        events = timeline(soc, USUAL, SCHEDULES[name], tiles=12)
        assert {event.pipe for event in events} == {p for p in PIPES if soc is A2 or p != "VMTE2"}
        for pipe in PIPES:
            own = [event for event in events if event.pipe == pipe]
            assert all(a.end <= b.start + 1e-9 for a, b in pairwise(own))
        for tile in range(12):
            ends = {event.stage: event.end for event in events if event.tile == tile}
            starts = {event.stage: event.start for event in reversed(events) if event.tile == tile}
            order = ["C1", "S out", "V1", "P out", "C2", "O out", "V2"]
            assert all(ends[a] > starts[a] and starts[b] >= starts[a] for a, b in pairwise(order))


def test_a_schedule_that_overflows_is_refused_with_the_sum():
    with pytest.raises(Refused, match=r"302,336 bytes of 253,952, 1\.19 times") as error:
        predict(PR, DEEP, BEST)
    (reason,) = error.value.reasons
    assert isinstance(reason, Overflow)
    assert reason.level == "UB"
    assert sum(reason.parts.values()) == reason.used == 302336
    assert buffer_plan(PR, DEEP, BEST)["UB"].overflows
    assert not buffer_plan(PR, DEEP, replace(BEST, s_slots=1, o_slots=1))["UB"].overflows


@pytest.mark.parametrize(
    ("shape", "schedule", "level"),
    [
        (USUAL, replace(BEST, p_slots=14), "L1"),
        (USUAL, replace(BEST, l0_slots=3), "L0A"),
        (USUAL, replace(BEST, block_q=64, block_kv=256, base_n=256, l0_slots=2), "L0B"),
        (USUAL, replace(BEST, l0c_slots=5), "L0C"),
    ],
)
def test_every_level_can_overflow(shape, schedule, level):
    assert level in [reason.level for reason in refusals(PR, shape, schedule) if isinstance(reason, Overflow)]


def test_wires_and_vector_code_that_a_chip_has_not():
    reasons = refusals(A2, USUAL, BEST)
    assert [r.field for r in reasons if isinstance(r, NoPath)] == ["s_path", "p_path", "o_path"]
    assert [r.known for r in reasons if isinstance(r, NoVectorCode)] == [("cann", "pto")]
    with pytest.raises(Refused, match="2201 has no wire from UB to L1"):
        timeline(A2, USUAL, BEST)


@pytest.mark.parametrize(
    ("changes", "waits"),
    [
        ({"preload": 3, "s_slots": 1, "p_slots": 1}, [("C1", "V1(1)"), ("V1", "C2(0)")]),
        ({"preload": 2, "v_load": "c1"}, [("C1", "C2(0)"), ("V1", "C1(2)")]),
        ({"preload": 1, "shared_so": True}, [("C1", "V2(0)"), ("V1", "C1(1)")]),
        ({"preload": 0, "group": 4, "p_slots": 2, "s_slots": 1}, [("C1", "V1(2)"), ("V1", "C2(0)")]),
        ({"base_n": 32, "base_k": 64, "v_slots": 3}, [("C2", "4 places for V"), ("V2", "C2(0)")]),
    ],
)
def test_deadlocks_are_named(changes, waits):
    with pytest.raises(Refused, match="deadlock") as error:
        predict(PR, USUAL, replace(BEST, **changes))
    (reason,) = error.value.reasons
    assert isinstance(reason, Deadlock)
    assert [stage for stage, _, _ in reason.stages] == [stage for stage, _ in waits]
    assert all(what in said for (_, _, said), (_, what) in zip(reason.stages, waits))


def test_a_prediction_says_what_it_rests_on():
    p = predict(PR, USUAL, BEST)
    assert p.low < p.microseconds < p.high
    assert p.band.measured
    assert p.caveats == ()
    assert set(p.busy) == set(p.cycles) == set(PIPES)
    assert 0.9 < max(p.busy.values()) <= 1
    assert p.bound == max(p.cycles, key=p.cycles.get)
    assert p.tiles == 16 * 32 * 32
    assert p.tflops == pytest.approx(4 * 16 * 4096 * 4096 * 128 / p.microseconds / 1e6)
    assert p.mfu == pytest.approx(p.tflops / PR.peak_tflops)
    assert p.core_microseconds < p.microseconds
    assert p.active_cores == 32


@pytest.mark.parametrize(
    ("soc", "shape", "schedule", "expected"),
    [
        (PR, DEEP, replace(BEST, s_slots=1, o_slots=1), {"head-dim"}),
        (PR, USUAL, replace(BEST, block_q=48), {"block-q-small", "lanes"}),
        (PR, USUAL, replace(BEST, block_q=96), {"block-q", "lanes"}),
        (A2, replace(USUAL, seq_kv=16384), replace(SCHEDULES["cann"], block_kv=4096), {"l2-miss"}),
        (PR, Shape(1, 1, 1, 512, 512), BEST, {"short", "few-rows"}),
    ],
)
def test_where_nothing_was_measured_it_says_so(soc, shape, schedule, expected):
    p = predict(soc, shape, schedule)
    assert set(p.caveats) == expected
    assert p.band.measured == ("short" in expected)
    plain = predict(soc, USUAL, schedule_for("cann", A2, USUAL) if soc is A2 else BEST)
    assert (p.high - p.low) / p.microseconds > 2 * (plain.high - plain.low) / plain.microseconds


def test_row_blocks_of_a_causal_mask_end_at_the_diagonal():
    shape = Shape(1, 1, 1, 300, 700, 128, mask_mode=3)
    assert row_tiles(shape, BEST) == [5, 6, 6]  # 528, 656 and 700 columns
    assert row_tiles(replace(shape, mask_mode=0), BEST) == [6, 6, 6]
    half_tails = replace(BEST, block_q=512, block_kv=1024, tail_columns=512)
    assert row_tiles(Shape(1, 1, 1, 2048, 2048, mask_mode=3), half_tails) == [1, 1, 1.5, 2]


def test_a_row_that_sees_no_key_still_costs_a_tile():
    assert row_tiles(Shape(1, 1, 1, 512, 128, mask_mode=3), BEST) == [1, 1, 1, 1]


def test_flops_are_those_of_visible_pairs():
    for seq_q, seq_kv in ((5, 9), (9, 5), (7, 7), (1, 4)):
        visible = sum(max(0, min(seq_kv, i + seq_kv - seq_q + 1)) for i in range(seq_q))
        assert Shape(2, 4, 2, seq_q, seq_kv, 64, mask_mode=3).flops == 4 * 2 * 4 * visible * 64
        assert Shape(2, 4, 2, seq_q, seq_kv, 64).flops == 4 * 2 * 4 * seq_q * seq_kv * 64


def test_dealing_row_blocks_to_cores():
    assert longest_load([1.0] * 32, 1, 20, 10, 0) == 20  # a second wave for 12 of 20 cores
    assert longest_load([3.0, 2.0, 1.0], 1, 2, 1, 0) == 3
    assert longest_load([1.0, 2.0], 4, 4, 1, 1) == 5  # one head each
    assert longest_load([1.0] * 3, 5, 4, 1, 0) == 4  # 3 for the first four heads, 3 more on four cores


def test_hit_rates_follow_the_sizes():
    assert hit_rates(PR, USUAL, BEST).kv == 1.0
    long = Shape(4, 32, 32, 32768, 32768)  # the head at work fits, all of them do not
    assert hit_rates(PR, long, BEST).kv == 1 - 1 / 256
    assert hit_rates(PR, replace(long, seq_q=256), BEST).kv == 1 - 1 / 2  # 16 heads at work: only its neighbour helps
    gm = SCHEDULES["cann"]
    assert hit_rates(A2, USUAL, gm).exchange == 1.0
    assert hit_rates(A2, USUAL, replace(gm, block_kv=4096, preload=8)).exchange < 1.0
    assert mixed(0.5, 100, 25) == 40


def test_l2_misses_cost_time_and_few_cores_have_more_of_it():
    slow = predict(PR, USUAL, BEST, hit_rate=0.0)
    assert slow.microseconds > 1.5 * predict(PR, USUAL, BEST).microseconds
    assert slow.bound == "MTE2"
    alone = Shape(1, 1, 1, 128, 8192)
    assert predict(A2, alone, SCHEDULES["pto"]).cycles["MTE2"] < predict(A2, USUAL, SCHEDULES["pto"]).cycles["MTE2"]


def test_constants_can_be_moved():
    arch = PR.architecture
    assert len(arch.fitted) == len(A2.architecture.fitted) == 7
    slower = predict(PR, USUAL, BEST, architecture=arch.scaled({"softmax": 1.2}))
    assert slower.microseconds > predict(PR, USUAL, BEST).microseconds
    other = arch.scaled({"softmax.lanes": 1.2, "gm_latency": 0.5})
    assert (other.softmax["lanes"], other.softmax["fused"]) == (arch.softmax["lanes"] * 1.2, arch.softmax["fused"])
    assert other.gm_latency == arch.gm_latency / 2
    with pytest.raises(KeyError, match="these are: gm_latency"):
        arch.scaled({"macs": 2.0})


def test_a_prediction_and_importing_take_no_time():
    predict(PR, USUAL, BEST)
    start = time.process_time()
    for _ in range(10):
        predict(PR, USUAL, BEST)
    assert time.process_time() - start < 1.0  # about 0.02 s; the number is the benchmark's
