"""The summary of a run in Markdown: the points by exercise, and what is wrong where."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grader.pipeline.annotations import Annotation, relative
from grader.text import Text, say
from grader.views.content import Block, blocks, number

MOST = 30  # problems that are listed


def summary(document: Mapping[str, Any], notes: Sequence[Annotation], untouched: Sequence[Path], root: Path) -> str:
    parts = [_submission(entry, root) for entry in document["submissions"]]
    if notes:
        head = say("| 位置 | 检查 | 说明 |\n|---|---|---|\n", "| where | check | what |\n|---|---|---|\n")
        rows = [
            f"| {_code(f'{note.file}:{note.line}')} | {_code(note.check)} | {_cell(note.message)} |\n"
            for note in notes[:MOST]
        ]
        title = say("### 需要改的地方\n\n", "### What to mend\n\n")
        rest = len(notes) - MOST
        more = say("\n另有 {n} 处，见报告。\n", "\n{n} more are in the report.\n", n=rest) if rest > 0 else ""
        parts.append(f"{title}{head}{''.join(rows)}{more}")
    if untouched:
        names = ", ".join(_code(relative(path, root)) for path in untouched)
        parts.append(str(say("还没有动笔，没有评分：{names}\n", "Not begun, so not graded: {names}\n", names=names)))
    if document.get("notice"):
        parts.append(f"{_cell(Text(**document['notice']))}\n")
    if document["secret"] == "public":
        parts.append(
            str(
                say(
                    "输入由公开的种子生成；正式成绩以教师的评分为准。\n",
                    "The inputs are drawn with the public key; the grade that counts is the instructor's.\n",
                )
            )
        )
    return "## FlashDojo\n\n" + "\n".join(parts)


def _submission(entry: Mapping[str, Any], root: Path) -> str:
    name = _code(relative(Path(entry["path"]), root))
    if entry["status"] != "graded":
        return f"### {name}\n\n✗ {_cell(Text(**entry['message'])) if entry['message'] else '?'}\n"
    score = f"{number(entry['score'])}/{number(entry['max_score'])}"
    head = say("| 练习 | 得分 | |\n|---|--:|---|\n", "| exercise | points | |\n|---|--:|---|\n")
    rows = "".join(_row(block) for block in blocks(entry))
    repairs = "".join(f"- {_cell(Text(**text))}\n" for text in entry["repairs"])
    return f"### {name}{say('：', ': ')}{score}\n\n{head}{rows}\n{repairs}"


def _row(block: Block) -> str:
    mark = "✓" if block.passed else "✗"
    points = f"{number(block.score)}/{number(block.max_score)}"
    return f"| {mark} {_code(block.id)} {_cell(block.title)} | {points} | {_ideas(block)} |\n"


def _ideas(block: Block) -> str:
    found = dict.fromkeys(line.idea[0] for line in block.problems if line.idea)
    return str(say("；", "; ")).join(_cell(idea) for idea in found)


def _cell(text: Text) -> str:
    """Markdown must not be what a learner's code says: every mark of its syntax is escaped."""
    flat = " ".join(str(text).split())
    return re.sub(r"([\\`*_{}\[\]<>#!|@&$])", lambda mark: f"&#{ord(mark[0])};", flat)


def _code(text: str) -> str:
    flat = " ".join(text.split()).replace("|", "¦").replace("`", "'")
    return f"`{flat}`"
