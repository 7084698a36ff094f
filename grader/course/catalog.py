"""The course as data: stages, exercises, hints and checks, read from ``stages/`` and validated."""

from __future__ import annotations

import ast
import difflib
import hashlib
import importlib
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from grader import paths
from grader.syntax import tree_of
from grader.text import Text, listed, say
from grader.vocabulary import Check

KINDS = ("function", "class", "autograd_function", "artifact")
RULES = ("numpy", "threads", "library_attention", "npu_operator", "autograd", "softmax")
ALLOWANCES = ("files",)  # what an exercise may use although every other must not
DEVICES = ("cpu", "npu")
HINTS = 3
PLANNED = ("s5",)  # stages of the syllabus that may not be there yet
COMMON = paths.ROOT / "grader" / "checking" / "misconceptions.toml"


class CatalogError(Exception):
    """The course itself is wrong. ``problems`` says for each mistake what its author has to change."""

    def __init__(self, problems: Iterable[str]):
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


class UnknownName(LookupError):
    """There is no such stage or exercise. ``message`` tells the learner which ones there are."""

    def __init__(self, message: Text):
        super().__init__(message.en)
        self.message = message


class UnknownStage(UnknownName):
    pass


class UnknownExercise(UnknownName):
    pass


@dataclass(frozen=True)
class Misconception:
    title: Text
    explain: Text  # what is wrong and what to do, one or two sentences


@dataclass(frozen=True)
class Reading:
    title: Text
    url: str


@dataclass(frozen=True)
class Exercise:
    """One row of the contract table."""

    id: str  # "s2-forward"
    stage_id: str
    name: str  # what the submission defines: "flash_attention_forward"; an artifact: its file or folder
    kind: str  # one of KINDS
    points: float
    title: Text
    summary: Text
    hints: tuple[Text, ...]
    reading: tuple[Reading, ...]
    forbid: tuple[str, ...]  # of RULES
    solution: Path
    checks: list[Check] = field(default_factory=list)  # in the order in which they run
    soc: str | None = None  # the NPU that it runs on, where that matters: "Ascend910B3"
    allow: tuple[str, ...] = ()  # of ALLOWANCES

    @property
    def is_artifact(self) -> bool:
        """Whether the answer is a file or folder beside the program, rather than a name in it."""
        return self.kind == "artifact"


@dataclass(frozen=True)
class Stage:
    id: str  # "s2"
    folder: str  # "s2_flash_attention"
    path: Path
    title: Text
    weeks: str
    exercises: list[Exercise]
    concepts: dict[str, Text]
    misconceptions: dict[str, Misconception]  # the stage's own and those common to all stages
    device: str = "cpu"  # of DEVICES: where learner code finds its tensors

    @property
    def points(self) -> float:
        return sum(exercise.points for exercise in self.exercises)

    def exercise(self, id: str) -> Exercise:
        """The exercise ``s2-forward``, also written ``s2.forward``; raises :class:`UnknownExercise`."""
        return find_exercise(self.exercises, id)


@dataclass(frozen=True)
class Catalog:
    stages: list[Stage]
    problems: list[str] = field(default_factory=list)

    def stage(self, id: str) -> Stage:
        """The stage ``s2``, also by its folder; raises :class:`UnknownStage`."""
        for stage in self.stages:
            if id in (stage.id, stage.folder):
                return stage
        known = listed(stage.id for stage in self.stages)
        if id.split("_")[0] in PLANNED:
            raise UnknownStage(
                say(
                    "阶段 {id} 还在准备中；现在可选：{known}",
                    "stage {id} is in preparation; ready are {known}",
                    id=id,
                    known=known,
                )
            )
        raise UnknownStage(
            say("没有阶段 {id}；可选：{known}", "there is no stage {id}; choose from {known}", id=id, known=known)
        )

    def exercise(self, id: str) -> Exercise:
        """The exercise ``s2-forward``, also written ``s2.forward``; raises :class:`UnknownExercise`."""
        return find_exercise([exercise for stage in self.stages for exercise in stage.exercises], id)


