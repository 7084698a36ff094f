"""Stage 4's own rules: what the model says and what an exercise asks for are the same thing."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from grader import paths
from grader.course import catalog
from kernels.perf import SOCS, Refused, Schedule, Shape, analytic, buffer_plan, find_soc, predict, sweep
from kernels.perf.tuning_cases import BY_NAME

SOLUTIONS = paths.SOLUTIONS / "s4_profiling_tuning"


def module(name: str) -> ModuleType:
    return import_module(f"flashdojo_stages.{catalog.load().stage('s4').folder}.{name}")


def solved(file: str, name: str) -> Callable[..., Any]:
    return runpy.run_path(str(SOLUTIONS / file))[name]


# --------------------------------------------------------------------------------------------------------------- tiles
def test_the_inequalities_are_upstreams_and_the_models() -> None:
    fitting = module("fitting_mistakes")
    case = fitting.Buffers({}, 256)
    shared = replace(case, shared_so=True)
    for m, n, d in product((64, 96, 128), (64, 128), (64, 128, 256)):
        assert fitting.use_ub(m, n, d, case) == analytic.ub_separate(m, n, d)
        assert fitting.use_ub(m, n, d, shared) == analytic.ub_shared(m, n, d)
        assert fitting.use_l1(m, n, d, case) == analytic.l1_use(m, n, d)
        causal = Shape(1, 1, 1, 512, 512, d, mask_mode=3)  # without a mask the model needs no room for one
        plan = buffer_plan(find_soc("950PR"), causal, Schedule(block_q=m, block_kv=n))
        assert plan["UB"].used == fitting.use_ub(m, n, d, case)


def test_101_rows_and_not_102() -> None:
    fitting = module("fitting_mistakes")
    chip = dict(module("checks_tiles").ASCEND950)
    assert fitting.largest(fitting.Buffers(chip, 256), 128) == 101
    assert fitting.largest(fitting.Buffers(chip, 256, shared_so=True), 128) == 128
    assert fitting.use_ub(102, 128, 256, fitting.Buffers(chip, 256)) - chip["ub"] == 132


@pytest.mark.parametrize(("hit_rate", "smallest"), [(1.0, 82), (0.0, 265)])
def test_the_smallest_tile_that_feeds_the_cube(hit_rate: float, smallest: int) -> None:
    fitting = module("fitting_mistakes")
    chip = dict(module("checks_tiles").ASCEND950)
    assert fitting.smallest_fed(fitting.Buffers(chip, 128, hit_rate=hit_rate)) == smallest


# ----------------------------------------------------------------------------------------------------------- diagnosis
@pytest.mark.parametrize("seed", range(3))
def test_every_cause_can_be_drawn_and_is_clear(seed: int) -> None:
    kinds = module("profile_kinds")
    for cause, (word, _) in kinds.CAUSES.items():
        row = kinds.draw(np.random.default_rng(seed), cause).row
        assert kinds.answer(row) == word
        assert kinds.clear(row)
        assert kinds.decisive(row) <= set(row)


def test_a_real_row_is_diagnosed_by_its_columns() -> None:
    """910B3, FlashAttentionScore of B2 N4 S4096, causal, as it was recorded: 88.7 % occupied and nothing full."""
    row = dict.fromkeys(module("tables").KEYS) | {
        "duration_us": 407.1, "aicore_us": 361.1, "aiv_us": 360.7, "cube_utilization": 88.7, "block_num": 20,
        "mac": 0.357,
        "scalar": 0.962, "mte1": 0.300, "mte2": 0.468, "fixpipe": 0.584, "vec": 0.634, "aiv_scalar": 0.383,
        "aiv_mte2": 0.307, "mte3": 0.195,
    }  # fmt: skip
    assert module("profile_kinds").answer(row) == "waiting"
    assert solved("diagnose.py", "diagnose")(row) == {"bottleneck": "waiting", "evidence": {"vec": 0.634}}


# --------------------------------------------------------------------------------------------------------------- tuning
def test_the_given_starts_are_the_graded_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the program writes its answer
    tuning, given = module("tuning"), runpy.run_path(str(SOLUTIONS / "tune.py"))["CASES"]
    assert set(given) == set(tuning.KNOBS)
    for name, (soc, shape, start, knobs) in given.items():
        case = BY_NAME[name]
        assert (soc, shape, start) == (case.soc, case.shape, case.start)
        assert set(knobs) == set(tuning.KNOBS[name])
        assert set(case.idea) <= set(knobs)


# the other knobs, and how far each may go; the field that the case is about keeps its start's value
OTHERS = {
    "block-size": {
        "block_kv": (64, 128, 256, 512),
        "preload": (1, 2, 3, 4),
        "k_slots": (1, 2, 4),
        "s_slots": (1, 2, 3),
    },
    "overflow": {"block_kv": (64, 128, 256), "preload": (1, 2, 3), "s_slots": (1, 2), "o_slots": (1, 2)},
    "on-chip": {"block_kv": (64, 128, 256), "preload": (2, 3, 4), "s_slots": (1, 2, 3), "p_slots": (3, 6)},
    "preload": {"q_slots": (1, 2, 3), "k_slots": (1, 2, 3), "p_slots": (1, 2, 3), "s_slots": (1, 2, 3)},
}


@pytest.mark.parametrize("name", OTHERS)
def test_no_other_knob_gets_there(name: str) -> None:
    tuning, case = module("tuning"), BY_NAME[name]
    needed = tuning.required_gain(case)
    assert case.predicted_gain() >= 1.2 * needed
    start = tuning.start_of(case)
    tried = [replace(start, **dict(zip(OTHERS[name], values))) for values in product(*OTHERS[name].values())]
    fastest = min(outcome.microseconds for outcome in sweep(case.soc, case.shape, tried))
    assert case.start_us() / fastest < (1 + needed) / 1.05


@pytest.mark.slow
def test_no_other_tile_gets_there_either() -> None:
    """on-chip and preload: with every tile that fits, and P still through global memory, or no further ahead."""
    tuning = module("tuning")
    for name, rows in (("on-chip", (64, 80, 96, 112, 128, 144, 160, 192, 256)), ("preload", (128,))):
        case, start = BY_NAME[name], tuning.start_of(BY_NAME[name])
        columns = (64, 128, 192, 256, 384, 512) if name == "on-chip" else (128,)
        tried = [
            replace(start, block_q=m, block_kv=n, s_slots=s, o_slots=o, p_slots=p, preload=max(start.preload, ahead))
            for m, n, s, o, p in product(rows, columns, (1, 2, 3), (1, 2), (1, 3, 4))
            for ahead in ((2, 3, 4) if name == "on-chip" else (1,))
        ]
        fastest = min(outcome.microseconds for outcome in sweep(case.soc, case.shape, tried))
        assert case.start_us() / fastest < (1 + tuning.required_gain(case)) / 1.05


# ------------------------------------------------------------------------------------------------------------- schedule
def test_choices_name_chips_that_exist() -> None:
    cases = module("schedule_cases")
    assert {f"Ascend{name}" for name in (*cases.ON_CHIP, *cases.THROUGH_GM)} <= set(SOCS)
    assert {find_soc(name).arch for name in cases.ON_CHIP} == {"3510"}
    assert {find_soc(name).arch for name in cases.THROUGH_GM} == {"2201"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_the_worked_choice_is_near_the_best_and_no_constant_is(seed: int) -> None:
    cases, choose = module("schedule_cases"), solved("schedule.py", "choose_schedule")
    makers = (
        lambda rng: cases.long(rng, cases.ON_CHIP, 128),
        lambda rng: cases.deep(rng),
        lambda rng: cases.long(rng, cases.THROUGH_GM, 128),
        lambda rng: cases.long(rng, cases.THROUGH_GM, 64),
        cases.two_waves,
        cases.few_rows,
    )
    worst = dict.fromkeys(cases.BLOCK_Q, 1.0)
    for make in makers:
        case = make(np.random.default_rng(seed))
        chosen = Schedule.from_json({**case.base.to_json(), **choose(*case.arguments())})
        assert case.ratio(chosen) <= 1.05, str(case)
        for m in cases.BLOCK_Q:
            worst[m] = max(worst[m], case.best_us(block_q=m) / case.best_us())
    assert min(worst.values()) > 1.05 * cases.ALLOWED, worst


def test_a_chip_of_2201_refuses_the_wires() -> None:
    case = module("schedule_cases").few_rows(np.random.default_rng(1))
    with pytest.raises(Refused):
        predict(case.soc, case.shape, Schedule(vector_code="cann"))
