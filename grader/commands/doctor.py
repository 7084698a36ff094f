"""``doctor``: the findings as a table, each problem with its fix."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text as Styled

from grader.commands.base import command, tell
from grader.doctor import examine
from grader.exit_codes import BROKEN, PASSED
from grader.text import say
from grader.views.terminal import console

MARKS = {"ok": ("✓", "green"), "note": ("·", "bright_black"), "problem": ("!", "yellow"), "fatal": ("✗", "red")}


def run() -> int:
    findings = examine()
    table = Table(box=None, show_header=False, padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", min_width=12)
    table.add_column(overflow="fold", ratio=1)
    for finding in findings:
        mark, colour = MARKS[finding.level]
        said = Styled(str(finding.found))
        if finding.fix is not None:
            said.append(f"\n→ {finding.fix}", style=colour)
        table.add_row(Styled(mark, style=colour), str(finding.subject), said)
    console().print(table)
    if any(finding.level == "fatal" for finding in findings):
        tell(say("课程现在无法运行，先解决 ✗ 的项目。", "The course cannot run yet: mend what has a ✗ first."))
        return BROKEN
    tell(say("可以开始：{start}", "Ready: {start}", start=command("start")))
    return PASSED
