"""Do checks become verdicts and points as they should? With programs that run in this very process."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grader import results
from grader.course.catalog import Exercise, Stage
from grader.inputs import Secret
from grader.judging import judge
from grader.judging.allowance import Allowance
from grader.reading.magics import parse
from grader.reading.submission import Cell, Program
from grader.subject import Crashed, Missing, Outcome, Raised, TimedOut, Where
from grader.text import Text, say
from grader.vocabulary import Check, Context, check
from grader.wall.workers import LoadError, LoadReport

PROGRAM = """
import torch
def one(x): return x
def two(x): return one(x)
"""


class Fake:
    """A subject for tests of the judge's own logic: names answer with a value, an exception or a function."""

    def __init__(self, **answers: Any):
        self.answers, self.calls, self.closed = answers, [], 0

    def call(self, name: str, *args: Any, **kwargs: Any) -> Outcome:
        self.calls.append(name)
        answer = self.answers.get(name, 1)
        if isinstance(answer, Exception):
            raise answer
        return Outcome(answer(*args) if callable(answer) else answer)

    def close(self) -> None:
        self.closed += 1


def make(id: str, points: float, run: Callable[[Context], None], *needs: str, public: bool = True) -> Check:
    return check(id, points=points, concept="idea", needs=needs, public=public)(run)


def calls(name: str) -> Callable[[Context], None]:
    def run(ctx: Context) -> None:
        if ctx.subject.call(name, 1).value != 1:
            ctx.fail(say("{x} 不对", "{x} is wrong", x=name), misconception="idea-x", evidence={"got": float("nan")})

    return run


def exercise(id: str, name: str, *checks: Check, forbid: tuple[str, ...] = ()) -> Exercise:
    text = Text("题", "exercise")
    points = sum(check.points for check in checks)
    return Exercise(
        id, "s9", name, "function", points, text, text, (text,) * 3, (), forbid, Path("x.py"), list(checks)
    )


def stage(*exercises: Exercise) -> Stage:
    return Stage("s9", "s9_x", Path(), Text("段", "stage"), "1", list(exercises), {}, {})


def two_exercises() -> Stage:
    return stage(
        exercise("s9-one", "one", make("s9-one.a", 2, calls("one")), make("s9-one.b", 1.5, calls("one"), "s9-one.a")),
        exercise("s9-two", "two", make("s9-two.a", 3, calls("two")), make("s9-two.b", 1, calls("two"), "s9-two.a")),
    )


def program(*cells: str) -> Program:
    made = []
    for number, source in enumerate(cells or (PROGRAM,), 1):
        tree = parse(textwrap.dedent(source))
        kind = {"error": tree} if isinstance(tree, SyntaxError) else {"tree": tree}
        made.append(Cell(number, textwrap.dedent(source), **kind))  # type: ignore[arg-type]
    return Program(Path("a.ipynb"), "0" * 64, made)


def grade(course: Stage, subject: Any, *cells: str, **options: Any) -> dict[str, Any]:
    """Graded, and valid as part of a document."""
    factory = subject if callable(subject) else lambda bans: subject
    row = judge.grade_program(
        program(*cells), course, student="ann", secret=Secret(), subject_factory=factory, **options
    )
    results.validate(results.document([row], secret=Secret()))
    return row


def verdicts(row: dict[str, Any]) -> dict[str, str]:
    return {check["id"]: check["status"] for exercise in row["exercises"] for check in exercise["checks"]}


def first(row: dict[str, Any], id: str = "s9-one.a") -> dict[str, Any]:
    return next(check for exercise in row["exercises"] for check in exercise["checks"] if check["id"] == id)


def test_a_right_program_gets_every_point() -> None:
    row = grade(two_exercises(), Fake())
    assert (row["status"], row["score"], row["max_score"], row["student"]) == ("graded", 7.5, 7.5, "ann")
    assert set(verdicts(row).values()) == {"passed"}
    assert [exercise["score"] for exercise in row["exercises"]] == [3.5, 4]


def test_a_wrong_value_fails_its_check_and_blocks_what_needs_it() -> None:
    row = grade(two_exercises(), Fake(one=2))
    assert verdicts(row) == {"s9-one.a": "failed", "s9-one.b": "blocked", "s9-two.a": "passed", "s9-two.b": "passed"}
    failed = first(row)
    assert (failed["earned"], failed["misconception"], failed["message"]["en"]) == (0, "idea-x", "one is wrong")
    assert failed["evidence"] == {"got": "nan"}
    assert "s9-one.a" in first(row, "s9-one.b")["message"]["zh"]
    assert row["score"] == 4


