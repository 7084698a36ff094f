"""``ci``: a pipeline for a learner's repository, and the step that it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grader import results
from grader.commands.base import Stop, as_text, command, note, short, stop, tell
from grader.exit_codes import FAILED, PASSED
from grader.text import answer_in, language, listed, say
from grader.views.progress import progress_bar

RESULTS, CODE_QUALITY, SUMMARY = "results.json", "code-quality.json", "summary.md"


def init(platform: str, folder: Path, url: str | None, ref: str | None, force: bool) -> int:
    from grader.pipeline import init as pipelines

    if platform not in pipelines.FILES:
        stop(
            say(
                "没有平台 {it}；可选：{known}",
                "there is no platform {it}; choose from {known}",
                it=platform,
                known=listed(pipelines.FILES),
            )
        )
    course = pipelines.course(url, ref)
    file = pipelines.write(platform, folder, course, language(), force=force)
    tell(
        say(
            "已写入 {file}。提交并推送后，每次推送都会评分。",
            "wrote {file}. Commit and push it; every push is graded from then on.",
            file=short(file),
        )
    )
    tell(
        say(
            "课程来自 {url}，固定在 {ref}。",
            "the course comes from {url}, fixed at {ref}.",
            url=course.url,
            ref=course.ref,
        )
    )
    tell(
        say(
            "要让输入不公开，请在平台上设置密钥变量 FLASHDOJO_SECRET；不设则用公开的输入。详见 docs/zh/ci.md。",
            "For inputs of your own set the secret FLASHDOJO_SECRET on the platform; without it they are the public "
            "ones. See docs/en/ci.md.",
        )
    )
    return PASSED


def grade(
    targets: list[Path],
    stage: str | None,
    student: str | None,
    secret_file: Path | None,
    jobs: int | None,
    out: Path,
    platform: str | None,
) -> int:
    from grader.batch import intake
    from grader.batch.run import grade_entries
    from grader.commands.grade import secret_of, show
    from grader.course import private
    from grader.pipeline import find, platforms
    from grader.reading import submission

    platform = platform or platforms.here()
    if platform not in platforms.PLATFORMS:
        stop(
            say(
                "没有平台 {it}；可选：{known}",
                "there is no platform {it}; choose from {known}",
                it=platform,
                known=listed(platforms.PLATFORMS),
            )
        )
    secret = secret_of(secret_file)
    if secret.key_id != "public":
        _require_walls()
    found = find.Found(targets) if targets else find.find(Path())
    if not found.to_grade:
        return _nothing(found.untouched)
    entries = intake.collect(found.to_grade, student or platforms.repository(platform))
    answer_in(submission.language_of(entries[0].path))
    out.mkdir(parents=True, exist_ok=True)
    with progress_bar(say("评分", "grading")) as on_progress:
        document = grade_entries(
            entries, stage=stage, secret=secret, jobs=jobs, checks=private.chosen(), on_progress=on_progress
        )
    code = results.exit_code(document)
    document["submissions"] = [results.for_learner(entry) for entry in document["submissions"]]  # who sees the run
    with platforms.no_commands(platform):
        show(document)
    _publish(document, found.untouched, platform, out)
    return code


def _require_walls() -> None:
    """With less, learner code could read the secret from the grader's own environment."""
    from grader.isolation import missing
    from grader.worker.confine import probe

    absent = missing([layer for layer, (in_force, _) in probe().items() if in_force])
    if absent is not None:
        stop(
            say(
                "这台运行器没有 {missing}，学员的代码可能读到密钥，所以没有评分。请换运行器，或去掉 FLASHDOJO_SECRET。",
                "this runner has no {missing}, so learner code might read the secret: nothing was graded. Use another "
                "runner, or do without FLASHDOJO_SECRET.",
                missing=absent,
            )
        )


def _nothing(untouched: list[Path]) -> int:
    """There is nothing to grade: because nobody has begun, or because the course's notebooks are not here."""
    if untouched:
        note(
            say(
                "还没有动笔：{names}。写好一道题再推送。",
                "not begun: {names}. Write an exercise and push again.",
                names=listed(map(short, untouched)),
            )
        )
        return FAILED
    raise Stop(
        say(
            "这里没有课程的笔记本。请提交 {start} 建的笔记本，或写明文件：{grade}",
            "no notebook of the course is here. Commit one that {start} made, or name the file: {grade}",
            start=command("start"),
            grade=command("ci", "grade", "work.py", "--stage", "s1"),
        )
    )


def _publish(document: dict[str, Any], untouched: list[Path], platform: str, out: Path) -> None:
    """Everything that can be made of the result, in ``out`` and where the platform shows it."""
    from grader.pipeline import annotations, platforms, summary
    from grader.reports.write import save, write_reports

    root = platforms.workspace(platform)
    notes = annotations.notes_of(document, root)
    text = summary.summary(document, notes, untouched, root)
    save(out / RESULTS, as_text(document))
    save(out / CODE_QUALITY, platforms.code_quality(notes))
    save(out / SUMMARY, text)
    write_reports(document, out)
    platforms.annotate(platform, notes)
    platforms.publish_summary(platform, text)
    tell(say("报告：{out}", "report: {out}", out=short(out)))
