"""What the learner is told when a call gave no value: status, idea and sentence for each kind of failure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from grader.course.catalog import Exercise
from grader.reading.forbidden import MESSAGES
from grader.results import NOTHING_TO_SAY, clean
from grader.subject import Crashed, Missing, Raised, SubjectError, TimedOut, Where, position
from grader.text import Text, listed, say
from grader.vocabulary import CheckFailed, Context
from grader.worker.names import REFUSALS

KIND_NAMES = {
    "function": say("函数", "a function"),
    "class": say("类", "a class"),
    "autograd_function": say(
        "带有自己的 backward 的 torch.autograd.Function 子类",
        "a subclass of torch.autograd.Function with its own backward",
    ),
}

CRASHES = {
    "memory": ("error", say("内存超过上限，进程被终止。", "needed more memory than allowed; the process was ended.")),
    "cpu": ("timeout", say("用完了全部 CPU 时间（死循环？）。", "used up all of its CPU time (an endless loop?).")),
    "exit": ("error", say("代码结束了自己的进程（exit？）。", "the code ended its own process (a call of exit?).")),
    "signal": ("error", say("进程崩溃了（{detail}）。", "the process crashed ({detail}).")),
    "garbage": ("error", say("返回的东西无法接受：{detail}", "what came back cannot be accepted: {detail}")),
    "too_large": ("error", say("返回的结果太大：{detail}", "what came back is too large: {detail}")),
}


NOT_CALLED = re.compile(r"\(\) (got|missing|takes)|unexpected keyword|positional argument")  # Python, of a signature
SKELETON = re.compile(r"s\d+-[a-z-]+")  # what an unwritten skeleton raises NotImplementedError with


@dataclass
class Verdict:
    status: str
    message: Text
    misconception: str | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    where: Where | None = None


def passed(context: Context) -> Verdict:
    message, evidence = context.remark or (NOTHING_TO_SAY, {})
    return Verdict("passed", message, evidence=dict(evidence))


def blocked(needs: list[str]) -> Verdict:
    return Verdict("blocked", say("要先通过 {names}。", "waits for {names}.", names=listed(needs)))


def given_up(times: int) -> Verdict:
    message = say(
        "没有运行：这道题已有 {times} 项检查超时或崩溃。",
        "not run: {times} checks of this exercise already ran out of time or crashed.",
        times=times,
    )
    return Verdict("timeout", message)


def of_failure(error: CheckFailed | SubjectError, exercise: Exercise, missing: Verdict | None = None) -> Verdict:
    """The verdict for what ended a check. ``missing`` is used when the exercise's own name is not there, for an engine
    that knows why."""
    verdict = _of_failure(error, exercise, missing)
    if verdict.misconception is None and error.misconception:  # a check may know which idea makes the code raise
        return replace(verdict, misconception=error.misconception)
    return verdict


def _of_failure(error: CheckFailed | SubjectError, exercise: Exercise, missing: Verdict | None) -> Verdict:
    if isinstance(error, CheckFailed):
        return Verdict("failed", error.message, error.misconception, error.evidence, error.where)
    if isinstance(error, Missing):
        return missing if missing and error.found is None else _missing(error, exercise)
    if isinstance(error, Raised):
        return _raised(error, exercise)
    if isinstance(error, TimedOut):
        return _timed_out(error)
    if isinstance(error, Crashed):
        status, text = CRASHES.get(error.reason, CRASHES["signal"])
        detail = clean(error.detail or error.reason)
        return Verdict(status, Text(text.zh.replace("{detail}", detail), text.en.replace("{detail}", detail)))
    return Verdict("error", say("没有得到结果：{it}", "gave no result: {it}", it=clean(error)))


def _missing(error: Missing, exercise: Exercise) -> Verdict:
    if error.found is None:
        return not_defined(error.name, exercise)
    expected = KIND_NAMES.get(exercise.kind, KIND_NAMES["function"])
    found = clean(error.found)
    message = Text(
        f"{error.name} 应当是{expected.zh}，现在是 {found}。", f"{error.name} should be {expected.en}; it is {found}."
    )
    return Verdict("failed", message, "missing")


def bad_artifact(error: Exception) -> Text:
    return say(
        "交上的文件读不了：{why}。重新运行写出它的那一格。",
        "what was handed in cannot be read: {why}. Run the cell that writes it again.",
        why=clean(error),
    )


def not_defined(name: str, exercise: Exercise) -> Verdict:
    message = say(
        "没有定义 {name}。用 ./dojo reset 文件 {id} 可以取回这道题的骨架。",
        "{name} is not defined; ./dojo reset TARGET {id} brings back the exercise's skeleton.",
        name=name,
        id=exercise.id,
    )
    return Verdict("failed", message, "missing")


def not_reached(name: str, place: Where | None, problem: str) -> Verdict:
    """The name would have been defined, had its cell (or file) run."""
    at = position(place)
    message = Text(
        f"没有定义 {name}：{at.zh}有错误：{clean(problem)}。先改好它。",
        f"{name} is not defined: {at.en} has an error: {clean(problem)}. Fix that first.",
    )
    return Verdict("failed", message, "missing", where=place)


def _raised(error: Raised, exercise: Exercise) -> Verdict:
    kind, text = clean(error.kind), clean(error.text)
    if kind == "NotImplementedError":
        return Verdict("failed", _not_written(text, exercise), "not-implemented", where=error.where)
    refused = _refused(error, text)
    if refused:
        return refused
    problem = f"{kind}: {text}" if text else kind
    if error.where is None and kind == "TypeError" and NOT_CALLED.search(text):
        message = say(
            "调用失败：{problem}。请对照题目检查函数签名。",
            "the call failed: {problem}. Compare the signature with the one in the exercise.",
            problem=problem,
        )
        return Verdict("error", message)
    at = position(error.where) if error.where else say("调用", "the call")
    return Verdict("error", Text(f"{at.zh}抛出 {problem}", f"{at.en} raised {problem}"), where=error.where)


def _not_written(text: str, exercise: Exercise) -> Text:
    if text != exercise.id and SKELETON.fullmatch(text):
        return say("它用到的 {other} 还没有写。", "it rests on {other}, which is not written yet.", other=text)
    return say("还没有写：代码停在 NotImplementedError。", "not written yet: the code raises NotImplementedError.")


def _refused(error: Raised, text: str) -> Verdict | None:
    """A ban of the worker, or of the guard in a live kernel, has spoken."""
    guard = error.__cause__
    message = getattr(guard, "message", None)
    if isinstance(message, Text):
        return Verdict("failed", message, f"forbidden-{getattr(guard, 'rule', 'escape')}", where=error.where)
    for rule, words in REFUSALS.items():
        if words in text:
            told, what = MESSAGES[rule], text.rsplit(": ", 1)[-1] if ": " in text else rule
            message = Text(told.zh.format(what=what), told.en.format(what=what))
            return Verdict("failed", message, f"forbidden-{rule}", where=error.where)
    return None


def _timed_out(error: TimedOut) -> Verdict:
    message = say(
        "{seconds:g} 秒内没有返回（死循环？）。",
        "did not come back within {seconds:g} s (an endless loop?).",
        seconds=error.seconds,
    )
    return Verdict("timeout", message, where=error.where)