def test_what_is_blocked_blocks_in_turn() -> None:
    course = stage(
        exercise("s9-one", "one", make("s9-one.a", 1, calls("one")), make("s9-one.b", 1, calls("one"), "s9-one.a"),
                 make("s9-one.c", 1, calls("one"), "s9-one.a", "s9-one.b"), make("s9-one.d", 1, lambda ctx: None))
    )  # fmt: skip
    row = grade(course, Fake(one=0))
    assert list(verdicts(row).values()) == ["failed", "blocked", "blocked", "passed"]
    assert first(row, "s9-one.c")["message"]["en"] == "waits for s9-one.a."


@pytest.mark.parametrize(
    ("error", "status", "misconception", "told"),
    [
        (Raised("ValueError", "bad", Where(2, 7)), "error", None, "cell 2, line 7 raised ValueError: bad"),
        (Raised("ValueError", "bad", Where(None, 7)), "error", None, "line 7 raised ValueError: bad"),
        (Raised("KeyError", ""), "error", None, "the call raised KeyError"),
        (Raised("TypeError", "one() got an unexpected keyword"), "error", None, "Compare the signature"),
        (Raised("NotImplementedError", "s9-one", Where(1, 3)), "failed", "not-implemented", "not written yet"),
        (Raised("NotImplementedError", "s9-two"), "failed", "not-implemented", "rests on s9-two"),
        (
            Raised("RuntimeError", "library attention is not allowed in FlashDojo: aten.sdpa"),
            "failed", "forbidden-library_attention", "uses aten.sdpa",
        ),
        (
            Raised("RuntimeError", "this exercise asks you to write softmax yourself: aten._softmax"),
            "failed", "forbidden-softmax", "uses aten._softmax",
        ),
        (TimedOut(10, Where(1, 2)), "timeout", None, "within 10 s"),
        (Crashed("memory"), "error", None, "memory"),
        (Crashed("cpu"), "timeout", None, "CPU"),
        (Crashed("exit", "0"), "error", None, "its own process"),
        (Crashed("signal", "SIGSEGV"), "error", None, "SIGSEGV"),
        (Crashed("garbage", "a {set}"), "error", None, "a {set}"),
        (Crashed("too_large", "1 GiB"), "error", None, "1 GiB"),
        (Crashed("unheard-of"), "error", None, "unheard-of"),
        (Missing("one"), "failed", "missing", "one is not defined"),
        (Missing("one", "int"), "failed", "missing", "one should be a function; it is int"),
        (Missing("other"), "failed", "missing", "other is not defined"),
    ],
)  # fmt: skip
def test_what_learner_code_does_becomes_a_status(
    error: Exception, status: str, misconception: str | None, told: str
) -> None:
    row = grade(two_exercises(), Fake(one=error))
    check = first(row)
    assert (check["status"], check["misconception"], check["earned"]) == (status, misconception, 0)
    assert told in check["message"]["en"]
    assert check["message"]["zh"] != check["message"]["en"]
    assert first(row, "s9-two.a")["status"] == "passed"


def test_the_place_is_told() -> None:
    assert first(grade(two_exercises(), Fake(one=Raised("E", "x", Where(2, 7)))))["where"] == {"cell": 2, "line": 7}


def test_hostile_text_is_cleaned() -> None:
    row = grade(two_exercises(), Fake(one=Raised("\x1b[2J" + "K" * 900, "\ud800{x}%s", Where(1, 1))))
    assert "\x1b" not in first(row)["message"]["en"]
    first(row)["message"]["en"].encode("utf-8")


def test_a_missing_name_is_told_without_asking_the_worker() -> None:
    subject = Fake()
    row = grade(two_exercises(), subject, "def two(x): return x")
    assert verdicts(row)["s9-one.a"] == "failed"
    assert first(row)["misconception"] == "missing"
    assert "./dojo reset TARGET s9-one" in first(row)["message"]["en"]
    assert "one" not in subject.calls


def test_a_name_lost_to_a_syntax_error_says_where_it_is() -> None:
    cells = "def other(:\n  pass", "x = 1\ndef one(x)\n  return x", "def two(x): return x"
    row = grade(two_exercises(), Fake(), *cells)
    assert first(row)["where"] == {"cell": 2, "line": 2}
    assert "cell 2, line 2 has an error: SyntaxError" in first(row)["message"]["en"]
    assert first(row, "s9-two.a")["status"] == "passed"


