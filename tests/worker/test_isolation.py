"""With less than Landlock and seccomp: said in every report, refused when asked to. On a kernel that answers as one
without Landlock does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader import isolation, results
from grader.inputs import Secret
from grader.paths import ROOT
from grader.worker import landlock, syscalls

WITHOUT_LANDLOCK = """
import errno, sys
import pyseccomp as sc
rules = sc.SyscallFilter(sc.ALLOW)
rules.add_rule(sc.ERRNO(errno.ENOSYS), 444)  # landlock_create_ruleset
rules.load()
from grader.cli import main
sys.exit(main(sys.argv[1:]))
"""
ANSWER = "import torch\ndef softmax(x, dim=-1): return x\n"


def flashdojo(*arguments: str, prelude: str = WITHOUT_LANDLOCK) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", prelude, *arguments], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True,
    )  # fmt: skip


@pytest.fixture
def answer(tmp_path: Path) -> str:
    file = tmp_path / "li.py"
    file.write_text(ANSWER)
    return str(file)


needs_both = pytest.mark.skipif(
    not landlock.abi() or syscalls.pyseccomp is None, reason="needs Landlock and libseccomp to take one away"
)


@needs_both
@pytest.mark.parametrize(
    ("lang", "words"), [("en", "this machine has no Landlock, "), ("zh", "这台机器没有 Landlock，")]
)
def test_without_landlock_grading_is_refused_when_isolation_is_required(answer, lang, words):
    ended = flashdojo("grade", answer, "--stage", "s1", "--require-isolation", "--no-cache", "--json", "--lang", lang)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"flashdojo: {words}")
    assert ended.stderr.count("\n") == 1


@needs_both
def test_without_landlock_every_report_says_so(answer, tmp_path):
    ended = flashdojo("grade", answer, "--stage", "s1", "--no-cache", "--json")
    document = json.loads(ended.stdout)
    results.validate(document)
    assert "landlock" not in document["device"]["isolation"]
    assert "seccomp" in document["device"]["isolation"]
    assert document["notice"]["en"].startswith("Graded without Landlock:")
    assert document["notice"]["zh"].startswith("评分时没有启用 Landlock：")
    shown = flashdojo("grade", answer, "--stage", "s1", "--no-cache", "--lang", "en").stdout
    assert "Graded without Landlock" in " ".join(shown.split())
    file = tmp_path / "results.json"
    file.write_text(json.dumps(document))
    subprocess.run(
        [sys.executable, "-m", "grader.cli", "report", str(file), "--out", str(tmp_path / "out")],
        cwd=ROOT, capture_output=True, check=False,
    )  # fmt: skip
    pages = [page.read_text("utf-8") for page in (tmp_path / "out").rglob("*.html")]
    assert pages
    assert all("Graded without Landlock" in page and "评分时没有启用 Landlock" in page for page in pages)


@needs_both
def test_with_both_nothing_is_said_and_nothing_refused(answer):
    prelude = "import sys\nfrom grader.cli import main\nsys.exit(main(sys.argv[1:]))"
    arguments = ("grade", answer, "--stage", "s1", "--require-isolation", "--no-cache", "--json")
    ended = flashdojo(*arguments, prelude=prelude)
    document = json.loads(ended.stdout)
    assert document["notice"] is None
    assert set(isolation.SURE) <= set(document["device"]["isolation"])
    assert ended.returncode == 1


@pytest.mark.parametrize(
    ("in_force", "named"),
    [
        ((), "Landlock or seccomp"),
        (("process", "limits", "user", "namespaces"), "Landlock or seccomp"),
        (("seccomp", "namespaces"), "Landlock"),
        (("landlock",), "seccomp"),
    ],
)
def test_what_is_missing_is_named(in_force, named):
    said = isolation.notice(in_force)
    assert said is not None
    assert f"without {named}:" in said.en
    assert isolation.notice([*in_force, *isolation.SURE]) is None


def test_a_document_without_any_run_says_nothing_of_isolation():
    row = results.submission(path="a.py", student="a", stage="s1", status="unreadable")
    assert results.document([row], secret=Secret())["notice"] is None
