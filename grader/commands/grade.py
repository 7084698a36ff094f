"""``grade``: the official grading. The document on stdout or in a folder, or a table for people."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.text import Text as Styled

from grader import results
from grader.commands.base import as_text, command, note, print_json, short, stop, tell
from grader.exit_codes import BROKEN
from grader.files import write_whole
from grader.inputs import Secret
from grader.isolation import SURE, missing
from grader.reading import submission
from grader.text import Text, answer_in, listed, say
from grader.views.progress import progress_bar, waiting
from grader.views.terminal import console, show_batch, show_submission

SECRET_VARIABLE = "FLASHDOJO_SECRET"
NAMED = 3  # submissions under one id that are named


def grade(
    targets: list[Path],
    stage: str | None,
    student: str | None,
    secret_file: Path | None,
    jobs: int | None,
    scheduler: str | None,
    out: Path | None,
    no_cache: bool,
    checks: Path | None,
    require_isolation: bool,
    as_json: bool,
) -> int:
    from grader.batch import cache, intake
    from grader.batch.run import grade_entries, namesakes
    from grader.course import private
    from grader.reports import write_reports

    entries = intake.collect(targets, student)
    if len(entries) == 1:
        answer_in(submission.language_of(entries[0].path))
    if student is not None and len(entries) > 1:
        stop(
            say(
                "--student 只用于一份提交；多份提交的学号取自文件名或 submitted/<学号>/。",
                "--student is for one submission; several are named by their files or by submitted/<student>/.",
            )
        )
    secret = secret_of(secret_file)
    if require_isolation and scheduler is None:  # elsewhere it is those machines that count, and each looks for itself
        _refuse_without_isolation()
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    folder = None if no_cache else cache.default_folder() if out is None else out / cache.IN_OUT
    with _told_what_is_kept(folder, len(entries)), progress_bar(say("评分", "grading"), len(entries)) as on_progress:
        document = grade_entries(
            entries,
            stage=stage,
            secret=secret,
            jobs=jobs,
            scheduler=scheduler,
            cache=folder,
            require=tuple(SURE) if require_isolation else (),
            checks=private.chosen(checks),
            on_progress=on_progress,
            on_trouble=lambda error: note(_not_kept(folder, error)),
        )
    if out is not None:
        write_whole(out / "results.json", as_text(document), mode=0o644)
        with waiting(say("写报告", "writing the reports")):
            write_reports(document, out)
    for same in namesakes(document["submissions"]):
        note(_same_id(same))
    if as_json:
        print_json(document)
        return results.exit_code(document)
    show(document)
    if out is not None:
        tell(say("结果文档与报告：{folder}", "result document and reports: {folder}", folder=short(out)))
    return results.exit_code(document)


@contextmanager
def _told_what_is_kept(folder: Path | None, submissions: int) -> Iterator[None]:
    """Whoever interrupts a long run is told that it is not lost."""
    from grader.batch.plan import Lost

    try:
        yield
    except Lost as error:
        stop(error.message, BROKEN)
    except KeyboardInterrupt:
        if folder is not None and submissions > 1:
            note(
                say(
                    "已中断。评完的都留着，再运行一次同样的命令即可继续。",
                    "interrupted. What is graded is kept: run the same command again, and it goes on.",
                )
            )
        raise


def _refuse_without_isolation() -> None:
    from grader.worker.confine import probe

    absent = missing([layer for layer, (ok, _) in probe().items() if ok])
    if absent is not None:
        stop(
            say(
                "这台机器没有 {missing}，按 --require-isolation 的要求没有评分。{doctor} 会说怎么办。",
                "this machine has no {missing}, and --require-isolation asks for it: nothing was graded. {doctor} says "
                "what to do.",
                missing=absent,
                doctor=command("doctor"),
            )
        )


def _not_kept(folder: Path | None, error: OSError) -> Text:
    return say(
        "注意：结果存不进 {folder}（{why}）；成绩不受影响，但中断后要从头再来。",
        "note: results cannot be kept in {folder} ({why}). Grades are not affected, but an interrupted run would start "
        "over.",
        folder=folder,
        why=error.strerror or error,
    )


def _same_id(rows: list[dict[str, Any]]) -> Text:
    return say(
        "注意：学号 {id} 有 {n} 份提交：{paths}{more}。各评各的，请核对是谁的。",
        "note: {n} submissions come under the id {id}: {paths}{more}. Each is graded; look whose they are.",
        id=rows[0]["student"],
        n=len(rows),
        paths=listed([row["path"] for row in rows[:NAMED]]),
        more=" ..." if len(rows) > NAMED else "",
    )


def show(document: dict[str, Any]) -> None:
    """One submission in full, several as a table; what is to be known of all of them comes first."""
    screen = console()
    if document.get("notice"):
        screen.print(Styled(str(Text(**document["notice"])), style="yellow"))
    submissions = document["submissions"]
    if len(submissions) == 1:
        show_submission(screen, submissions[0])
        if not submissions[0]["exercises"]:
            return
    show_batch(screen, submissions)


def secret_of(file: Path | None) -> Secret:
    if file is not None:
        key = file.read_bytes().strip()
        if not key:
            stop(say("密钥文件是空的：{file}", "the secret file is empty: {file}", file=short(file)))
        return Secret(key)
    key = os.environ.get(SECRET_VARIABLE, "").encode().strip()
    return Secret(key) if key else Secret()
