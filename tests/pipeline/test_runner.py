"""Do the generated pipelines grade a push, as the platforms would run them?"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
import yaml
from ci_runner import Run, run_gitlab, run_workflow

from grader import paths, results
from grader.course import catalog, notebooks
from grader.pipeline import init

SECRET = {"FLASHDOJO_SECRET": "a key of the instructor's own"}
STAGE = catalog.load(checks=False).stage("s1")
WRONG = """def softmax(x, dim=-1):
    e = torch.exp(x)
    return e / e.sum(dim=dim, keepdim=True)
"""
FORGED = "\nprint('::error file=README.md,line=1::forged')\n"


def _git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(folder), *identity, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def open_folder() -> Iterator[Path]:
    """Everybody may enter it, as a runner's: learner code is run by a user of its own."""
    folder = Path(tempfile.mkdtemp(prefix="flashdojo-ci-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def course(open_folder: Path) -> init.Course:
    """The course as a repository that holds what this clone holds now."""
    folder = open_folder / "course"
    left_out = shutil.ignore_patterns(".*", "__pycache__", "work", "*.egg-info", "tests")
    shutil.copytree(paths.ROOT, folder, ignore=left_out, symlinks=True)
    _git(folder, "init", "--quiet")
    _git(folder, "add", "--all", "--force")
    _git(folder, "commit", "--quiet", "-m", "the course")
    return init.course(str(folder), _git(folder, "rev-parse", "HEAD"))


def _repository(folder: Path, answer: str | None) -> Path:
    """A learner's: stage 1 solved (but for softmax, if ``answer`` is given), stage 2 as it was handed out."""
    solved = notebooks.solve(notebooks.build(STAGE, "en"))
    for cell in solved.cells:
        if answer is not None and cell.metadata.get("flashdojo") == {"exercise": "s1-softmax", "role": "answer"}:
            cell.source = answer + FORGED
    file = folder / "my work" / "阶段一.ipynb"
    file.parent.mkdir(parents=True)
    nbformat.write(solved, file)
    s2 = catalog.load(checks=False).stage("s2")
    (folder / "s2.ipynb").write_text(notebooks.text_of(notebooks.build(s2, "en")), encoding="utf-8")
    return folder


def _run(platform: str, course: init.Course, folder: Path, answer: str | None, secrets: dict[str, str]) -> Run:
    folder.mkdir()
    repository = _repository(folder / "repository", answer)
    file = init.write(platform, repository, course, "en")
    workspace = folder / "workspace"
    workspace.mkdir()
    if platform == "gitlab":
        env = {"GITLAB_CI": "true", "CI_PROJECT_PATH": "class/ann"}
        return run_gitlab(file, repository, workspace, env, secrets)
    if platform == "github":
        env = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(workspace), "GITHUB_REPOSITORY": "class/ann"}
        return run_workflow(file, repository, workspace, env, "GITHUB_STEP_SUMMARY", secrets)
    env = {"ATOMGIT_WORKSPACE": str(workspace), "ATOMGIT_REPOSITORY": "class/ann"}
    return run_workflow(file, repository, workspace, env, "ATOMGIT_STEP_SUMMARY", secrets)


def _document(run: Run) -> dict:
    document = json.loads((run.report / "results.json").read_text("utf-8"))
    results.validate(document)
    return document


def _line_of(run: Run, text: str) -> int:
    lines = (run.workspace / "my work" / "阶段一.ipynb").read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_github_marks_the_lines_of_a_wrong_push(course: init.Course, open_folder: Path) -> None:
    run = _run("github", course, open_folder / "github-wrong", WRONG, SECRET)
    assert run.code == 1, run.output
    outside, inside = [], []
    token = None
    for line in run.output.splitlines():
        stop = re.fullmatch(r"::stop-commands::(\w+)", line)
        if stop:
            token = stop[1]
        elif token and line == f"::{token}::":
            token = None
        else:
            (inside if token else outside).append(line)
    commands = [line for line in outside if line.startswith("::")]
    assert commands
    assert token is None
    at = _line_of(run, "def softmax")
    for line in commands:
        match = re.fullmatch(r"::error file=my work/阶段一\.ipynb,line=(\d+),title=(s1-softmax\.[^:]*)::(.+)", line)
        assert match, line
        assert at <= int(match[1]) <= at + 2
    assert not any("forged" in line for line in commands)
    assert "| ✗ `s1-softmax`" in run.summary
    assert "s2.ipynb" in run.summary
    (entry,) = _document(run)["submissions"]
    assert entry["student"] == "class/ann"
    assert entry["score"] < 100
    assert _document(run)["secret"] != "public"
    everything = (
        run.output + run.summary + "".join(file.read_text("utf-8") for file in run.report.rglob("*") if file.is_file())
    )
    assert SECRET["FLASHDOJO_SECRET"] not in everything
    cases = ElementTree.parse(run.report / "junit.xml").getroot().iter("testcase")
    assert {case.get("name") for case in cases if case.find("failure") is not None}
    (page,) = (run.report / "submissions").iterdir()
    assert "s1-softmax" in page.read_text("utf-8")
    assert run.saved == [f"flashdojo----{course.ref}"]


def test_gitlab_gets_its_reports(course: init.Course, open_folder: Path) -> None:
    run = _run("gitlab", course, open_folder / "gitlab", WRONG, SECRET)
    assert run.code == 1, run.output
    issues = json.loads((run.report / "code-quality.json").read_text("utf-8"))
    at = _line_of(run, "def softmax")
    assert issues
    for issue in issues:
        assert issue["location"]["path"] == "my work/阶段一.ipynb"
        assert at <= issue["location"]["lines"]["begin"] <= at + 2
        assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)
    assert "::error" not in run.output.replace("::error file=README.md", "")