def find_exercise(exercises: list[Exercise], id: str) -> Exercise:
    wanted = id.replace(".", "-")
    for exercise in exercises:
        if exercise.id == wanted:
            return exercise
    known = [exercise.id for exercise in exercises]
    close = listed(difflib.get_close_matches(wanted, known, n=3, cutoff=0.5) or known)
    raise UnknownExercise(
        say("没有练习 {id}；是不是 {close}？", "there is no exercise {id}; did you mean {close}?", id=id, close=close)
    )


def load(root: Path = paths.STAGES, *, strict: bool = True, checks: bool = True) -> Catalog:
    """The course under ``root``. With ``strict`` a mistake in it raises :class:`CatalogError`; without, the catalog
    holds what could be read and ``problems`` says what is wrong. ``checks=False`` leaves the checks out, and so does
    not wait for torch: enough for titles, points and hints."""
    catalog = _read(Path(root).resolve(), checks)
    if strict and catalog.problems:
        raise CatalogError(catalog.problems)
    return catalog


@cache
def _read(root: Path, checks: bool) -> Catalog:
    problems: list[str] = []
    stages = []
    for file in sorted(root.glob("*/stage.toml")):
        try:
            stages.append(_read_stage(file, problems, checks))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            problems.append(f"{file}: not valid TOML: {error}")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            problems.append(f"{file}: a field is missing or has the wrong type: {error!r}")
    if not stages and not problems:
        problems.append(f"{root}: no stage.toml in any folder of it")
    stages.sort(key=lambda stage: (len(stage.id), stage.id))
    problems += _repeated("stage", [stage.id for stage in stages])
    problems += _repeated("exercise", [exercise.id for stage in stages for exercise in stage.exercises])
    return Catalog(stages, problems)


def _read_stage(file: Path, problems: list[str], checks: bool) -> Stage:
    data = tomllib.loads(file.read_text("utf-8"))
    folder = file.parent
    texts = _table(COMMON), _table(folder / "misconceptions.toml")
    concepts = {key: _text(value) for table in texts for key, value in table.get("concepts", {}).items()}
    concepts |= {key: _text(value) for key, value in data.get("concepts", {}).items()}
    misconceptions = {
        key: Misconception(_text(value["title"]), _text(value["explain"]))
        for table in texts
        for key, value in table.get("misconceptions", {}).items()
    }
    stage = Stage(
        id=data["id"],
        folder=folder.name,
        path=folder,
        title=_text(data["title"]),
        weeks=str(data.get("weeks", "")),
        exercises=[_exercise(row, data["id"], folder.name) for row in data.get("exercises", [])],
        concepts=concepts,
        misconceptions=misconceptions,
        device=str(data.get("device", "cpu")),
    )
    problems += [f"{file}: {problem}" for problem in _exercise_problems(stage)]
    if not checks:
        return stage
    for check in _checks(folder, problems):
        owner = next((exercise for exercise in stage.exercises if exercise.id == check.exercise), None)
        if owner is None:
            problems.append(f"{folder / 'checks.py'}: check {check.id} belongs to no exercise of {file.name}")
        else:
            owner.checks.append(check)
    problems += [f"{folder / 'checks.py'}: {problem}" for problem in _check_problems(stage)]
    problems += _named_but_unknown(stage)
    return stage


def _table(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text("utf-8")) if file.is_file() else {}


def _text(value: Mapping[str, str]) -> Text:
    return Text(value["zh"].strip(), value["en"].strip())


def _exercise(row: Mapping[str, Any], stage_id: str, folder: str) -> Exercise:
    return Exercise(
        id=row["id"],
        stage_id=stage_id,
        name=row["name"],
        kind=row["kind"],
        points=float(row["points"]),
        title=_text(row["title"]),
        summary=_text(row["summary"]),
        hints=tuple(_text(hint) for hint in row.get("hints", ())),
        reading=tuple(Reading(_text(entry["title"]), entry["url"]) for entry in row.get("reading", ())),
        forbid=tuple(row.get("forbid", ())),
        soc=row.get("soc"),
        allow=tuple(row.get("allow", ())),
        solution=paths.SOLUTIONS / folder / row["solution"],
    )


