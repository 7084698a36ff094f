"""The table of commands: names, options and help texts. What they do is in the modules beside this one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grader.commands.options import JsonOption
from grader.commands.options import in_language as _help
from grader.commands.profile.table import profile

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=_help(
        "FlashDojo：从手写 attention 到昇腾算子。任何命令都可加 --lang zh 或 --lang en。",
        "FlashDojo: from a hand-written attention to an Ascend operator. Every command takes --lang zh or --lang en.",
    ),
)
dev = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_help("作者工具", "For authors of the course"))
app.add_typer(profile, name="profile")
app.add_typer(dev, name="dev")
instructor = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_help("教师工具", "For instructors"))
app.add_typer(instructor, name="instructor")
ci = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_help("持续集成", "Grading at every push"))
app.add_typer(ci, name="ci")

StageOption = Annotated[str | None, typer.Option("--stage", help=_help("阶段，如 s2", "the stage, such as s2"))]
FolderOption = Annotated[
    Path | None, typer.Option("--dir", help=_help("工作目录（默认 work/<阶段>）", "work folder (default work/<stage>)"))
]
ExerciseArgument = Annotated[str, typer.Argument(metavar="EXERCISE", help=_help("如 s2-forward", "such as s2-forward"))]
TargetArgument = Annotated[
    Path,
    typer.Argument(metavar="TARGET", help=_help("笔记本（.ipynb）或 .py 文件", "a notebook (.ipynb) or a .py file")),
]


@app.command(help=_help("给自带的小班级评分，看看评分器怎么回答", "grade the small example class and show the answers"))
def demo() -> int:
    from grader.commands.demo import run

    return run()


@app.command("list", help=_help("阶段、练习、分值与我的进度", "stages, exercises, points and my progress"))
def list_(folder: FolderOption = None, as_json: JsonOption = False) -> int:
    from grader.commands.learn import list_exercises

    return list_exercises(folder, as_json)


@app.command(
    help=_help(
        "把阶段笔记本复制到工作目录（绝不覆盖你的内容）", "copy a stage's notebook to a work folder; never overwrites"
    )
)
def start(
    stage: Annotated[
        str | None, typer.Argument(metavar="STAGE", help=_help("默认：第一个未完成的", "default: first open"))
    ] = None,
    folder: FolderOption = None,
) -> int:
    from grader.commands.learn import start

    return start(stage, folder)


@app.command(help=_help("对笔记本或 .py 运行公开检查", "run the public checks on a notebook or a .py file"))
def check(target: TargetArgument, stage: StageOption = None) -> int:
    from grader.commands.check import check

    return check(target, stage)


@app.command(help=_help("每次保存后重新检查", "check again at every save"))
def watch(target: TargetArgument, stage: StageOption = None) -> int:
    from grader.commands.check import watch

    return watch(target, stage)


@app.command(
    help=_help(
        "在 NPU 上运行程序；没有 NPU 就用模拟的", "run a program on the NPU, or an emulated one if there is none"
    ),
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def run(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT.py", help=_help("Python 程序", "a Python program"))],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS...]", help=_help("程序自己的参数", "the program's own"))
    ] = None,
) -> int:
    from grader.commands.run import run

    return run(script, arguments or [])


@app.command(help=_help("给出下一级提示（共三级）", "show the next hint (three levels)"))
def hint(exercise: ExerciseArgument, folder: FolderOption = None) -> int:
    from grader.commands.learn import hint

    return hint(exercise, folder)


@app.command(help=_help("通过之后查看参考解答", "show the worked solution, once you passed"))
def solution(
    exercise: ExerciseArgument,
    force: Annotated[bool, typer.Option("--force", help=_help("没通过也看", "even before passing"))] = False,
    folder: FolderOption = None,
) -> int:
    from grader.commands.learn import solution

    return solution(exercise, force, folder)


@app.command(help=_help("把一道题恢复成骨架（先备份）", "put one exercise back to its skeleton (after a backup)"))
def reset(target: TargetArgument, exercise: ExerciseArgument) -> int:
    from grader.commands.reset import reset

    return reset(target, exercise)


@app.command(help=_help("正式评分：检查相同，输入没人见过", "official grading, on inputs nobody has seen"))
def grade(
    targets: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help=_help("文件、文件夹、Canvas 或 Moodle 下载的 zip", "files, folders, zips from Canvas or Moodle"),
        ),
    ],
    stage: StageOption = None,
    student: Annotated[str | None, typer.Option("--student", help=_help("学号", "the student's id"))] = None,
    secret_file: Annotated[
        Path | None, typer.Option("--secret-file", help=_help("出题密钥文件", "file with the key behind the inputs"))
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, help=_help("并行数（默认：核数）", "submissions at a time (default: the cores)")),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            metavar="ADDRESS",
            help=_help("在 Dask 集群上评，如 tcp://HOST:8786", "grade on a Dask cluster, such as tcp://host:8786"),
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help=_help("把结果文档写到该目录", "folder for the result document"))
    ] = None,
    checks: Annotated[
        Path | None,
        typer.Option(
            "--checks",
            metavar="DIR",
            help=_help("教师自己的检查（或 FLASHDOJO_CHECKS）", "the instructor's own checks (or FLASHDOJO_CHECKS)"),
        ),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help=_help("全部重评，不用也不留结果", "grade all anew, keep no results"))
    ] = False,
    require_isolation: Annotated[
        bool,
        typer.Option(
            "--require-isolation",
            help=_help("没有 Landlock 与 seccomp 就不评", "refuse to grade without Landlock and seccomp"),
        ),
    ] = False,
    as_json: JsonOption = False,
) -> int:
    from grader.commands.grade import grade

    return grade(
        targets, stage, student, secret_file, jobs, scheduler, out, no_cache, checks, require_isolation, as_json
    )


@app.command(help=_help("由结果文档生成网页、成绩表与 JUnit XML", "pages, tables and JUnit XML from a result document"))
def report(
    file: Annotated[
        Path,
        typer.Argument(metavar="RESULT.json", help=_help("grade --json 写下的结果文档", "what grade --json wrote")),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help=_help("全部报告写到该目录（默认：文档旁的 report）", "folder for all of it (default: report)")
        ),
    ] = None,
    junit_file: Annotated[Path | None, typer.Option("--junit", help=_help("JUnit XML 文件", "the JUnit XML"))] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help=_help("成绩表文件", "the table of scores"))] = None,
    csv_format: Annotated[
        str,
        typer.Option("--format", help=_help("表格式：plain、canvas、moodle", "of the table: plain, canvas, moodle")),
    ] = "plain",
    class_file: Annotated[Path | None, typer.Option("--class", help=_help("班级报告文件", "the class's page"))] = None,
    roster: Annotated[
        Path | None,
        typer.Option(
            "--roster",
            help=_help("Canvas 或 Moodle 导出的表，把成绩填进去", "a table exported from Canvas or Moodle to fill"),
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option("--column", help=_help("填该表的哪一列", "the column of that table (default: the stage's title)")),
    ] = None,
) -> int:
    from grader.commands.report import report

    return report(file, out, junit_file, csv_file, csv_format, class_file, roster, column)


@app.command(help=_help("这台机器能做什么，缺什么、怎么补", "what this machine can do, and the fix for what it cannot"))
def doctor() -> int:
    from grader.commands.doctor import run

    return run()


@dev.command("check", help=_help("仓库对自己的证明", "the proofs the repository keeps about itself"))
def dev_check(
    stage: StageOption = None,
    only: Annotated[str | None, typer.Option("--only", help=_help("只做一类证明", "one kind of proof only"))] = None,
) -> int:
    from grader.commands.dev import check

    return check(stage, only)


@dev.command("build", help=_help("重新生成笔记本", "rebuild the notebooks"))
def dev_build() -> int:
    from grader.commands.dev import build

    return build()


@instructor.command(
    help=_help(
        "建立（或补全）nbgrader 课程目录：配置、源笔记本、密钥",
        "make (or complete) a course for nbgrader: configuration, source notebooks, secret",
    )
)
def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help=_help("课程目录", "the course's folder"))],
    stages: Annotated[
        str | None, typer.Option("--stages", help=_help("阶段，如 s1,s2（默认：全部）", "such as s1,s2 (default: all)"))
    ] = None,
) -> int:
    from grader.commands.instructor import init

    return init(folder, stages)


@instructor.command(
    help=_help(
        "提交之间、与已公布解答之间的相似之处：供人判断的线索，不影响分数",
        "passages that submissions share with each other or with the published solutions: a hint, never a mark",
    )
)
def similarity(
    targets: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help=_help("提交所在文件夹", "folders of submissions"))
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help=_help("把 HTML 页面写到该目录", "folder for the HTML page"))
    ] = None,
    as_json: JsonOption = False,
) -> int:
    from grader.commands.similarity import similarity

    return similarity(targets, out, as_json)


@ci.command("init", help=_help("写一份每次推送都评分的流水线", "write a pipeline that grades every push"))
def ci_init(
    platform: Annotated[str, typer.Argument(metavar="github|gitlab|gitcode")],
    folder: Annotated[
        Path, typer.Option("--dir", help=_help("仓库目录（默认：这里）", "the repository (default: here)"))
    ] = Path(),
    course: Annotated[
        str | None,
        typer.Option(
            "--course",
            metavar="URL",
            help=_help(
                "课程仓库地址（默认：本克隆的 origin）", "the course's repository (default: this clone's origin)"
            ),
        ),
    ] = None,
    ref: Annotated[
        str | None,
        typer.Option(
            "--ref",
            help=_help("课程的提交号（默认：本克隆的 HEAD）", "the course's commit (default: this clone's HEAD)"),
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help=_help("覆盖已有文件", "replace an existing file"))] = False,
) -> int:
    from grader.commands.ci import init

    return init(platform, folder, course, ref, force)


@ci.command(
    "grade",
    help=_help("流水线里的一步：评分、标注、写报告", "the pipeline's step: grade, mark the lines, write the report"),
)
def ci_grade(
    targets: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH...]",
            help=_help("默认：这里所有课程笔记本", "default: every notebook of the course below here"),
        ),
    ] = None,
    stage: StageOption = None,
    student: Annotated[
        str | None,
        typer.Option("--student", help=_help("学号（默认：仓库名）", "the student's id (default: the repository)")),
    ] = None,
    secret_file: Annotated[
        Path | None, typer.Option("--secret-file", help=_help("出题密钥文件", "file with the key behind the inputs"))
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, help=_help("并行数（默认：核数）", "submissions at a time (default: the cores)")),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help=_help("报告目录", "folder of the report"))] = Path(
        "flashdojo-report"
    ),
    platform: Annotated[
        str | None,
        typer.Option(
            "--platform",
            metavar="github|gitlab|gitcode|none",
            help=_help("默认：自动识别", "default: told by the environment"),
        ),
    ] = None,
) -> int:
    from grader.commands.ci import grade

    return grade(targets or [], stage, student, secret_file, jobs, out, platform)
