"""doctor: what is there, what is not and need not be, what is wrong and how to mend it."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections import namedtuple
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from grader import doctor, paths
from grader.cli import main
from grader.doctor import Finding
from grader.worker import confine


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLASHDOJO_LANG", "en")


def only(findings: Any) -> Finding:
    (finding,) = findings
    return finding


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in names else real(name, *rest))


def test_this_machine_can_run_the_course(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    for subject in ("Python", "PyTorch", "NPU", "CANN", "repository", "kernels", "Jupyter", "font", "disk", "sandbox"):
        assert subject in text, subject
    assert "Ready: ./dojo start" in text


def test_every_finding_speaks_both_languages_and_problems_have_a_fix() -> None:
    for finding in doctor.examine():
        assert finding.subject.zh
        assert finding.subject.en
        assert finding.found.zh
        assert finding.found.en
        assert finding.level in ("ok", "note", "problem", "fatal")
        if finding.level in ("problem", "fatal"):
            assert finding.fix is not None


def test_without_torch_the_course_cannot_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(doctor, "_sandbox", list)
    assert only(doctor._torch()).level == "fatal"
    assert main(["doctor", "--lang", "zh"]) == 3
    text = capsys.readouterr().out
    assert "再运行一次 ./dojo" in text
    assert "课程现在无法运行" in text


def test_an_old_python_is_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 0))
    finding = only(doctor._python())
    assert finding.level == "fatal"
    assert finding.fix is not None
    assert "FLASHDOJO_PYTHON" in finding.fix.en


@pytest.mark.parametrize(
    ("npu", "emulated", "level", "words"),
    [
        (None, False, "note", "none"),
        (SimpleNamespace(), True, "ok", "emulated"),
        (SimpleNamespace(is_available=lambda: False), False, "problem", "sees no device"),
        (
            SimpleNamespace(is_available=lambda: True, get_device_name=lambda i: "Ascend910B3", device_count=lambda: 8),
            False,
            "ok",
            "Ascend910B3, 8 of them",
        ),
    ],
)
def test_the_npu_is_none_emulated_or_real(
    monkeypatch: pytest.MonkeyPatch, npu: Any, emulated: bool, level: str, words: str
) -> None:
    torch, torch_npu = ModuleType("torch"), ModuleType("torch_npu")
    if npu is not None:
        torch.npu = npu  # type: ignore[attr-defined]
    torch_npu.__emulated__ = emulated  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch_npu", torch_npu)
    without(monkeypatch, "torch_npu")
    finding = only(doctor._npu())
    assert finding.level == level
    assert words in finding.found.en


def test_cann_is_found_by_its_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "version.cfg").write_text("# a comment\nruntime_running_version=[8.5.0:8.5.0]\n")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    finding = only(doctor._cann())
    assert finding.level == "ok"
    assert "8.5.0" in finding.found.en


def test_another_package_of_our_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor.metadata, "packages_distributions", lambda: {"kernels": ["kernels", "flashdojo"]})
    assert only(doctor._clash()).level == "note"
    foreign = SimpleNamespace(origin=str(tmp_path / "kernels" / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: foreign)
    finding = only(doctor._clash())
    assert finding.level == "problem"
    assert finding.fix is not None
    assert "pip uninstall kernels" in finding.fix.en


def test_a_copy_in_site_packages_is_no_clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    assert only(doctor._layout()).level == "fatal"


def test_no_jupyter_and_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "jupyterlab")
    assert only(doctor._jupyter()).level == "problem"
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 9, 1))
    assert {finding.level for finding in doctor._disk()} == {"problem"}


def test_no_isolation_is_said_out_loud(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = {"process": (True, "yes"), "landlock": (False, "no such syscall"), "seccomp": (False, "no library")}
    monkeypatch.setattr("grader.worker.confine.probe", lambda: layers)
    findings = list(doctor._sandbox())
    assert [finding.level for finding in findings] == ["ok", "note", "note", "problem"]
    assert "no such syscall" in findings[1].found.en
    assert "without Landlock or seccomp" in findings[-1].found.en


def test_what_a_wall_says_of_itself_is_chinese_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(confine.landlock, "abi", lambda: 0)
    found = {name: detail for name, (there, detail) in confine.layers().items() if not there}
    assert {"user", "landlock"} <= found.keys()
    monkeypatch.setattr(confine, "probe", lambda: {name: (False, detail) for name, detail in found.items()})
    for finding in doctor._sandbox():
        assert not any(
            "a" <= letter <= "z"
            for letter in re.sub("root|Linux|Landlock|seccomp", "", finding.found.zh)
        )


def test_a_probe_that_breaks_is_one_more_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[Finding]:
        raise ValueError("oops")

    finding = only(doctor._guarded(broken))
    assert finding.level == "problem"
    assert "oops" in finding.found.en
