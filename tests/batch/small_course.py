"""A course with two small exercises, and a class that hands in all sorts of answers to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grader.wall.limits import Limits

LIMITS = Limits(load=3, call=3)
STAGE = """
id = "s9"
[title]
zh = "段"
en = "Stage"
[concepts]
idea = { zh = "一", en = "one" }
"""
EXERCISE = """
[[exercises]]
id = "s9-{name}"
name = "{name}"
kind = "function"
points = {points}
solution = "x.py"
forbid = ["library_attention", "softmax"]
title = {{ zh = "甲", en = "A" }}
summary = {{ zh = "甲", en = "A" }}
hints = [{{ zh = "一", en = "1" }}, {{ zh = "二", en = "2" }}, {{ zh = "三", en = "3" }}]
"""
CHECKS = """
import torch
from grader.vocabulary import check, say

def body(ctx, name, factor):
    x = torch.from_numpy(ctx.rng().standard_normal(5))
    got = ctx.subject.call(name, x).value
    if not isinstance(got, torch.Tensor) or not torch.equal(got, factor * x):
        ctx.fail(say("不对", "wrong"), evidence={"input": x})

@check("s9-double.values", points=2, concept="idea")
def double(ctx): body(ctx, "double", 2)

@check("s9-double.again", points=1, concept="idea", needs=("s9-double.values",), public=False)
def again(ctx): body(ctx, "double", 2)

@check("s9-triple.values", points=4, concept="idea")
def triple(ctx): body(ctx, "triple", 3)
"""

RIGHT = "def double(x): return 2 * x\ndef triple(x): return x + double(x)\n"
SUBMISSIONS: dict[str, str] = {
    "right.py": RIGHT,
    "wrong.py": "def double(x): return x\ndef triple(x): return 3 * x\n",
    "syntax.py": "def double(x:\n",
    "empty.py": "",
    "crash.py": "def double(x): raise SystemExit\ndef triple(x): return 3 * x\n",
    "nonsense.py": "def double(x): return object()\ndef triple(x): return 3 * x\n",
    "cheat.py": "import torch\ndef double(x): return torch.softmax(x, -1)\ndef triple(x): return 3 * x\n",
    "hang_at_load.py": RIGHT + "import time\ntime.sleep(1000)\n",
}


def write_course(folder: Path) -> Path:
    """The folder of a course."""
    stage = folder / "s9_nine"
    stage.mkdir()
    exercises = EXERCISE.format(name="double", points=3) + EXERCISE.format(name="triple", points=4)
    (stage / "stage.toml").write_text(STAGE + exercises, "utf-8")
    (stage / "checks.py").write_text(CHECKS, "utf-8")
    return folder


def write_class(folder: Path) -> Path:
    for name, source in SUBMISSIONS.items():
        (folder / name).write_text(source, "utf-8")
    return folder


def without_seconds(value: Any) -> Any:
    """A document, or a part of one, as it has to be whoever graded."""
    if isinstance(value, dict):
        return {key: without_seconds(item) for key, item in value.items() if key not in ("seconds", "device")}
    return [without_seconds(item) for item in value] if isinstance(value, list) else value
