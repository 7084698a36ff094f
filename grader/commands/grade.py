"""``grade``: the official grading. The document on stdout or in a folder, or a table for people."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from grader import results
from grader.commands.base import print_json, short, stop, tell
from grader.inputs import Secret
from grader.reading import submission
from grader.text import answer_in, say
from grader.views.progress import progress_bar
from grader.views.terminal import console, show_batch, show_submission

SECRET_VARIABLE = "FLASHDOJO_SECRET"


def grade(
    targets: list[Path],
    stage: str | None,
    student: str | None,
    secret_file: Path | None,
    jobs: int | None,
    out: Path | None,
    as_json: bool,
) -> int:
    from grader.judging.grade import collect, grade_paths

    entries = collect(targets, student)
    if len(entries) == 1:
        answer_in(submission.language_of(entries[0].path))
    if student is not None and len(entries) > 1:
        stop(
            say(
                "--student 只用于一份提交；多份提交的学号取自文件名或 submitted/<学号>/。",
                "--student is for one submission; several are named by their files or by submitted/<student>/.",
            )
        )
    secret = _secret(secret_file)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    with progress_bar(say("评分", "grading")) as on_progress:
        document = grade_paths(targets, stage=stage, student=student, secret=secret, jobs=jobs, on_progress=on_progress)
    if out is not None:
        _write(out / "results.json", document)
    if as_json:
        print_json(document)
        return results.exit_code(document)
    show(document)
    if out is not None:
        tell(say("结果文档：{file}", "result document: {file}", file=short(out / "results.json")))
    return results.exit_code(document)


def show(document: dict[str, Any]) -> None:
    """One submission in full, several as a table."""
    screen = console()
    submissions = document["submissions"]
    if len(submissions) == 1:
        show_submission(screen, submissions[0])
        if not submissions[0]["exercises"]:
            return
    show_batch(screen, submissions)


def _secret(file: Path | None) -> Secret:
    if file is not None:
        key = file.read_bytes().strip()
        if not key:
            stop(say("密钥文件是空的：{file}", "the secret file is empty: {file}", file=short(file)))
        return Secret(key)
    key = os.environ.get(SECRET_VARIABLE, "").encode().strip()
    return Secret(key) if key else Secret()


def _write(file: Path, document: dict[str, Any]) -> None:
    """All or nothing: whoever reads the folder never meets half a document."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".results-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(document, stream, ensure_ascii=False, indent=1, allow_nan=False)
            stream.write("\n")
        os.chmod(name, 0o644)
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise
