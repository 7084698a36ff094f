"""Time that the judge measures from outside: what a program does about clocks and threads does not change it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from grader.checking import speed
from grader.live.subject import LiveSubject
from grader.subject import Outcome, Raised, Subject
from grader.wall.workers import WorkerSubject

Make = Callable[..., WorkerSubject]

WORK = """
import time
def work(x, times=TIMES):
    for _ in range(times):
        y = x @ x
    return y
"""
SQUARE = torch.randn(256, 256, generator=torch.Generator().manual_seed(0))


def times(number: int, extra: str = "") -> str:
    return WORK.replace("TIMES", str(number)) + extra


def test_the_value_comes_back_and_changed_inputs_show(program: Make) -> None:
    subject = program(times(1, "\ndef spoil(x):\n    return x.zero_()\n"))
    outcome = subject.timed("work", SQUARE)
    assert torch.equal(outcome.value, SQUARE @ SQUARE)
    assert outcome.seconds > 0
    assert subject.timed("spoil", SQUARE).changed == ("0",)


def test_only_the_call_is_measured_and_sleep_is_not(program: Make) -> None:
    subject = program("import time\ndef work(x):\n    time.sleep(0.3)\n    return 1\n")
    assert subject.timed("work", torch.zeros(2_000_000)).seconds < 0.1


def test_a_turned_clock_turns_nothing(program: Make) -> None:
    clocks = ("time", "perf_counter", "process_time", "monotonic", "clock_gettime_ns")
    turned = "\n" + "\n".join(f"time.{clock} = lambda *_: 0" for clock in clocks)
    honest, turning = program(times(200)), program(times(200, turned))
    assert turning.timed("work", SQUARE).seconds > 0.3 * honest.timed("work", SQUARE).seconds


def test_other_threads_are_refused(program: Make) -> None:
    waiting = "\nimport threading\nthreading.Thread(target=lambda: time.sleep(5), daemon=True).start()\n"
    with pytest.raises(Raised, match="threads"):
        program(times(1, waiting)).timed("work", SQUARE)


@pytest.mark.parametrize("behind", ["wall", "notebook"])
def test_a_ratio_tells_faster_from_unchanged(program: Make, behind: str) -> None:
    inspected: list[int] = []

    def inspect(number: int, inputs: tuple[torch.Tensor], mine: Outcome, theirs: Outcome) -> None:
        assert torch.allclose(mine.value, inputs[0] @ inputs[0], atol=1e-3)
        assert torch.allclose(theirs.value, mine.value, atol=1e-3)
        inspected.append(number)

    def draw(number: int) -> tuple[torch.Tensor]:
        return (torch.randn(256, 256, generator=torch.Generator().manual_seed(number)),)

    def against_start(number: int) -> speed.Ratio:
        subject: Subject
        if behind == "wall":
            subject = program(times(number))
        else:
            namespace: dict[str, object] = {}
            exec(times(number), namespace)
            subject = LiveSubject(namespace)
        with speed.started(subject, times(30)) as start:
            return speed.measure(subject, start, ("work", "work"), draw, inspect, 1.5)

    assert against_start(6).estimate > 1.5
    assert len(inspected) > speed.FEWEST
    assert against_start(30).estimate < 1.5


def test_an_interval_needs_enough_pairs() -> None:
    assert speed.ratio_of([2.0] * (speed.FEWEST - 1)).low == 0.0
    found = speed.ratio_of([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    assert (found.estimate, found.low, found.high) == (4.5, 1.0, 8.0)
    wide = speed.ratio_of([float(n) for n in range(1, 31)])
    assert 1.0 < wide.low < wide.estimate < wide.high < 30.0


def test_threads_that_a_notebooks_cell_asked_for_are_taken_back(program: Make) -> None:
    """On a machine that others use they would wait for one another, and a right answer would be slow."""
    asking = "import torch\ntorch.set_num_threads(4)\ndef work(x):\n    return torch.get_num_threads()\n"
    assert program(asking).timed("work", SQUARE).value == 1
