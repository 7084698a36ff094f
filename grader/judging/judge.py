"""Runs the checks of a stage on one program and adds up the points.

The judge holds references, cases and expected values; learner code runs behind a :class:`Subject` that has none.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from grader import results
from grader.artifact import BadArtifact
from grader.course.catalog import Exercise, Stage
from grader.inputs import Secret
from grader.judging import verdicts
from grader.judging.allowance import Allowance
from grader.judging.verdicts import Verdict
from grader.reading.artifacts import Artifacts
from grader.reading.policy import Policy
from grader.reading.source import Source
from grader.reading.submission import Program, shown
from grader.subject import Crashed, Missing, Subject, SubjectError, TimedOut, Where, position
from grader.text import Text, listed, say
from grader.vocabulary import Check, CheckFailed, Context, NotMeasured
from grader.worker.names import SOC

BANS = frozenset({"softmax", "autograd", "numpy"})  # rules that a worker enforces by itself
INTERRUPTIONS = 2  # checks of one exercise that may time out or crash; the rest of it is then not run
NAMED = 5  # places of failed statements that are named

log = logging.getLogger("flashdojo")

SubjectFactory = Callable[[frozenset[str]], Subject]


@dataclass(frozen=True)
class _HandedIn:
    """Whose it is, and what every check of it works with."""

    student: str
    secret: Secret
    artifacts: Artifacts


@dataclass
class _Underway:
    """An exercise on its way through its checks."""

    exercise: Exercise
    checks: list[Check]
    verdicts: dict[str, tuple[Verdict, float]] = field(default_factory=dict)  # by check, with seconds
    interrupted: int = 0  # checks that timed out or crashed
    broken: Text | None = None  # the grader's own mistake

    def passed(self, check_id: str) -> bool:
        return check_id in self.verdicts and self.verdicts[check_id][0].status == "passed"


def grade_program(
    program: Program,
    stage: Stage,
    *,
    student: str,
    secret: Secret,
    subject_factory: SubjectFactory,
    only_public: bool = False,
    exercises: Collection[str] | None = None,
) -> dict[str, Any]:
    """One element of the result document's ``submissions``.

    ``subject_factory(bans)`` makes a subject under the given bans; exercises with the same bans share one. What it
    makes is closed here. ``exercises``: ids to grade, None for all. Nothing the program does raises.
    """
    start = time.perf_counter()
    source = Source(program)
    policy = Policy(source)
    chosen = [exercise for exercise in stage.exercises if exercises is None or exercise.id in exercises]
    states = [_Underway(exercise, _selected(exercise, only_public)) for exercise in chosen]
    allowance = Allowance()
    handed_in = _HandedIn(student, secret, program.artifacts)
    stumbles: dict[Where | None, str] = {}
    with _subjects(subject_factory) as subject_for:
        later = []
        for state in states:
            bans = conditions(state.exercise)
            reason = _ruled_out(state.exercise, source, policy)
            if reason:
                _give_all(state, reason)
                continue
            subject = allowance.around(subject_for(bans))
            stumbles |= _stumbles(subject)
            if not _advance(state, subject, source, handed_in, until_interrupted=True):
                later.append((state, subject))
        for state, subject in later:  # whatever hangs or crashes waits until the others had their turn
            _advance(state, subject, source, handed_in, until_interrupted=False)
    _point_to_causes(states, source)
    stumbles = _that_count(stumbles, program, stage)
    broken = next((state.broken for state in states if state.broken), None)
    return results.submission(
        path=shown(program.path),
        student=student,
        stage=stage.id,
        sha256=program.sha256,
        status="failed" if broken else "graded",
        message=broken,
        repairs=[*program.repairs, *_left_out(program, stage), *_skipped(stumbles, states)],
        seconds=time.perf_counter() - start,
        exercises=[_exercise_row(state) for state in states],
        artifacts=program.artifacts.digests(),
    )


def judge_exercise(
    exercise: Exercise,
    subject: Subject,
    *,
    student: str = "",
    secret: Secret | None = None,
    only_public: bool = True,
    artifacts: Artifacts | None = None,
) -> dict[str, Any]:
    """The checks of one exercise on any subject, without reading source: what the notebook's ``check`` shows. The
    grader's own mistakes are raised."""
    state = _Underway(exercise, _selected(exercise, only_public))
    handed_in = _HandedIn(student, secret or Secret(), artifacts or Artifacts())
    _advance(state, subject, None, handed_in, until_interrupted=False)
    if state.broken:
        raise RuntimeError(state.broken.en)
    return _exercise_row(state)