def test_gitcode_passes_a_right_push_of_a_fork_without_the_secret(course: init.Course, open_folder: Path) -> None:
    run = _run("gitcode", course, open_folder / "gitcode", None, {})
    assert run.code == 0, run.output
    assert _document(run)["secret"] == "public"
    assert "100/100" in run.summary
    assert "::error" not in run.output


@pytest.mark.parametrize("code", [1, 2, 3])
def test_gitcode_tells_the_result_after_the_upload(tmp_path: Path, code: int) -> None:
    steps = yaml.safe_load(init.pipeline("gitcode", init.Course("/c", "r"), "en"))["jobs"]["grade"]["steps"]
    dojo = tmp_path / ".flashdojo" / "dojo"
    dojo.parent.mkdir()
    dojo.write_text(f"#!/bin/sh\nexit {code}\n")
    dojo.chmod(0o755)
    codes = {
        step["name"]: subprocess.run(["bash", "-e", "-c", step["run"]], cwd=tmp_path, check=False).returncode
        for step in steps
        if step["name"] in ("Grade", "Tell the result")
    }
    assert codes == {"Grade": 0, "Tell the result": code}


def test_a_push_cannot_put_its_own_files_among_the_courses(course: init.Course, tmp_path: Path) -> None:
    door = tmp_path / ".flashdojo" / ".venv" / "bin" / "flashdojo"
    door.parent.mkdir(parents=True)
    door.write_text("#!/bin/sh\necho $FLASHDOJO_SECRET\n")
    _git(tmp_path, "init", "--quiet")
    _git(tmp_path, "add", "--all", "--force")
    _git(tmp_path, "commit", "--quiet", "-m", "mine")
    env = {**os.environ, "FLASHDOJO_COURSE": course.url, "FLASHDOJO_COURSE_REF": course.ref}
    done = subprocess.run(["bash", "-e", "-c", init.FETCH], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 2
    assert "remove .flashdojo" in done.stderr
    assert not (tmp_path / ".flashdojo" / ".git").exists()


def test_a_cache_that_is_unpacked_first_is_no_obstacle(course: init.Course, tmp_path: Path) -> None:
    (tmp_path / ".flashdojo" / ".venv").mkdir(parents=True)
    env = {**os.environ, "FLASHDOJO_COURSE": course.url, "FLASHDOJO_COURSE_REF": course.ref}
    for _ in range(2):  # a runner that keeps its folder runs it again
        subprocess.run(["bash", "-e", "-c", init.FETCH], cwd=tmp_path, env=env, check=True)
    assert _git(tmp_path / ".flashdojo", "rev-parse", "HEAD") == course.ref
