"""The evidence of a check as rows: what the message has told is not told again, and whole numbers stay whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from grader.text import Text, say

BYTES = ("quadratic-memory", "too-much-memory", "tiles-quadratic")  # ideas whose evidence may be memory in bytes
NUMBER = re.compile(
    r"(?<![\w.])-?\d+(?:,\d{3})+(?:\.\d+)?|(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|(?<!\w)-?(?:inf|nan)\b"
)
LIST = re.compile(r"\[[^\]]*\]")  # a place or a shape: its numbers are no values
VALUES = {
    "index": say("位置", "at"),
    "expected": say("应为", "expected"),
    "got": say("得到", "got"),
    "shape": say("形状", "shape"),
}


def facts(evidence: Mapping[str, Any], message: Text, misconception: str | None) -> list[tuple[Text, str]]:
    rows: list[tuple[Text, str]] = []
    case = evidence.get("case")
    if case and not (_in(case, message) or _follow(numbers(case), numbers(message.en))):
        rows.append((say("输入", "inputs"), case))
    rows += _measured(evidence, message, misconception)
    for key, label in VALUES.items():
        value = evidence.get(key)
        if value is not None and not told(value, message):
            rows.append((label, shown(value)))
    return rows


def _measured(evidence: Mapping[str, Any], message: Text, misconception: str | None) -> list[tuple[Text, str]]:
    """``max_error`` against ``tolerance``: an error is no whole number, a size is."""
    value, limit = as_number(evidence.get("max_error")), as_number(evidence.get("tolerance"))
    if not isinstance(evidence.get("max_error"), int):
        label, of_limit, unit, scale = say("最大误差", "largest error"), say("容差", "tolerance"), "", 1.0
    elif misconception in BYTES and "shape" not in evidence:
        label, of_limit, unit, scale = say("内存", "memory"), say("上限", "limit"), " MB", 1e6
    else:
        label, of_limit, unit, scale = say("元素个数", "elements"), say("上限", "limit"), "", 1.0
    value, limit = (None if number is None or told(number / scale, message) else number for number in (value, limit))
    if value is not None:
        bound = f"  (≤ {shown(limit / scale)}{unit})" if limit is not None else ""
        return [(label, f"{shown(value / scale)}{unit}{bound}")]
    return [] if limit is None else [(of_limit, f"{shown(limit / scale)}{unit}")]


def shown(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        whole = abs(value) < 1e15 and value == int(value)
        return f"{int(value):,}" if whole else f"{value:.4g}"
    text = str(value)
    return text if len(text) <= 120 else text[:117] + "..."


def as_number(value: Any) -> float | None:
    """A number, also one that JSON had to spell out (``inf``, ``nan``)."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def told(value: Any, message: Text) -> bool:
    """Whether the message holds this value: a number as far as it is rounded there, anything else as it stands or by
    its words and numbers."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        alone = LIST.sub(" ", message.en)
        return any(_rounds_to(value, number) for number in numbers(alone))
    text = str(value)
    if _in(text, message):
        return True
    words, parts = re.findall(r"[A-Za-z_]\w*", text), numbers(text)
    return bool(parts) and all(word in message.en for word in words) and _follow(parts, numbers(message.en))


def _in(text: str, message: Text) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(text)}(?!\w)", said, re.ASCII) for said in message)


def numbers(text: str) -> list[str]:
    return NUMBER.findall(text)


def _follow(parts: list[str], whole: list[str]) -> bool:
    """Whether ``parts`` stand in ``whole`` one after the other."""
    return bool(parts) and any(whole[i : i + len(parts)] == parts for i in range(len(whole) - len(parts) + 1))


def _rounds_to(value: float, written: str) -> bool:
    plain = written.replace(",", "")
    if value == float(plain) or str(value) == plain:
        return True
    digits = len(re.sub(r"e.*|[-.]", "", plain).lstrip("0"))
    return (digits > 1 or "e" in plain) and float(f"{value:.{max(digits, 1)}g}") == float(plain)
