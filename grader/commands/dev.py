"""``dev check`` and ``dev build``: what an author runs before a commit."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text as Styled

from grader.commands.base import short, stop, tell
from grader.exit_codes import FAILED, PASSED
from grader.text import listed, say
from grader.views.terminal import console

if TYPE_CHECKING:
    from grader.proving import proofs


def check(stage: str | None, only: str | None) -> int:
    import sys

    from grader.course import catalog
    from grader.judging.grade import default_jobs
    from grader.proving import proofs
    from grader.threads import one_thread

    if stage is not None:
        catalog.load(strict=False, checks=False).stage(stage)
    kinds = tuple(only.split(",")) if only else proofs.KINDS
    unknown = [kind for kind in kinds if kind not in proofs.KINDS]
    if unknown:
        stop(
            say(
                "没有这种证明：{kinds}；可选：{known}",
                "no such kind of proof: {kinds}; choose from {known}",
                kinds=listed(unknown),
                known=listed(proofs.KINDS),
            )
        )
    start = time.perf_counter()
    todo = proofs.collect(stage, kinds)
    out = console(sys.stderr)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    failures: list[tuple[proofs.Proof, str]] = []
    with proofs.Runner() as runner, Progress(*columns, console=out, transient=True) as bar:
        task = bar.add_task("", total=len(todo))

        def attempt(proof: proofs.Proof) -> str | None:
            bar.update(task, description=proof.id[:60])
            problem = _problem(proof, runner)
            bar.advance(task)
            return problem

        with one_thread(), ThreadPoolExecutor(default_jobs(len(todo))) as pool:
            try:
                failures = [(proof, told) for proof, told in zip(todo, pool.map(attempt, todo)) if told is not None]
            except KeyboardInterrupt:
                pool.shutdown(cancel_futures=True)
                raise
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


def _problem(proof: proofs.Proof, runner: proofs.Runner) -> str | None:
    try:
        proof.run(runner)
    except AssertionError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def build() -> int:
    from grader.course import notebooks

    written = notebooks.write_all()
    for path in written:
        tell(short(path))
    tell(say("已更新 {n} 个笔记本", "{n} notebooks updated", n=len(written)))
    return PASSED
