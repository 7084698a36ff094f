"""What must hold for every schedule: one more slot never slows a run, and the short run stands for the long one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from statistics import median

import pytest
from perf_draws import SLOTS, draw, full_run, legal, short_cut

from kernels.perf import Deadlock, Refused, predict, refusals
from kernels.perf.buffers import Reason


def check_slots(seed: int, count: int) -> None:
    compared = 0
    for soc, shape, schedule in legal(seed, count):
        before = full_run(soc, shape, schedule, [20, 20])
        for slots in SLOTS:
            more = replace(schedule, **{slots: getattr(schedule, slots) + 1})
            if refusals(soc, shape, more):
                continue  # one more does not fit
            assert full_run(soc, shape, more, [20, 20]) <= before + 1e-6, (soc.name, shape, schedule, slots)
            compared += 1
    assert compared > 5 * count


def check_short_cut(seed: int, count: int) -> None:
    errors = []
    for soc, shape, schedule in legal(seed, count):
        for tasks in ([1], [9, 9], [8] * 12, [60, 60], [150]):
            full = full_run(soc, shape, schedule, tasks)
            errors.append(abs(short_cut(soc, shape, schedule, tasks) / full - 1))
            assert errors[-1] < 0.03, (soc.name, shape, schedule, tasks)
    assert median(errors) < 1e-6


def check_slots_of_predictions(seed: int, count: int) -> None:
    """A prediction is a short run carried on: there the rule holds but for what the short cut is off."""
    for soc, shape, schedule in legal(seed, count):
        before = predict(soc, shape, schedule).microseconds
        for slots in SLOTS:
            more = replace(schedule, **{slots: getattr(schedule, slots) + 1})
            if not refusals(soc, shape, more):
                assert predict(soc, shape, more).microseconds < 1.03 * before, (soc.name, shape, schedule, slots)


def check_deadlocks(seed: int, count: int) -> None:
    """A prediction refuses what a long run hangs in, and nothing else."""
    random, found = Random(seed), 0
    for _ in range(count):
        case = draw(random)
        if refusals(*case):
            assert refused(predict, *case)
        else:
            reasons = refused(full_run, *case, [64])
            assert all(isinstance(reason, Deadlock) for reason in reasons)
            assert bool(reasons) == bool(refused(predict, *case))
            found += bool(reasons)
    assert found > count / 20


def refused(what: Callable[..., object], *args: object) -> list[Reason]:
    try:
        what(*args)
    except Refused as error:
        return error.reasons
    return []


def test_a_slot_more_never_slows_a_run():
    check_slots(1, 12)


def test_a_short_run_stands_for_a_long_one():
    check_short_cut(2, 12)


def test_a_slot_more_does_not_slow_a_prediction():
    check_slots_of_predictions(3, 8)


def test_deadlocks_are_found():
    check_deadlocks(4, 80)


@pytest.mark.slow
def test_a_slot_more_never_slows_any_of_500_runs():
    check_slots(5, 500)


@pytest.mark.slow
def test_a_short_run_stands_for_a_long_one_500_times():
    check_short_cut(6, 500)


@pytest.mark.slow
def test_a_slot_more_does_not_slow_500_predictions():
    check_slots_of_predictions(7, 500)


@pytest.mark.slow
def test_deadlocks_are_found_in_2000_draws():
    check_deadlocks(8, 2000)
