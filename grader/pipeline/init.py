"""Writes the pipeline of a platform into somebody's repository."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from grader import paths
from grader.course.lesson import in_language
from grader.text import Text, say

TEMPLATES = Path(__file__).with_name("templates")

# An empty folder, or one into which a cache has been unpacked: git clone would refuse the second. What a push brought
# into it would be run with the secret at hand.
FETCH = """\
if git ls-files --error-unmatch .flashdojo >/dev/null 2>&1; then
  echo "remove .flashdojo from the repository: the course is fetched into it" >&2
  exit 2
fi
git init --quiet .flashdojo
git -C .flashdojo fetch --quiet --depth 1 "$FLASHDOJO_COURSE" "$FLASHDOJO_COURSE_REF" ||
  git -C .flashdojo fetch --quiet "$FLASHDOJO_COURSE" "+refs/heads/*:refs/remotes/course/*"
git -C .flashdojo checkout --quiet --force "$FLASHDOJO_COURSE_REF"
"""

FILES = {
    "github": Path(".github/workflows/flashdojo.yml"),
    "gitlab": Path(".gitlab-ci.yml"),
    "gitcode": Path(".gitcode/workflows/flashdojo.yml"),
}
URL = re.compile(r"[A-Za-z0-9+.-]+://[\w.~:/@%+-]+|[\w.-]+@[\w.-]+:[\w./~-]+|/[\w./~-]+")
REF = re.compile(r"[\w][\w./-]*")


class NoPipeline(Exception):
    """Nothing was written; ``message`` says why and what to do."""

    def __init__(self, message: Text):
        super().__init__(message.en)
        self.message = message


@dataclass(frozen=True)
class Course:
    """Where a pipeline gets the course from, and which state of it."""

    url: str
    ref: str


def course(url: str | None = None, ref: str | None = None) -> Course:
    """As given, else where this clone comes from and the commit it stands at. Raises :class:`NoPipeline`."""
    url = url or _git("remote", "get-url", "origin")
    ref = ref or _git("rev-parse", "HEAD")
    if not url or not ref:
        raise NoPipeline(
            say(
                "不知道流水线该从哪里取课程：这个克隆没有远端 origin。请加上 --course 网址 --ref 提交号。",
                "it is unknown where a pipeline gets the course from: this clone has no remote origin. "
                "Give --course URL --ref COMMIT.",
            )
        )
    if not URL.fullmatch(url):
        raise NoPipeline(say("--course 不是 git 地址：{it}", "--course is no address for git: {it}", it=url))
    if not REF.fullmatch(ref):
        raise NoPipeline(say("--ref 不是提交号、标签或分支：{it}", "--ref is no commit, tag or branch: {it}", it=ref))
    return Course(_public(url), ref)


def pipeline(platform: str, course: Course, lang: str) -> str:
    """The text of the file; ``platform`` is a key of :data:`FILES`."""
    text = in_language((TEMPLATES / f"{platform}.yml").read_text("utf-8"), lang)
    before = re.search(r"^( *)\S.*\n@@FETCH@@", text, re.MULTILINE)
    assert before is not None
    indent = " " * (len(before[1]) + 2)
    fetch = "".join(indent + line for line in FETCH.splitlines(keepends=True)).rstrip("\n")
    values = {"FETCH": fetch, "LANG": lang, "COURSE": course.url, "REF": f'"{course.ref}"'}
    for name, value in values.items():
        text = text.replace(f"-@@{name}@@", f"-{course.ref}").replace(f"@@{name}@@", value)
    return text


def write(platform: str, folder: Path, course: Course, lang: str, *, force: bool = False) -> Path:
    """The file, written. An existing one is left alone unless ``force``. Raises :class:`NoPipeline`, OSError."""
    file = folder / FILES[platform]
    if file.exists() and not force:
        raise NoPipeline(
            say(
                "{file} 已存在，没有改动。请用 --force 覆盖，或用 --dir 写到别处再自行合并。",
                "{file} exists and was left alone. --force replaces it; --dir writes elsewhere, for merging by hand.",
                file=file,
            )
        )
    if not folder.is_dir():
        raise NoPipeline(say("没有这个目录：{folder}", "there is no folder {folder}", folder=folder))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(pipeline(platform, course, lang), encoding="utf-8")
    return file


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(paths.ROOT), *arguments], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _public(url: str) -> str:
    """The address for somebody who has no key: no ssh, and nothing of ``name:token@``, for the file is public."""
    url = re.sub(r"^(?:ssh://)?[\w.-]+@([\w.-]+)(?::\d+)?[:/](?!/)", r"https://\1/", url)
    return re.sub(r"^(https?://)[^/@]*@", r"\1", url)
