"""Upstream's inequalities, as its document states them, and where the model differs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernels.perf import Schedule, Shape, buffer_plan, find_soc, grid, predict, sweep
from kernels.perf.analytic import (
    L1_BYTES,
    UB_BYTES,
    cube_bound_block_q,
    cube_cycles,
    doc_mix,
    fixpipe_cycles,
    harmonic_mix,
    kv_cycles,
    l0c_fits,
    l1_use,
    largest_block_q,
    required_block_kv,
    required_fixpipe_rate,
    required_hit_rate,
    ub_separate,
    ub_shared,
)
from kernels.perf.sweeping import best

PR = find_soc("950PR")
DEEP = Shape(1, 16, 16, 4096, 4096, 256, "bfloat16", 3)


def test_when_the_cube_is_the_bound():
    assert (cube_bound_block_q(1), cube_bound_block_q(0)) == (82, 265)
    assert (cube_bound_block_q(1, harmonic_mix), cube_bound_block_q(0, harmonic_mix)) == (82, 265)
    for m in (82, 265):
        bandwidth = doc_mix(1) if m == 82 else doc_mix(0)
        assert cube_cycles(m, 128, 256) > kv_cycles(128, 256, bandwidth) > cube_cycles(m - 1, 128, 256)


@pytest.mark.parametrize(("m", "linear", "harmonic"), [(96, 0.78, 0.92), (102, 0.70, 0.89), (128, 0.47, 0.74)])
def test_hit_rates_that_it_takes(m, linear, harmonic):
    assert round(required_hit_rate(m), 2) == linear
    assert round(required_hit_rate(m, harmonic=True), 2) == harmonic
    assert doc_mix(required_hit_rate(m)) == pytest.approx(8192 / m)
    assert harmonic_mix(required_hit_rate(m, harmonic=True)) == pytest.approx(8192 / m)
    assert required_hit_rate(300) == 0


def test_the_re_read_benchmark_decides_between_the_two_means():
    """asc-devkit data_copy: 302 MB read four times in slices that L2 holds, 75 % hits, L1 of an A2: 397.8 us."""
    a2 = find_soc("910B1")
    seconds = 4 * 302e6 / (24 * 1850e6)
    measured = 397.8e-6
    l2, hbm = a2.l2_bytes_per_cycle, a2.hbm_bytes_per_cycle
    assert seconds / harmonic_mix(0.75, l2, hbm) == pytest.approx(measured, rel=0.05)
    assert seconds / doc_mix(0.75, l2, hbm) < 0.8 * measured


def test_fixpipe():
    assert (required_fixpipe_rate(128, 256), required_fixpipe_rate(256, 256)) == (96, 64)
    assert required_block_kv(101, 256) == 119
    assert [fixpipe_cycles(128, 128, 256, rate) for rate in (96, 128)] == [2048, 1536]
    assert cube_cycles(128, 128, 256) == 2048
    assert [round(kv_cycles(128, 256, doc_mix(h))) for h in (1, 0)] == [1298, 4228]
    assert kv_cycles(256, 256, 101) > cube_cycles(64, 256, 256) == 2048  # (64, 256): MTE2 bound whatever the hit rate


def test_the_largest_tiles():
    assert [largest_block_q(ub_shared, n, 256, UB_BYTES) for n in (128, 256)] == [128, 107]
    assert [largest_block_q(l1_use, n, 256, L1_BYTES) for n in (128, 256)] == [219, 102]
    assert largest_block_q(ub_separate, 256, 256, UB_BYTES) == 74
    assert (l0c_fits(128, 128, 256), l0c_fits(65, 256, 256), l0c_fits(64, 256, 256)) == (True, False, True)


def test_a_hundred_and_two_rows_are_one_too_many():
    assert pytest.approx(101.95, abs=0.005) == (UB_BYTES - 512) / (7 * 128 + 6 * 256 + 54)
    assert largest_block_q(ub_separate, 128, 256, UB_BYTES) == 101
    assert ub_separate(102, 128, 256) - UB_BYTES == 132
    assert ub_separate(101, 128, 256) <= UB_BYTES


def test_the_plan_and_the_formulas_are_the_same_sums():
    separate = Schedule(ub_p_slots=2)
    shared = Schedule(preload=0, shared_so=True, ub_p_slots=2)
    for m, n in ((64, 128), (96, 128), (128, 128), (64, 256)):
        tile = {"block_q": m, "block_kv": n}
        assert buffer_plan(PR, DEEP, replace(separate, **tile))["UB"].used == ub_separate(m, n, 256)
        assert buffer_plan(PR, DEEP, replace(shared, **tile))["UB"].used == ub_shared(m, n, 256)
    assert ub_separate(128, 128, 256) / 1024 == 311.25
    assert ub_shared(128, 128, 256) / 1024 == 247.25
    assert UB_BYTES - ub_shared(128, 128, 256) == 768
    assert round(ub_separate(64, 256, 256) / 1024, 1) == 211.9


def test_with_no_start_up_costs_the_model_has_the_same_bound():
    """82 rows at a hit rate of 1 and 265 at 0, here to the multiple of 16 that a schedule takes."""
    free = dict.fromkeys(("start_mmad", "start_dma", "start_fixpipe", "start_mte1", "start_vector", "start_mte3"), 0.0)
    arch = replace(PR.architecture, **free)
    soc = replace(PR, l2_bytes_per_cycle=101.0)
    shape = replace(DEEP, mask_mode=0)
    one = Schedule(s_slots=1, o_slots=1, p_slots=1, preload=1, l0c_slots=1, l0_slots=1, q_slots=1, block_kv=64)
    for hit, bound in ((1.0, 82), (0.0, 265)):
        for block_q in range(48, 321, 16):
            schedule = replace(one, block_q=block_q)
            roomy = replace(arch, ub=1 << 30, l0a=1 << 30, l0c=1 << 30, l1=1 << 30)
            cycles = _cycles(soc, shape, schedule, roomy, hit)
            assert (cycles["CUBE"] > cycles["MTE2"]) == (block_q >= bound), block_q


def _cycles(soc, shape, schedule, architecture, hit):
    from kernels.perf.kernel import core_time
    from kernels.perf.l2 import HitRates, bandwidths

    bw = bandwidths(soc, architecture, HitRates(hit, 1.0), soc.cores)
    return core_time(architecture, bw, shape, schedule, 64, 8).busy


def test_the_best_tile_is_the_documents():
    for dim, mask in ((256, 0), (128, 0)):
        shape = Shape(1, 16, 16, 4096, 4096, dim, mask_mode=mask)
        few = grid(block_q=(64, 96, 128), block_kv=(128, 256), preload=(1, 2), slots=((1, 1, 2), (2, 2, 3)))
        found = best(sweep(PR, shape, few))
        assert (found.schedule.block_q, found.schedule.block_kv) == (128, 128)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [128, 256])
def test_the_best_of_1848_schedules(dim):
    shape = Shape(1, 16, 16, 4096, 4096, dim)
    done = []
    outcomes = sweep(PR, shape, grid(), progress=done.append)
    assert done == list(range(1, 1849))
    found = best(outcomes)
    assert (found.schedule.block_q, found.schedule.block_kv) == (128, 128)
    assert (
        found.microseconds == min(o.microseconds for o in outcomes) == predict(PR, shape, found.schedule).microseconds
    )
