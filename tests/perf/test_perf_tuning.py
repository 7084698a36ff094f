"""The tuning cases: the gain that is stated, by its idea and not without it, whatever the constants are within 20 %."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product

import pytest

from kernels.perf import Refused, Schedule, grid, predict, sweep
from kernels.perf.sweeping import best
from kernels.perf.tuning_cases import BY_NAME, CASES, SHARE, TuningCase

GRADED = [case for case in CASES if case.graded]


def gain_of(case: TuningCase, schedule: Schedule) -> float:
    return case.start_us() / predict(case.soc, case.shape, schedule).microseconds - 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_gain_is_the_stated_one(case):
    assert case.predicted_gain() == pytest.approx(case.gain, abs=0.011)
    if case.start is not None:
        changed = {f.name for f in fields(Schedule) if getattr(case.start, f.name) != getattr(case.end, f.name)}
        assert changed <= set(case.idea)
    if case.measured is not None:
        assert (1 + case.gain) / (1 + case.measured) == pytest.approx(1, abs=0.05)
    if case.refused is not None:
        with pytest.raises(Refused):
            predict(case.soc, case.shape, case.refused)


def test_the_exercises():
    assert [case.name for case in GRADED] == ["block-size", "overflow", "on-chip", "preload"]
    assert all(case.gain > 0.28 and case.at_least >= 0.55 * case.gain for case in GRADED)
    assert len(BY_NAME) == len(CASES)


def without_the_idea(case: TuningCase, full: bool) -> list[Schedule]:
    """Schedules that turn every other knob: tiles, what runs ahead, places; full: also loads of V and the split."""
    start = case.start
    assert start is not None
    options: dict[str, tuple[object, ...]] = {
        "block_q": (64, 128),
        "block_kv": (128, 256),
        "preload": (1, 2, 4) if not full else (0, 1, 2, 3, 4),
        "s_slots": (1, 2),
        "p_slots": (1, 3) if not full else (1, 2, 3, 4),
        "v_load": ("c2",) if not full else ("c1", "c2", "p"),
        "v_slots": (2,) if not full else (2, 4),
        "split": ("rows",) if not full else ("rows", "even"),
        "l0c_slots": (4,) if not full else (2, 4),
    }
    if case.name == "preload":  # both halves of the idea are kept from it: running ahead, and a second place
        options["preload"] = (1,)
    else:
        options |= {name: (getattr(start, name),) for name in case.idea if name in options}
    if case.name == "overflow":  # the naive way out, kept: everything else is then free
        options |= {"preload": (0, 1, 2), "s_slots": (1, 2)}
    return [replace(start, **dict(zip(options, values))) for values in product(*options.values())]


@pytest.mark.parametrize("case", GRADED, ids=lambda case: case.name)
def test_no_other_knob_reaches_an_exercise(case):
    reached(case, full=False)


@pytest.mark.slow
@pytest.mark.parametrize("case", GRADED, ids=lambda case: case.name)
def test_no_other_knob_of_many_reaches_an_exercise(case):
    reached(case, full=True)


def reached(case: TuningCase, full: bool) -> None:
    schedules = without_the_idea(case, full)
    found = best(sweep(case.soc, case.shape, schedules))
    assert found is not None
    assert gain_of(case, found.schedule) < SHARE * case.gain, found.schedule
    assert gain_of(case, case.end) > SHARE * case.gain


def test_half_of_the_preload_idea_is_not_enough():
    case = BY_NAME["preload"]
    assert case.start is not None
    with pytest.raises(Refused, match="deadlock"):
        predict(case.soc, case.shape, replace(case.start, preload=2))
    assert gain_of(case, replace(case.start, s_slots=2, p_slots=3)) < 0.02
    assert gain_of(case, replace(case.start, preload=2, p_slots=2)) < SHARE * case.gain


def corners(case: TuningCase) -> list[dict[str, float]]:
    """Every way of moving the constants that the two kernels use by 20 % up or down."""
    codes = {schedule.vector_code for schedule in (case.start, case.end) if schedule}
    fitted = case.soc.architecture.fitted
    names = [name for name in fitted if "softmax." not in name or name.removeprefix("softmax.") in codes]
    return [dict(zip(names, factors)) for factors in product((0.8, 1.2), repeat=len(names))]


def least_gain(case: TuningCase, ways: list[dict[str, float]]) -> float:
    return min(case.predicted_gain(case.soc.architecture.scaled(way)) for way in ways)


@pytest.mark.parametrize("case", GRADED, ids=lambda case: case.name)
def test_gains_survive_some_other_constants(case):
    ways = corners(case)
    assert least_gain(case, [ways[0], ways[-1], *ways[3::9]]) >= case.at_least


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gains_survive_all_constants_moved_by_a_fifth(case):
    least = least_gain(case, corners(case))
    assert case.at_least <= least < case.at_least + 0.02


def test_traps():
    """What looks like tuning and is not."""
    case = BY_NAME["preload-0"]
    serial = case.start
    assert serial is not None
    singles = replace(serial, k_slots=1, v_slots=1)
    assert gain_of(case, singles) == pytest.approx(0, abs=0.01)  # K and V twice bring nothing without running ahead
    deep = BY_NAME["overflow"]
    one_tile = replace(deep.end, preload=0)
    assert gain_of(deep, one_tile) < gain_of(deep, replace(deep.end, block_q=96, s_slots=2, o_slots=2, preload=2))
    assert sum(1 for _ in grid()) == 1848
