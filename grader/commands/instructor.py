"""``instructor init``: a course for nbgrader."""

from __future__ import annotations

import sys
from pathlib import Path

from grader.classroom.config import SECRET_FILE
from grader.classroom.course import create
from grader.commands.base import short, tell
from grader.course import catalog
from grader.exit_codes import PASSED
from grader.text import language, say


def init(folder: Path, stages: str | None) -> int:
    course = catalog.load(checks=False)
    chosen = [course.stage(id.strip()) for id in stages.split(",") if id.strip()] if stages else course.stages
    made = create(folder, chosen, language())
    for file in made.written:
        tell(say("已写入 {file}", "wrote {file}", file=short(file)))
    for file in made.kept:
        tell(say("已存在，保持原样：{file}", "already there, stays as it is: {file}", file=short(file)))
    nbgrader = Path(sys.executable).with_name("nbgrader")
    jupyter = Path(sys.executable).with_name("jupyter")
    first = chosen[0].id
    tell()
    tell(say("接下来，在 {folder} 里：", "Next, in {folder}:", folder=short(folder)))
    for words, zh, en in (
        (f"{nbgrader} generate_assignment {first}", "生成学生版", "make the learners' version"),
        (f"{nbgrader} release_assignment {first}", "发布", "release it"),
        (f"{nbgrader} collect {first}", "收作业", "collect what was handed in"),
        (f"{nbgrader} autograde {first}", "评分（由 FlashDojo 的评分器）", "grade (with FlashDojo's judge)"),
        (f"{nbgrader} generate_feedback {first}", "生成反馈", "make the feedback"),
        (f"{jupyter} lab", "或者在 JupyterLab 的 Formgrader 页面里做", "or do it all on JupyterLab's Formgrader page"),
    ):
        tell(f"  {words}")
        tell(say("      {text}", "      {text}", text=say(zh, en)))
    tell(
        say(
            "输入由 {file} 决定：请保存好，不要发给学生。",
            "The inputs follow from {file}: keep it, and keep it from learners.",
            file=short(folder / SECRET_FILE),
        )
    )
    return PASSED