def _checks(folder: Path, problems: list[str]) -> list[Check]:
    """The checks of ``checks.py`` in the order of definition. Imported by path; ``from .mistakes import`` works."""
    if not (folder / "checks.py").is_file():
        problems.append(f"{folder}: no checks.py, so nothing here can be graded")
        return []
    package = "flashdojo_stages"
    if folder.parent != paths.STAGES:
        package += "_" + hashlib.sha256(str(folder.parent).encode()).hexdigest()[:8]
    if package not in sys.modules:
        module = ModuleType(package)
        module.__path__ = [str(folder.parent)]
        sys.modules[package] = module
    try:
        module = importlib.import_module(f"{package}.{folder.name}.checks")
    except Exception as error:
        problems.append(f"{folder / 'checks.py'}: cannot be imported: {type(error).__name__}: {error}")
        return []
    return list({id(value): value for value in vars(module).values() if isinstance(value, Check)}.values())


def _exercise_problems(stage: Stage) -> Iterable[str]:
    if stage.device not in DEVICES:
        yield f"device {stage.device!r} is none of {', '.join(DEVICES)}"
    for exercise in stage.exercises:
        if not exercise.id.startswith(stage.id + "-"):
            yield f"exercise {exercise.id}: the id must start with {stage.id}-"
        if "." in exercise.id:
            yield f"exercise {exercise.id}: nbgrader allows no dot in an id"
        if exercise.kind not in KINDS:
            yield f"exercise {exercise.id}: kind {exercise.kind!r} is none of {', '.join(KINDS)}"
        if len(exercise.hints) != HINTS:
            yield f"exercise {exercise.id}: {len(exercise.hints)} hints, there must be {HINTS}"
        if exercise.points <= 0:
            yield f"exercise {exercise.id}: points must be positive"
        for rule in exercise.forbid:
            if rule not in RULES:
                yield f"exercise {exercise.id}: forbids {rule!r}, which is none of {', '.join(RULES)}"
        for allowance in exercise.allow:
            if allowance not in ALLOWANCES:
                yield f"exercise {exercise.id}: allows {allowance!r}, which is none of {', '.join(ALLOWANCES)}"
        if exercise.soc and stage.device != "npu":
            yield f"exercise {exercise.id}: soc {exercise.soc!r}, but the stage's device is {stage.device}"
        texts = (exercise.title, exercise.summary, *exercise.hints, *(entry.title for entry in exercise.reading))
        if not all(text.zh and text.en for text in texts):
            yield f"exercise {exercise.id}: a title, summary or hint is empty in one language"


def _check_problems(stage: Stage) -> Iterable[str]:
    yield from _repeated("check", [check.id for exercise in stage.exercises for check in exercise.checks])
    for exercise in stage.exercises:
        total = sum(check.points for check in exercise.checks)
        if exercise.checks and abs(total - exercise.points) > 1e-9:
            yield f"the checks of {exercise.id} give {total:g} points, stage.toml says {exercise.points:g}"
        if not exercise.checks and (stage.path / "checks.py").is_file():
            yield f"exercise {exercise.id} has no check"
        earlier: set[str] = set()
        for check in exercise.checks:
            for need in check.needs:
                if need not in earlier:
                    yield f"check {check.id} needs {need}, which is no earlier check of {exercise.id}"
            earlier.add(check.id)
            if check.points < 0:
                yield f"check {check.id} has negative points"
            if check.concept not in stage.concepts:
                yield f"check {check.id}: concept {check.concept!r} has no entry in misconceptions.toml [concepts]"


def _named_but_unknown(stage: Stage) -> Iterable[str]:
    """Misconceptions that the stage's code names literally (``misconception="..."``) must have a text."""
    for file in sorted(stage.path.glob("*.py")):
        for node in ast.walk(tree_of(file.read_text("utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "misconception" and isinstance(node.value, ast.Constant):
                name = node.value.value
                if isinstance(name, str) and name not in stage.misconceptions:
                    line = node.value.lineno
                    yield f"{file}:{line}: misconception {name!r} has no entry in misconceptions.toml [misconceptions]"


def _repeated(what: str, ids: list[str]) -> list[str]:
    return [f"{what} id {id} is used more than once" for id in sorted({id for id in ids if ids.count(id) > 1})]