def _left_out(program: Program, stage: Stage) -> tuple[Text, ...]:
    return program.artifacts.notes if any(exercise.is_artifact for exercise in stage.exercises) else ()


def _selected(exercise: Exercise, only_public: bool) -> list[Check]:
    return [check for check in exercise.checks if check.public or not only_public]


def conditions(exercise: Exercise) -> frozenset[str]:
    """What its worker is to be: what is disabled there, and which NPU it has."""
    soc = {SOC + exercise.soc} if exercise.soc else set()
    return BANS & frozenset(exercise.forbid) | soc


@contextmanager
def _subjects(factory: SubjectFactory) -> Iterator[Callable[[frozenset[str]], Subject]]:
    made: dict[frozenset[str], Subject] = {}

    def subject_for(bans: frozenset[str]) -> Subject:
        if bans not in made:
            made[bans] = factory(bans)
        return made[bans]

    try:
        yield subject_for
    finally:
        for subject in made.values():
            close = getattr(subject, "close", None)
            if close:
                close()


def _ruled_out(exercise: Exercise, source: Source, policy: Policy) -> Verdict | None:
    """Why the source alone decides the exercise, if it does. An artifact is judged as it is, whatever made it."""
    if exercise.is_artifact:
        return None
    if not source.defines(exercise.name):
        return _missing(exercise, source, None)
    violations = policy.violations(exercise.name, exercise.forbid, exercise.allow)
    if violations:
        first = violations[0]
        return Verdict("failed", first.message, f"forbidden-{first.rule}", where=first.where)
    return None


def _missing(exercise: Exercise, source: Source, subject: Any) -> Verdict:
    """The name is not there: because of an error in the cell that would define it, or because nobody wrote it."""
    error = source.syntax_error_near(exercise.name)
    if error:
        return verdicts.not_reached(exercise.name, *error)
    report = getattr(subject, "load_report", None)
    for failure in getattr(report, "errors", ()):
        if failure.where is not None and source.defined_at(exercise.name, failure.where):
            return verdicts.not_reached(exercise.name, failure.where, f"{failure.kind}: {failure.text}")
    return verdicts.not_defined(exercise.name, exercise)


def _stumbles(subject: Any) -> dict[Where | None, str]:
    """Where statements failed while the program was loaded, and how. Loads it, as the first check would; when that
    fails altogether the checks say so."""
    try:
        report = getattr(subject, "load_report", None)
        return {error.where: error.kind for error in getattr(report, "errors", ())}
    except Exception:
        return {}


def _that_count(stumbles: dict[Where | None, str], program: Program, stage: Stage) -> dict[Where | None, str]:
    """Without the cells that write an artifact: they ran in the notebook, where the course's own modules are."""
    writing = {exercise.id for exercise in stage.exercises if exercise.is_artifact}
    cells = {cell.number for cell in program.cells if (cell.grade_id or "").removesuffix("-answer") in writing}
    return {place: kind for place, kind in stumbles.items() if place is None or place.cell not in cells}


def _skipped(stumbles: dict[Where | None, str], states: list[_Underway]) -> list[Text]:
    """One line about these statements, without those that a verdict points to already."""
    told = {verdict.where for state in states for verdict, _ in state.verdicts.values()}
    places = [(position(place), results.clean(kind)) for place, kind in stumbles.items() if place not in told]
    if not places:
        return []
    rest = " ..." if len(places) > NAMED else ""
    zh = "、".join(f"{at.zh}（{kind}）" for at, kind in places[:NAMED])
    en = "; ".join(f"{at.en} ({kind})" for at, kind in places[:NAMED])
    return [
        Text(
            f"载入时出错而跳过，其余照常检查：{zh}{rest}",
            f"failed while loading and skipped, the rest counts: {en}{rest}",
        )
    ]


def _give_all(state: _Underway, verdict: Verdict) -> None:
    for check in state.checks:
        state.verdicts[check.id] = verdict, 0.0


