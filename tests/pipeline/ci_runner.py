"""A stand-in for a platform's runner: it executes the steps of a generated pipeline in a fresh folder, as written.

``run:`` steps and GitLab scripts run in bash as the platforms run them. Of the actions, checking out copies the
learner's repository, restoring the cache puts an environment in place (so nothing is downloaded), uploading copies.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

STAMP = 'cksum <"$1/constraints.txt"; cksum <"$1/pyproject.toml"; printf "%s" "$1"'


def environment(venv: Path) -> None:
    """What an earlier run of ``./dojo`` left in the cache: here, a door to the packages of the running interpreter."""
    course = venv.parent
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    door = venv / "bin" / "flashdojo"
    door.write_text(f'#!/bin/sh\nPYTHONPATH={course} exec {sys.executable} -m grader.cli "$@"\n', encoding="utf-8")
    door.chmod(0o755)
    stamp = subprocess.run(["sh", "-c", STAMP, "sh", str(course)], capture_output=True, text=True, check=True)
    (venv / "ready").write_text(stamp.stdout + "\n", encoding="utf-8")


@dataclass
class Run:
    workspace: Path
    code: int = 0
    output: str = ""
    summary: str = ""
    artifact: Path | None = None
    saved: list[str] = field(default_factory=list)  # what the cache was asked to keep

    @property
    def report(self) -> Path:
        assert self.artifact is not None
        return self.artifact


def _bash(script: str, run: Run, env: Mapping[str, str]) -> int:
    """As GitHub's runner does: ``bash -e -o pipefail``."""
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script],
        cwd=run.workspace,
        env=dict(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=150,
        check=False,
    )
    run.output += done.stdout
    return done.returncode


def _basics(workspace: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(workspace.parent), "CI": "true", "LANG": "C.UTF-8"}


def _filled(value: object, contexts: Mapping[str, str]) -> str:
    """``${{ context.name }}``; a context that is not there is empty, as on the platforms."""
    return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda found: contexts.get(found[1], ""), str(value))


def run_workflow(
    file: Path, repository: Path, workspace: Path, env: Mapping[str, str], summary: str, secrets: Mapping[str, str]
) -> Run:
    """GitHub's and GitCode's: the one job of the workflow, step by step; a failure skips what follows, but for steps
    with an ``if`` that says otherwise."""
    (job,) = yaml.safe_load(file.read_text("utf-8"))["jobs"].values()
    run, page = Run(workspace), workspace.parent / "summary.md"
    page.touch()
    contexts = {f"secrets.{name}": value for name, value in secrets.items()}
    base = {**_basics(workspace), **env, summary: str(page), **{key: str(value) for key, value in job["env"].items()}}
    for step in job["steps"]:
        condition = step.get("if", "success()")
        if run.code and "!cancelled()" not in condition:
            continue
        if "uses" in step:
            code = _action(step, run, repository, contexts)
        else:
            own = {key: _filled(value, contexts) for key, value in step.get("env", {}).items()}
            code = _bash(_filled(step["run"], contexts), run, {**base, **own})
        run.code = run.code or code
    run.summary = page.read_text("utf-8")
    return run


def _action(step: Mapping[str, Any], run: Run, repository: Path, contexts: dict[str, str]) -> int:
    name = step["uses"].split("@")[0]
    given = {key: _filled(value, contexts) for key, value in step.get("with", {}).items()}
    if name in ("actions/checkout", "checkout"):
        shutil.copytree(repository, run.workspace, dirs_exist_ok=True)
    elif name in ("actions/cache/restore", "cache"):
        environment(run.workspace / given["path"])
        contexts["steps.environment.outputs.cache-primary-key"] = given["key"]
    elif name == "actions/cache/save":
        run.saved.append(given["key"])
    elif name in ("actions/upload-artifact", "upload-artifact"):
        run.artifact = run.workspace.parent / "artifact"
        shutil.copytree(run.workspace / given["path"], run.artifact)
    elif name != "actions/setup-python":
        raise AssertionError(f"the stand-in does not know {name}")
    return 0


def run_gitlab(
    file: Path, repository: Path, workspace: Path, env: Mapping[str, str], secrets: Mapping[str, str]
) -> Run:
    """The job ``flashdojo``: the cache, then both scripts in one shell, then the artefacts whatever came of it."""
    job = yaml.safe_load(file.read_text("utf-8"))["flashdojo"]
    run = Run(workspace)
    shutil.copytree(repository, workspace, dirs_exist_ok=True)
    (path,) = job["cache"]["paths"]
    (workspace / path).parent.mkdir(parents=True)
    for name in ("constraints.txt", "pyproject.toml"):  # the stamp is of these; the course itself comes later
        shutil.copy(Path(job["variables"]["FLASHDOJO_COURSE"]) / name, (workspace / path).parent)
    environment(workspace / path)
    for name in ("constraints.txt", "pyproject.toml"):
        ((workspace / path).parent / name).unlink()
    base = {**_basics(workspace), **env, "CI_PROJECT_DIR": str(workspace), **job["variables"], **secrets}
    run.code = _bash("\n".join([*job["before_script"], *job["script"]]), run, base)
    assert job["artifacts"]["when"] == "always"
    (path,) = job["artifacts"]["paths"]
    run.artifact = workspace.parent / "artifact"
    shutil.copytree(workspace / path, run.artifact)
    for report in job["artifacts"]["reports"].values():
        assert (workspace / report).is_file()
    return run