def test_a_name_lost_to_an_error_while_loading_says_where_it_is() -> None:
    failure = LoadError(Where(1, 3), "NameError", "name 'cache' is not defined")
    subject = Fake(one=Missing("one"))
    subject.load_report = LoadReport([failure])  # type: ignore[attr-defined]
    row = grade(two_exercises(), subject, "import torch\n\n@cache\ndef one(x): return x\ndef two(x): return x")
    assert "cell 1, line 3 has an error: NameError" in first(row)["message"]["en"]


def test_what_failed_beside_the_definitions_is_said_once() -> None:
    subject = Fake()
    lost = LoadError(Where(1, 3), "NameError", "name 'cache' is not defined")
    beside = [LoadError(Where(3, line), "ValueError", "no") for line in range(1, 8)]
    subject.load_report = LoadReport([*beside[:2], lost])  # type: ignore[attr-defined]
    row = grade(two_exercises(), subject, "def one(x): return x", "def two(x): return one(x)")
    (said,) = row["repairs"]
    assert said["en"].endswith(": cell 3, line 1 (ValueError); cell 3, line 2 (ValueError); cell 1, line 3 (NameError)")
    assert "第 3 个单元第 1 行（ValueError）、" in said["zh"]
    assert row["score"] == row["max_score"]
    subject.load_report = LoadReport(beside)  # type: ignore[attr-defined]
    row = grade(two_exercises(), subject, "def one(x): return x", "def two(x): return one(x)")
    assert row["repairs"][0]["en"].endswith("line 5 (ValueError) ...")
    subject = Fake(one=Missing("one"))
    subject.load_report = LoadReport([lost])  # type: ignore[attr-defined]
    row = grade(two_exercises(), subject, "import torch\n\n@cache\ndef one(x): return x\ndef two(x): return x")
    assert row["repairs"] == []  # the verdict points to it


def test_what_is_forbidden_earns_nothing_and_is_not_run() -> None:
    course = stage(
        exercise("s9-one", "one", make("s9-one.a", 2, calls("one")), make("s9-one.b", 1, calls("one")),
                 forbid=("library_attention",)),
        exercise("s9-two", "two", make("s9-two.a", 3, calls("two"))),
    )  # fmt: skip
    subject = Fake()
    cheat = "import torch.nn.functional as F\ndef one(x): return F.scaled_dot_product_attention(x)"
    row = grade(course, subject, cheat, "def two(x): return x")
    assert verdicts(row) == {"s9-one.a": "failed", "s9-one.b": "failed", "s9-two.a": "passed"}
    assert first(row)["misconception"] == first(row, "s9-one.b")["misconception"] == "forbidden-library_attention"
    assert first(row)["where"] == {"cell": 1, "line": 2}
    assert subject.calls == ["two"]


def test_exercises_with_the_same_bans_share_a_worker_and_all_are_closed() -> None:
    course = stage(
        exercise("s9-a", "one", make("s9-a.a", 1, calls("one")), forbid=("softmax", "threads")),
        exercise("s9-b", "two", make("s9-b.a", 1, calls("two")), forbid=("softmax", "library_attention")),
        exercise("s9-c", "two", make("s9-c.a", 1, calls("two")), forbid=()),
    )
    made: dict[frozenset[str], Fake] = {}

    def factory(bans: frozenset[str]) -> Fake:
        assert bans not in made
        made[bans] = Fake()
        return made[bans]

    assert grade(course, factory)["score"] == 3
    assert {bans: (len(fake.calls), fake.closed) for bans, fake in made.items()} == {
        frozenset({"softmax"}): (2, 1),
        frozenset(): (1, 1),
    }


def test_workers_are_closed_when_the_person_interrupts() -> None:
    subject = Fake()

    def interrupt(ctx: Context) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grade(stage(exercise("s9-one", "one", make("s9-one.a", 1, interrupt))), subject)
    assert subject.closed == 1


def test_a_mistake_of_the_grader_is_not_hidden() -> None:
    def broken(ctx: Context) -> None:
        raise ZeroDivisionError("1/0")

    course = stage(
        exercise("s9-one", "one", make("s9-one.a", 1, broken)),
        exercise("s9-two", "two", make("s9-two.a", 1, calls("two"))),
    )
    row = grade(course, Fake())
    assert row["status"] == "failed"
    assert "s9-one.a" in row["message"]["en"]
    assert "ZeroDivisionError" in row["message"]["zh"]
    assert verdicts(row) == {"s9-one.a": "error", "s9-two.a": "passed"}
    assert results.exit_code({"submissions": [row]}) == 3


