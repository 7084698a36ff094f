"""What is forbidden is known by its name in three places: reading the source, the worker's bans, the live guard."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest
import torch

from grader.judging.judge import BANS
from grader.live.guard import NAMES, Guard
from grader.reading.forbidden import MESSAGES, rules_of_attribute, rules_of_path, rules_of_string
from grader.worker import names

WORKER = {"library_attention": names.ATTENTION, "softmax": names.SOFTMAX}
MODULES = ("torch", "torch.nn", "torch.nn.functional", "torch.special", "torch.nn.attention.flex_attention")
OPERATORS = [name.split("::")[1].split(".")[0] for name in torch._C._dispatch_get_all_op_names()]


def routes() -> Iterator[str]:
    """The dotted names of everything that learners find in torch."""
    for home in MODULES:
        for name in dir(importlib.import_module(home)):
            if not name.startswith("__"):
                yield f"{home}.{name}"
    yield from (f"torch.ops.aten.{name}" for name in OPERATORS)


@pytest.mark.parametrize("rule", WORKER)
def test_what_the_worker_disables_is_refused_by_reading_and_by_the_guard(rule: str) -> None:
    """By path; the guard sees the last name alone, and never a module."""
    disabled = [path for path in routes() if WORKER[rule].search(path.rsplit(".", 1)[1])]
    assert len(disabled) > 20
    assert [path for path in disabled if rule not in rules_of_path(path)] == []
    guard = Guard([rule]).patterns[rule]
    assert [path for path in disabled if not guard.search(path.rsplit(".", 1)[1])] == []


@pytest.mark.parametrize("rule", WORKER)
def test_what_reading_refuses_by_name_is_disabled_in_the_worker(rule: str) -> None:
    """Of values that cannot be told, such as a tensor, reading knows a list of names; each is one of the worker's."""
    known = [name for path in routes() if rule in rules_of_attribute(name := path.rsplit(".", 1)[1])]
    assert known
    assert [name for name in known if not WORKER[rule].search(name)] == []


@pytest.mark.parametrize("name", [name for name in dir(torch.Tensor) if names.SOFTMAX.search(name)])
def test_a_softmax_that_is_a_method_is_refused_as_an_attribute_and_as_a_string(name: str) -> None:
    assert "softmax" in rules_of_attribute(name)
    assert "softmax" in rules_of_string(name)


@pytest.mark.parametrize("name", names.TO_ARRAY)
def test_ways_out_of_torch_are_the_same_everywhere(name: str) -> None:
    assert hasattr(torch.Tensor, name)
    assert "numpy" in rules_of_attribute(name)
    assert Guard(["numpy"]).patterns["numpy"].search(name)


def test_every_rule_that_something_enforces_has_a_message() -> None:
    assert {*WORKER, *BANS, *NAMES, *names.REFUSALS} <= set(MESSAGES)


def test_the_worker_enforces_what_the_guard_does() -> None:
    assert set(NAMES) == {*BANS, "library_attention"}


def test_what_cannot_work_behind_the_wall_is_refused_by_its_name() -> None:
    assert rules_of_path("torch.compile") == {"escape"}
    assert rules_of_path("torch.set_num_threads") == {"threads"}
    assert rules_of_path("torch.get_num_threads") == rules_of_path("torch.compiler.is_compiling") == frozenset()
