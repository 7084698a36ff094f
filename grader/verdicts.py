"""What the learner is told when a call gave no value: status, idea and sentence for each kind of failure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from grader.catalog import Exercise
from grader.results import clean
from grader.subject import Crashed, Missing, Raised, SubjectError, TimedOut, Where
from grader.text import Text, say
from grader.vocabulary import CheckFailed

PASSED = say("通过", "passed")

KIND_NAMES = {
    "function": say("函数", "a function"),
    "class": say("类", "a class"),
    "autograd_function": say("torch.autograd.Function 的子类", "a subclass of torch.autograd.Function"),
}

CRASHES = {
    "memory": ("error", say("内存超过上限，进程被终止。", "needed more memory than allowed; the process was ended.")),
    "cpu": ("timeout", say("用完了全部 CPU 时间（死循环？）。", "used up all of its CPU time (an endless loop?).")),
    "exit": ("error", say("代码结束了自己的进程（exit？）。", "the code ended its own process (a call of exit?).")),
    "signal": ("error", say("进程崩溃了（{detail}）。", "the process crashed ({detail}).")),
    "garbage": ("error", say("返回的东西无法接受：{detail}", "what came back cannot be accepted: {detail}")),
    "too_large": ("error", say("返回的结果太大：{detail}", "what came back is too large: {detail}")),
}


@dataclass
class Verdict:
    status: str
    message: Text
    misconception: str | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    where: Where | None = None


def passed() -> Verdict:
    return Verdict("passed", PASSED)


def blocked(needs: list[str]) -> Verdict:
    names = ", ".join(needs)
    return Verdict("blocked", say("要先通过 {names}。", "waits until {names} passes.", names=names))


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
    if isinstance(error, CheckFailed):
        return Verdict("failed", error.message, error.misconception, error.evidence, error.where)
    if isinstance(error, Missing):
        return missing if missing and error.found is None else _missing(error, exercise)
    if isinstance(error, Raised):
        return _raised(error)
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


def not_defined(name: str, exercise: Exercise) -> Verdict:
    message = say(
        "没有定义 {name}。用 flashdojo reset 文件 {id} 可以取回这道题的骨架。",
        "{name} is not defined; flashdojo reset TARGET {id} brings back the exercise's skeleton.",
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


def _raised(error: Raised) -> Verdict:
    kind, text = clean(error.kind), clean(error.text)
    if kind == "NotImplementedError":
        return Verdict(
            "failed",
            say("还没有写：代码停在 NotImplementedError。", "not written yet: the code raises NotImplementedError."),
            "not-implemented",
            where=error.where,
        )
    refusal = error.__cause__  # a live subject says itself what it refused
    if isinstance(getattr(refusal, "message", None), Text):
        return Verdict("failed", refusal.message, f"forbidden-{refusal.rule}", where=error.where)  # type: ignore[union-attr]
    if "not allowed in FlashDojo" in text:
        message = say("用了不允许的东西：{text}", "uses what is not allowed: {text}", text=text)
        return Verdict("failed", message, _refused_rule(text), where=error.where)
    problem = f"{kind}: {text}" if text else kind
    if error.where is None and kind == "TypeError":
        message = say(
            "调用失败：{problem}。请对照题目检查函数签名。",
            "the call failed: {problem}. Compare the signature with the one in the exercise.",
            problem=problem,
        )
        return Verdict("error", message)
    at = position(error.where) if error.where else say("调用", "the call")
    return Verdict("error", Text(f"{at.zh}抛出 {problem}", f"{at.en} raised {problem}"), where=error.where)


def _refused_rule(text: str) -> str | None:
    """Which ban of the worker speaks: its messages begin with what is refused."""
    subject = text.split("not allowed in FlashDojo")[0]
    rules = {"attention": "library_attention", "softmax": "softmax", "autograd": "autograd", "numpy": "numpy"}
    return next((f"forbidden-{rule}" for word, rule in rules.items() if word in subject), None)


def _timed_out(error: TimedOut) -> Verdict:
    message = say(
        "{seconds:g} 秒内没有返回（死循环？）。",
        "did not come back within {seconds:g} s (an endless loop?).",
        seconds=error.seconds,
    )
    return Verdict("timeout", message, where=error.where)


def position(place: Where | None) -> Text:
    if place is None:
        return say("代码", "the code")
    if place.cell is None:
        return say("第 {line} 行", "line {line}", line=place.line)
    return say("第 {cell} 个单元第 {line} 行", "cell {cell}, line {line}", cell=place.cell, line=place.line)
