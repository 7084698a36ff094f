"""The front door, ./dojo, with a recording interpreter in place of Python: these tests fetch no package."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from grader.paths import ROOT

# Stands for `python` before the venv exists and, copied by "-m venv", for .venv/bin/python after; notes its arguments.
INTERPRETER = """#!/bin/sh
printf '%s\\n' "$*" >>"$RECORD"
case "$*" in
    *version_info*) exit "${TOO_OLD:-0}" ;;
    *find_spec*) exit "${NO_TORCH:-1}" ;;
    *'import venv'*) exit "${NO_VENV:-0}" ;;
    *'import pip'*) exit 0 ;;
    *importlib.metadata*) echo torch==9.9.9+npu; exit 0 ;;
    *'-m venv'*)
        for last; do :; done
        mkdir -p "$last/bin"
        cp "$0" "$last/bin/python"
        case "$*" in *system-site*) flag=true ;; *) flag=false ;; esac
        echo "include-system-site-packages = $flag" >"$last/pyvenv.cfg"
        exit 0 ;;
    *'pip --disable'*)
        [ -z "${SLOW_PIP:-}" ] || { echo $$ >"$RECORD.pip"; exec sleep 60; }
        [ -z "${BROKEN_PIP:-}" ] || { echo 'ERROR: no route to the index'; exit 1; }
        case "$*" in *-e*)
            venv=$(dirname "$0")/..
            printf '#!/bin/sh\\necho "flashdojo $*"\\n' >"$venv/bin/flashdojo"
            chmod +x "$venv/bin/flashdojo" ;;
        esac
        exit 0 ;;
esac
exit 0
"""


class Clone:
    """A folder with ./dojo and its two files, and a way to run it."""

    def __init__(self, folder: Path):
        self.root = folder / "clone"
        self.root.mkdir()
        for name in ("dojo", "constraints.txt", "pyproject.toml"):
            shutil.copy(ROOT / name, self.root / name)
        self.record = folder / "record"
        self.python = folder / "python-double"
        self.python.write_text(INTERPRETER)
        self.python.chmod(0o755)

    def environment(self, **more: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("FLASHDOJO_", "LC_", "LANG"))}
        return kept | {"FLASHDOJO_PYTHON": str(self.python), "RECORD": str(self.record)} | more

    def run(self, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.root / "dojo"), *args]
        return subprocess.run(command, env=self.environment(**more), capture_output=True, text=True, timeout=60)

    def installs(self) -> list[str]:
        return [line for line in self.record.read_text().splitlines() if " install " in line]


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_first_run_sets_up_and_second_run_does_not(clone: Clone):
    first = clone.run("list", "--json")
    assert first.returncode == 0, first.stderr
    assert first.stdout == "flashdojo list --json\n", "stdout belongs to the command alone"
    assert "[2/3] torch" in first.stderr
    torch, rest = clone.installs()
    assert torch.endswith("torch==2.13.0")
    assert rest.endswith(f"-e {clone.root}")
    second = clone.run("list")
    assert second.stderr == ""
    assert len(clone.installs()) == 2


def test_changed_pins_are_installed_again(clone: Clone):
    clone.run("list")
    with (clone.root / "constraints.txt").open("a") as pins:
        pins.write("six==1.17.0\n")
    assert clone.run("list").returncode == 0
    assert len(clone.installs()) == 4


def test_failed_set_up_says_so_and_goes_on_when_run_again(clone: Clone):
    failed = clone.run("list", BROKEN_PIP="1")
    assert failed.returncode == 3
    assert "no route to the index" in failed.stderr
    assert "run the same command again" in failed.stderr
    assert not (clone.root / ".venv" / "ready").exists()
    assert clone.run("list").returncode == 0


def test_interrupted_set_up_leaves_no_pip_behind(clone: Clone):
    process = subprocess.Popen(
        [str(clone.root / "dojo"), "list"], env=clone.environment(SLOW_PIP="1"), stderr=subprocess.PIPE, text=True
    )
    note = Path(f"{clone.record}.pip")
    deadline = time.monotonic() + 30
    while not note.exists() or not note.read_text().strip():
        assert time.monotonic() < deadline, "the set-up never reached pip"
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in told
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)
    assert not (clone.root / ".venv.lock").exists()
    assert clone.run("list").returncode == 0


def test_lock_of_a_dead_set_up_is_taken_over(clone: Clone):
    lock = clone.root / ".venv.lock"
    lock.mkdir()
    ended = subprocess.Popen(["true"])
    ended.wait()
    (lock / "pid").write_text(str(ended.pid))
    assert clone.run("list").returncode == 0


def test_torch_index_serves_torch_alone(clone: Clone):
    clone.run("list", FLASHDOJO_TORCH_INDEX="https://torch.invalid/cpu")
    torch, rest = clone.installs()
    assert "--no-deps --index-url https://torch.invalid/cpu torch==" in torch
    assert "torch.invalid" not in rest


def test_torch_of_the_given_interpreter_is_used_and_not_replaced(clone: Clone):
    clone.run("list", NO_TORCH="0")
    assert "--system-site-packages" in clone.record.read_text()
    assert [line for line in clone.installs() if line.endswith("torch==2.13.0")] == []
    assert "torch==9.9.9+npu" in (clone.root / ".venv" / "constraints.txt").read_text().splitlines()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TOO_OLD": "1"}, "Python 3.11"),
        ({"FLASHDOJO_PYTHON": "/no/such/python"}, "no such interpreter"),
        ({"NO_VENV": "1"}, "apt install python3-venv"),
    ],
)
def test_unusable_interpreter_is_one_clear_line(clone: Clone, environment: dict[str, str], expected: str):
    answer = clone.run("list", **environment)
    assert answer.returncode == 2
    assert expected in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


def test_messages_follow_the_language(clone: Clone):
    assert "版本过旧" in clone.run("list", TOO_OLD="1", LANG="zh_CN.UTF-8").stderr
    assert "版本过旧" in clone.run("list", TOO_OLD="1", FLASHDOJO_LANG="zh").stderr