def _advance(
    state: _Underway,
    subject: Subject,
    source: Source | None,
    handed_in: _HandedIn,
    *,
    until_interrupted: bool,
) -> bool:
    """Run the checks that have not run yet; False when stopped at the first time-out or crash with checks left."""
    selected = {check.id for check in state.checks}
    for check in state.checks:
        if check.id in state.verdicts:
            continue
        if until_interrupted and state.interrupted:
            return False
        start = time.perf_counter()
        unmet = [need for need in check.needs if need in selected and not state.passed(need)]
        if unmet:
            causes = [need for need in unmet if state.verdicts[need][0].status != "blocked"]
            verdict = verdicts.blocked(causes or unmet)
        elif state.interrupted >= INTERRUPTIONS:
            verdict = verdicts.given_up(INTERRUPTIONS)
        else:
            beside = handed_in.artifacts
            context = Context(subject, check.id, handed_in.student, handed_in.secret, beside.files, beside.refused)
            verdict = _run(check, state, context, source)
        state.verdicts[check.id] = verdict, time.perf_counter() - start
    return True


def _run(check: Check, state: _Underway, context: Context, source: Source | None) -> Verdict:
    exercise = state.exercise
    try:
        check.run(context)
    except (CheckFailed, SubjectError) as error:
        state.interrupted += isinstance(error, TimedOut | Crashed)
        missing = None
        if isinstance(error, Missing) and error.name == exercise.name and source:
            missing = _missing(exercise, source, context.subject)
        return verdicts.of_failure(error, exercise, missing)
    except BadArtifact as error:
        return Verdict("failed", verdicts.bad_artifact(error), "artifact-unreadable")
    except NotMeasured as error:
        if check.points == 0:
            return Verdict("not_measured", error.message)
        state.broken = say(
            "评分程序自己出错了：{check} 有分值，不能不测。请告诉课程作者。",
            "the grader itself failed: {check} carries points and must be measured. Please tell the authors.",
            check=check.id,
        )
        return Verdict("error", state.broken)
    except Exception as error:
        log.debug("check %s failed by itself", check.id, exc_info=True)
        frame = traceback.extract_tb(error.__traceback__)[-1]
        at = f"{Path(frame.filename).name}:{frame.lineno}"
        state.broken = say(
            "评分程序自己出错了（{check}，{at}）：{kind}: {text}。这不是你的问题，请告诉课程作者。",
            "the grader itself failed ({check}, {at}): {kind}: {text}. Not your mistake; please tell the authors.",
            check=check.id,
            at=at,
            kind=type(error).__name__,
            text=results.clean(error),
        )
        return Verdict("error", state.broken)
    return verdicts.passed(context)


def _point_to_causes(states: list[_Underway], source: Source) -> None:
    """A failure whose code rests on another exercise that fails too says so: that one is to be mended first."""
    failing = {
        state.exercise.name: state.exercise.id
        for state in states
        if any(verdict.status not in results.FINE for verdict, _ in state.verdicts.values())
    }
    for state in states:
        if state.exercise.name not in failing:
            continue
        used = source.uses(state.exercise.name)
        causes = [id for name, id in failing.items() if name in used and name != state.exercise.name]
        if not causes:
            continue
        cause = say(
            "它用到的 {ids} 也没通过，先改它。",
            "It rests on {ids}, which fails too; fix that first.",
            ids=listed(causes),
        )
        for check_id, (verdict, seconds) in state.verdicts.items():
            if verdict.status in ("failed", "error", "timeout"):
                verdict = replace(
                    verdict, message=verdict.message.plus(cause), evidence={**verdict.evidence, "rests_on": causes}
                )
                state.verdicts[check_id] = verdict, seconds


def _exercise_row(state: _Underway) -> dict[str, Any]:
    return results.exercise(state.exercise.id, [_check_row(check, *state.verdicts[check.id]) for check in state.checks])


def _check_row(check: Check, verdict: Verdict, seconds: float) -> dict[str, Any]:
    return {
        "id": check.id,
        "concept": check.concept,
        "visibility": "public" if check.public else "hidden",
        "status": verdict.status,
        "points": results.points(check.points),
        "earned": results.points(check.points) if verdict.status == "passed" else 0.0,
        "message": verdict.message.to_json(),
        "misconception": verdict.misconception,
        "evidence": results.plain(verdict.evidence),
        "where": results.where(verdict.where),
        "seconds": round(seconds, 4),
    }
