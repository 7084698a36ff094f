"""What stage 4 holds to be true of the backward operator: keys, plans, two queues."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from grader import paths
from grader.course import catalog

catalog.load()  # makes the modules of stages importable
KEYS, PLANS, CASES, FLOW = (
    import_module(f"flashdojo_stages.s4_profiling_tuning.{name}")
    for name in ("key_rules", "plan_rules", "plan_cases", "dataflow_rules")
)


@pytest.fixture(scope="module")
def solved() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for file in ("key.py", "plan.py", "dataflow.py"):
        exec((paths.SOLUTIONS / "s4_profiling_tuning" / file).read_text("utf-8"), names)
    return names


def test_48_of_2048_keys_have_a_binary() -> None:
    valid = [key for key in range(2048) if KEYS.right(key) is not None]
    assert len(valid) == 48
    assert all(KEYS.right(KEYS.right(key)) == key for key in valid)
    assert not [key for key in (-1, 2048, 4096 + valid[0]) if KEYS.right(key) is not None]


def test_every_rule_of_the_key_decides_something() -> None:
    """Some combination breaks this rule alone, so leaving it out shows."""
    alone = [KEYS.broken(fields) for fields in KEYS.combinations()]
    assert all([row] in alone for row in range(len(KEYS.EXCLUDED)))


@pytest.mark.parametrize("mode", [3, 4])
def test_empty_blocks_are_those_of_the_whole_mask(mode: int) -> None:
    rng = np.random.default_rng(mode)
    found = set()
    for _ in range(60):
        s1, s2 = (int(n) for n in rng.integers(1, 641, 2))
        window = (-1, -1) if mode == 3 else tuple(int(n) for n in rng.integers(0, 300, 2))
        call = PLANS.make_call("BSND", 2, (4, 4), (s1, s2), (64, 64), mode, window)
        i, j = np.arange(s1)[:, None] + s2 - s1, np.arange(s2)
        seen = j <= i if mode == 3 else (j >= i - window[0]) & (j <= i + window[1])
        blocks = [seen[n : n + 128] for n in range(0, s1, 128)] + [seen[:, n : n + 128] for n in range(0, s2, 128)]
        want = not all(block.any() for block in blocks)
        assert PLANS.empty_block(PLANS.sizes(call), call) == want, (s1, s2, window)
        found.add(want)
    assert found == {True, False}


def test_plans_agree_with_the_worked_solution(solved: dict[str, Any]) -> None:
    """Two programs written apart, on every kind of call that the checks draw."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        calls = CASES.routes(rng) + CASES.written(rng) + [CASES.spoilt(rng, fault) for fault in CASES.FAULTS]
        for call in calls:
            assert solved["plan_backward"](call) == PLANS.right(call)


def test_every_fault_is_found_by_its_own_check() -> None:
    rng = np.random.default_rng(0)
    assert {fault.word for fault in CASES.FAULTS} == set(PLANS.CHECKS)
    for fault in CASES.FAULTS:
        assert PLANS.right(CASES.spoilt(rng, fault))["refused"] == fault.word, fault.told.en
        assert PLANS.right(fault.base(rng))["refused"] is None, fault.told.en


def led(tasks: int, lead: int, vector: tuple[str, ...]) -> tuple[list[Any], list[Any]]:
    cube: list[Any] = []
    for turn in range(tasks + lead):
        cube += [(stage, turn) for stage in FLOW.EARLY if turn < tasks]
        cube += [(stage, turn - lead) for stage in FLOW.LATE if turn >= lead]
    return cube, [(stage, task) for task in range(tasks) for stage in vector]


@pytest.mark.parametrize("template", ["BN2GS1S2", "BN2"])
def test_the_slots_allow_the_lead_of_the_template_and_no_more(template: str, solved: dict[str, Any]) -> None:
    answer = solved["backward_dataflow"](9, template)
    assert not FLOW.run(template, answer["cube"], answer["vector"])
    vector = tuple(stage for stage, task in answer["vector"] if task == 0)
    for lead in range(5):
        stuck = FLOW.run(template, *led(9, lead, vector))
        assert bool(stuck) == (lead > FLOW.LEAD[template]), (lead, stuck)


def test_a_queue_that_reads_before_it_writes_stands_still() -> None:
    stuck = FLOW.run("BN2GS1S2", *led(2, 0, ("V3", "V1", "V2", "V4")))
    assert FLOW.Stuck(("V3", 0), ("V1", 0)) in stuck