def test_whatever_hangs_waits_until_the_others_had_their_turn() -> None:
    subject = Fake(one=TimedOut(10))
    many = [make(f"s9-one.{letter}", 1, calls("one")) for letter in "abcd"]
    course = stage(exercise("s9-one", "one", *many), exercise("s9-two", "two", make("s9-two.a", 1, calls("two"))))
    row = grade(course, subject)
    assert subject.calls == ["one", "two", "one"]
    assert [check["status"] for check in row["exercises"][0]["checks"]] == ["timeout"] * 4
    assert "not run" in first(row, "s9-one.c")["message"]["en"]
    assert row["score"] == 1


def test_after_one_crash_the_rest_of_the_exercise_can_still_pass() -> None:
    answers = iter([Crashed("signal", "SIGSEGV"), 1])

    def flaky(x: int) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    course = stage(exercise("s9-one", "one", make("s9-one.a", 1, calls("one")), make("s9-one.b", 1, calls("one"))))
    assert list(verdicts(grade(course, Fake(one=flaky))).values()) == ["error", "passed"]


def test_time_spent_asleep_is_counted_too() -> None:
    allowance = Allowance(limit=0.05)
    subject = allowance.around(Fake(one=lambda x: time.sleep(0.1)))  # type: ignore[arg-type]
    subject.call("one", 1)
    with pytest.raises(TimedOut):
        subject.call("one", 1)


def test_a_failure_points_to_the_exercise_it_rests_on() -> None:
    row = grade(two_exercises(), Fake(one=Raised("E", "x"), two=Raised("E", "x")))
    assert "rests on s9-one" in first(row, "s9-two.a")["message"]["en"]
    assert first(row, "s9-two.a")["evidence"]["rests_on"] == ["s9-one"]
    assert "rests on" not in first(row)["message"]["en"]


def without_npu(ctx: Context) -> None:
    ctx.not_measured(say("没有 NPU", "no NPU"))


def test_what_cannot_be_measured_is_said_and_is_no_failure() -> None:
    course = stage(
        exercise("s9-one", "one", make("s9-one.a", 1, calls("one")), make("s9-one.npu", 0, without_npu)),
        exercise("s9-two", "two", make("s9-two.a", 1, calls("two"))),
    )
    row = grade(course, Fake(two=Raised("E", "x")))
    found = first(row, "s9-one.npu")
    assert (found["status"], found["earned"], found["message"]["en"]) == ("not_measured", 0, "no NPU")
    assert "rests on" not in first(row, "s9-two.a")["message"]["en"]
    assert row["status"] == "graded"


def test_a_check_with_points_must_be_measured() -> None:
    row = grade(stage(exercise("s9-one", "one", make("s9-one.a", 1, without_npu))), Fake())
    assert row["status"] == "failed"
    assert "must be measured" in row["message"]["en"]


def test_in_public_only_public_checks_run_and_hidden_needs_do_not_block() -> None:
    course = stage(
        exercise("s9-one", "one", make("s9-one.a", 2, calls("one"), public=False),
                 make("s9-one.b", 1, calls("one"), "s9-one.a"))
    )  # fmt: skip
    row = grade(course, Fake(), only_public=True)
    assert verdicts(row) == {"s9-one.b": "passed"}
    assert (row["score"], row["max_score"]) == (1, 1)
    assert first(grade(course, Fake()))["visibility"] == "hidden"


def test_single_exercises_can_be_chosen() -> None:
    row = grade(two_exercises(), Fake(), exercises={"s9-two"})
    assert [exercise["id"] for exercise in row["exercises"]] == ["s9-two"]



def test_the_same_inputs_whatever_came_before() -> None:
    drawn: dict[str, list[int]] = {}

    def draw(ctx: Context) -> None:
        drawn.setdefault(ctx.check, []).append(int(ctx.rng("case").integers(10**9)))

    course = stage(
        exercise("s9-one", "one", make("s9-one.a", 1, draw)), exercise("s9-two", "two", make("s9-two.a", 1, draw))
    )
    grade(course, Fake())
    grade(course, Fake(), exercises={"s9-two"})
    assert drawn["s9-two.a"][0] == drawn["s9-two.a"][1] != drawn["s9-one.a"][0]


def test_one_exercise_on_a_live_subject() -> None:
    row = judge.judge_exercise(two_exercises().exercises[0], Fake())  # type: ignore[arg-type]
    assert (row["id"], row["score"]) == ("s9-one", 3.5)
