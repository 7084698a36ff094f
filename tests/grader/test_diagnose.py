"""When is a wrong idea named, and when is it not?"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from grader.checking.compare import Expected
from grader.checking.diagnose import Observation, Suspect, Verdict, name_mistake

Change = Callable[[torch.Tensor], torch.Tensor]

A, B = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([5.0, -1.0])


def expected(case: torch.Tensor) -> dict[str, Expected]:
    return {"out": Expected("out", case.double(), 1e-6, torch.float32)}


def idea(id: str, change: Change, also: str | None = None) -> Suspect:
    return Suspect(id, lambda case: {"out": change(case)}, also)


def seen(change: Change, *cases: torch.Tensor) -> list[Observation]:
    return [Observation(case, expected(case), {"out": change(case)}) for case in cases]


DOUBLED, NEGATED = idea("doubled", lambda x: 2 * x), idea("negated", lambda x: -x)


def test_the_idea_that_explains_two_cases_is_named() -> None:
    assert name_mistake(seen(lambda x: 2 * x, A, B), [DOUBLED, NEGATED]) == Verdict("doubled")


def test_rounding_does_not_hide_it() -> None:
    assert name_mistake(seen(lambda x: 2 * x + 1e-6, A, B), [DOUBLED]) == Verdict("doubled")


def test_one_case_is_not_enough() -> None:
    assert name_mistake(seen(lambda x: 2 * x, A), [DOUBLED]) is None


def test_an_unknown_idea_gets_no_name() -> None:
    assert name_mistake(seen(lambda x: 3 * x, A, B), [DOUBLED, NEGATED]) is None


def test_two_ideas_that_agree_on_what_was_seen_name_nothing() -> None:
    squared = idea("squared", lambda x: x * x)
    two = torch.tensor([2.0, 2.0])
    assert name_mistake(seen(lambda x: 2 * x, two, two), [DOUBLED, squared]) is None
    assert name_mistake(seen(lambda x: 2 * x, two, A), [DOUBLED, squared]) == Verdict("doubled")


def test_an_idea_nearby_but_not_equal_forbids_a_name_too() -> None:
    almost = idea("almost", lambda x: 2 * x + 1.2e-5)
    assert name_mistake(seen(lambda x: 2 * x, A, B), [DOUBLED, almost]) is None


def test_variants_of_one_idea_do_not_compete() -> None:
    assert name_mistake(seen(lambda x: 2 * x, A, B), [DOUBLED, idea("doubled", lambda x: x + x)]) == Verdict("doubled")


def test_a_right_value_is_no_mistake() -> None:
    assert name_mistake(seen(lambda x: x, A, B), [idea("nothing", lambda x: x)]) is None


def test_an_idea_must_be_right_where_the_program_is() -> None:
    known = [Observation(A, expected(A))]
    only_negative = idea("only-negative", lambda x: torch.where(x < 0, 2 * x, x))
    negative = torch.tensor([-1.0, -2.0])
    wrong = seen(lambda x: 2 * x, negative, 3 * negative)
    assert name_mistake(wrong, [DOUBLED, only_negative]) is None
    assert name_mistake(wrong, [DOUBLED, only_negative], known) == Verdict("only-negative")


def test_equal_patterns_of_nan_and_infinity_match() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 2, math.nan, torch.where(x < 0, math.inf, x))

    assert name_mistake(seen(broken, A, B), [idea("broken", broken), DOUBLED]) == Verdict("broken")
    assert name_mistake(seen(broken, A, B), [idea("other", lambda x: broken(x).nan_to_num(0.0))]) is None


def test_a_pair_is_named_only_when_no_single_idea_fits() -> None:
    both = idea("doubled", lambda x: -2 * x, also="negated")
    assert name_mistake(seen(lambda x: -2 * x, A, B), [DOUBLED, NEGATED, both]) == Verdict("doubled", "negated")
    assert name_mistake(seen(lambda x: -x, A, B), [DOUBLED, NEGATED, both]) == Verdict("negated")


def test_an_idea_that_cannot_be_carried_out_explains_nothing() -> None:
    def impossible(x: torch.Tensor) -> torch.Tensor:
        return x @ torch.zeros(7, 7)

    assert name_mistake(seen(lambda x: 2 * x, A, B), [idea("impossible", impossible), DOUBLED]) == Verdict("doubled")
    assert name_mistake(seen(lambda x: 2 * x, A, B), [idea("short", lambda x: x[:1])]) is None
