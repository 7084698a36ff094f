"""How each platform is told: workflow commands, a code quality report, or plain lines."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from grader.pipeline.annotations import Annotation
from grader.text import say

GITHUB, GITLAB, GITCODE, NONE = "github", "gitlab", "gitcode", "none"
PLATFORMS = (GITHUB, GITLAB, GITCODE, NONE)
SHOWN = 10  # annotations that GitHub shows of one step
SEVERITIES = ((8, "critical"), (2, "major"), (0, "minor"))  # points lost, and GitLab's word for it
SUMMARY = {GITHUB: "GITHUB_STEP_SUMMARY", GITCODE: "ATOMGIT_STEP_SUMMARY"}
WORKSPACE = {GITHUB: "GITHUB_WORKSPACE", GITLAB: "CI_PROJECT_DIR", GITCODE: "ATOMGIT_WORKSPACE"}
REPOSITORY = {GITHUB: "GITHUB_REPOSITORY", GITLAB: "CI_PROJECT_PATH", GITCODE: "ATOMGIT_REPOSITORY"}


def here(environment: Mapping[str, str] = os.environ) -> str:
    """The platform whose runner this is."""
    if any(name.startswith("ATOMGIT_") for name in environment):  # first: it speaks GitHub's language, too
        return GITCODE
    if environment.get("GITHUB_ACTIONS") == "true":
        return GITHUB
    return GITLAB if environment.get("GITLAB_CI") == "true" else NONE


def workspace(platform: str) -> Path:
    """The folder of the repository."""
    return Path(os.environ.get(WORKSPACE.get(platform, ""), "") or Path.cwd())


def repository(platform: str) -> str | None:
    """``owner/name``: who hands in, the same at every push."""
    return os.environ.get(REPOSITORY.get(platform, ""), "") or None


@contextmanager
def no_commands(platform: str) -> Iterator[None]:
    """What is printed here is for people. Text of a learner's must not be able to give the runner orders."""
    if platform != GITHUB:
        yield
        return
    token = secrets.token_hex(16)
    print(f"::stop-commands::{token}")
    try:
        yield
    finally:
        print(f"::{token}::")


def annotate(platform: str, notes: Sequence[Annotation]) -> None:
    """Marks the lines. GitHub shows ten of a step; the dearest are the first. GitLab reads :func:`code_quality`."""
    if platform == GITHUB:
        for note in notes[:SHOWN]:
            print(github_command(note))
        return
    for note in notes:
        print(say("{file}:{line}：{title}：{text}", "{file}:{line}: {title}: {text}", **_plain(note)))


def _plain(note: Annotation) -> dict[str, object]:
    return {"file": note.file, "line": note.line, "title": note.title, "text": note.message}


def github_command(note: Annotation) -> str:
    """``::error file=...,line=...,title=...::message``, escaped as the runner expects it."""
    place = f"file={_property(note.file)},line={note.line},title={_property(str(note.title))}"
    return f"::error {place}::{_data(str(note.message))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def code_quality(notes: Iterable[Annotation]) -> str:
    """GitLab's code quality report: an array of issues. https://docs.gitlab.com/ci/testing/code_quality/"""
    issues = [
        {
            "description": f"{note.title}{say('：', ': ')}{note.message}",
            "check_name": note.check,
            "fingerprint": note.fingerprint,
            "severity": next(word for points, word in SEVERITIES if note.weight >= points),
            "location": {"path": note.file, "lines": {"begin": note.line}},
        }
        for note in notes
    ]
    return json.dumps(issues, ensure_ascii=False, indent=1) + "\n"


def publish_summary(platform: str, text: str) -> None:
    """Appends to the page of the run, where there is one."""
    file = os.environ.get(SUMMARY.get(platform, ""), "")
    if file:
        with open(file, "a", encoding="utf-8") as stream:
            stream.write(text)
