"""``dev check`` and ``dev build``: what an author runs before a commit."""

from __future__ import annotations

import time

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text as Styled

from grader.commands.base import FAILED, PASSED, short, stop, tell
from grader.text import say
from grader.views.terminal import console


def check(stage: str | None, only: str | None) -> int:
    import sys

    from grader import catalog, proofs

    if stage is not None:
        catalog.load(strict=False, checks=False).stage(stage)
    kinds = tuple(only.split(",")) if only else proofs.KINDS
    unknown = [kind for kind in kinds if kind not in proofs.KINDS]
    if unknown:
        stop(
            say(
                "没有这种证明：{kinds}；可选：{known}",
                "no such kind of proof: {kinds}; choose from {known}",
                kinds=", ".join(unknown),
                known=", ".join(proofs.KINDS),
            )
        )
    start = time.perf_counter()
    todo = proofs.collect(stage, kinds)
    out = console(sys.stderr)
    failures: list[tuple[proofs.Proof, str]] = []
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with proofs.Runner() as runner, Progress(*columns, console=out, transient=True) as bar:
        task = bar.add_task("", total=len(todo))
        for proof in todo:
            bar.update(task, description=proof.id[:60])
            try:
                proof.run(runner)
            except proofs.Unproven as error:
                failures.append((proof, str(error)))
            except Exception as error:
                failures.append((proof, f"{type(error).__name__}: {error}"))
            bar.advance(task)
    for proof, message in failures:
        console().print(Styled(f"✗ {proof.id}", style="red"), Styled(f"\n    {message}"), sep="", soft_wrap=True)
    tell(
        say(
            "{good} 个证明成立，{bad} 个不成立（{seconds:.0f} 秒）",
            "{good} proofs hold, {bad} do not ({seconds:.0f} s)",
            good=len(todo) - len(failures),
            bad=len(failures),
            seconds=time.perf_counter() - start,
        )
    )
    return FAILED if failures else PASSED


def build() -> int:
    from grader import notebooks

    written = notebooks.write_all()
    for path in written:
        tell(short(path))
    tell(say("已更新 {n} 个笔记本", "{n} notebooks updated", n=len(written)))
    return PASSED
