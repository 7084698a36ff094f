"""``demo``: a small class is graded before your eyes."""

from __future__ import annotations

import time

from rich.text import Text as Styled

from grader import paths
from grader.commands.base import command, from_here, tell
from grader.exit_codes import BROKEN, PASSED
from grader.sandbox_report import LAYERS
from grader.text import listed, say
from grader.views.progress import progress_bar
from grader.views.terminal import console, show_batch

CLASS = paths.EXAMPLES / "submissions"
STAGE = "s2"
PATIENCE = 2.0  # seconds for one call: the endless loop of the example shall not bore anybody


def run() -> int:
    from grader.batch.run import grade_paths
    from grader.wall.limits import Limits

    start = time.perf_counter()
    tell(
        say(
            "examples/submissions 里有一个小班级交来的阶段二作业。每份都在隔离的进程里运行，输入是临时生成的。",
            "examples/submissions holds what a small class handed in for stage 2. "
            "Each runs in a confined process, on inputs drawn afresh.",
        )
    )
    with progress_bar(say("评分", "grading")) as on_progress:
        document = grade_paths([CLASS], stage=STAGE, limits=Limits(call=PATIENCE), on_progress=on_progress)
    screen = console()
    show_batch(screen, document["submissions"])
    layers = [str(LAYERS[layer][0]) for layer in document["device"]["isolation"]]
    screen.print(
        Styled(
            str(
                say(
                    "{n} 份作业，{seconds:.1f} 秒；隔离：{layers}",
                    "{n} submissions in {seconds:.1f} s; isolation: {layers}",
                    n=len(document["submissions"]),
                    seconds=time.perf_counter() - start,
                    layers=listed(layers or ["-"]),
                )
            ),
            style="bright_black",
        )
    )
    tell(say("想看其中一份的详情：", "One of them in full:"))
    tell(f"  {command('grade', from_here(CLASS / 'chen.py'), '--stage', STAGE)}")
    tell(say("轮到你了：", "Your turn:"))
    tell(f"  {command('start', 's1')}        {command('list')}        {command('doctor')}")
    broken = [row for row in document["submissions"] if row["status"] != "graded"]
    return BROKEN if broken else PASSED  # wrong answers are what the demo is about; a grader that fails is not
