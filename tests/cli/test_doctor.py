"""doctor: what is there, what is not and need not be, what is wrong and how to mend it."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections import namedtuple
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grader import doctor, npu, paths, sandbox_report
from grader.cli import main
from grader.findings import Finding
from grader.worker import confine
from kernels.machine import FAULTS, Situation


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLASHDOJO_LANG", "en")


def only(findings: Any) -> Finding:
    (finding,) = findings
    return finding


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in names else real(name, *rest))


def situation(**fields: Any) -> dict[str, Any]:
    return Situation(**{"torch": "2.12.0", **fields}).report()


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
    monkeypatch.setattr(doctor, "sandbox", list)
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


def test_no_npu_is_no_problem_and_what_a_real_one_needs_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npu, "look", lambda: situation(kind="none"))
    nothing, cann, for_910b, for_950 = doctor._npu()
    assert {finding.level for finding in (nothing, cann, for_910b, for_950)} == {"note"}
    assert "emulated device" in nothing.found.en
    assert "not installed" in cann.found.en
    for finding in (for_910b, for_950):
        assert "CANN 9.1.0, torch 2.12.0, torch_npu 2.12.0" in finding.found.en
        assert "CANN 9.1.0、torch 2.12.0、torch_npu 2.12.0" in finding.found.zh
    assert "npu_fusion_attention" in for_910b.found.en
    assert "cann_ops_transformer" in for_950.found.zh


def test_the_versions_it_names_are_those_of_the_documents() -> None:
    cann, torch, torch_npu = (text.split()[1] for text in npu.RECOMMENDED)
    for language in ("zh", "en"):
        page = (paths.ROOT / "docs" / language / "npu.md").read_text("utf-8")
        assert f"| {cann} | {torch} | {torch_npu} |" in page


def test_the_emulated_device_is_named_with_its_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npu, "look", lambda: situation(kind="emulated", soc="Ascend910B3 (emulated)"))
    finding = next(iter(doctor._npu()))
    assert finding.level == "ok"
    assert "emulated, Ascend910B3" in finding.found.en
    assert "模拟设备 Ascend910B3" in finding.found.zh


def test_a_real_950_is_named_with_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = situation(kind="950", soc="Ascend950PR_9599", torch_npu="2.12.0", cann="9.1.0", cann_home="/opt/cann",
                      cann_ops_transformer="1.0.0")  # fmt: skip
    monkeypatch.setattr(npu, "look", lambda: ready)
    chip, ops, cann = doctor._npu()
    assert {finding.level for finding in (chip, ops, cann)} == {"ok"}
    assert "Ascend950PR_9599" in chip.found.en
    assert "torch_npu 2.12.0" in chip.found.en
    assert ops.found.en == "1.0.0"
    assert cann.found.en == "9.1.0  /opt/cann"


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_worded_in_both_languages_with_the_same_facts(fault: str) -> None:
    names = ("soc", "torch", "torch_npu", "cann", "cann_home", "cann_ops_transformer", "detail")
    found = Situation(kind="none", fault=fault, **{name: f"<{name}>" for name in names})
    text = npu.problem_of(found.report())
    assert text is not None
    assert re.search("[一-鿿]", text.zh)
    assert sorted(re.findall("<[a-z_]+>", text.zh)) == sorted(re.findall("<[a-z_]+>", text.en))
    assert FAULTS.keys() == npu.FAULTS_ZH.keys()


def test_without_torch_the_npu_cannot_be_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "torch_npu")
    monkeypatch.setitem(sys.modules, "torch_npu", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    finding = only(doctor._npu())
    assert finding.level == "note"
    assert "without PyTorch" in finding.found.en


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, version: str, source: str) -> None:
    """A package that ``import`` and its metadata find, in this process and in those that it starts."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(source)
    (folder / f"{name}-{version}.dist-info").mkdir()
    (folder / f"{name}-{version}.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise ImportError('libhccl.so: cannot open shared object file')", ("source", "set_env.sh", "libhccl.so")),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", ("cannot be imported", "torch_npu")),
    ],
    ids=["libraries missing", "crashes"],
)
def test_a_half_installed_torch_npu_is_examined_from_outside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str, words: tuple[str, ...]
) -> None:
    monkeypatch.delitem(sys.modules, "torch_npu", raising=False)
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    monkeypatch.delenv("ASCEND_TOOLKIT_HOME", raising=False)
    home = tmp_path / "home" / "Ascend" / "cann"
    home.mkdir(parents=True)
    (home / "version.cfg").write_text("# a comment\nruntime_running_version=[8.5.0:8.5.0]\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    release = metadata.version("torch").partition("+")[0]
    installed(tmp_path / "packages", monkeypatch, "torch_npu", release, source)
    finding = next(iter(doctor._npu()))
    assert finding.level == "problem"
    assert finding.fix is not None
    for word in words:
        assert word in finding.fix.en
    assert "torch_npu" not in sys.modules


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
    findings = list(sandbox_report.sandbox())
    assert [finding.level for finding in findings] == ["ok", "note", "note", "problem"]
    assert "no such syscall" in findings[1].found.en
    assert "without Landlock or seccomp" in findings[-1].found.en


def test_what_a_wall_says_of_itself_is_chinese_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(confine.landlock, "abi", lambda: 0)
    found = {name: detail for name, (there, detail) in confine.layers().items() if not there}
    assert {"user", "landlock"} <= found.keys()
    monkeypatch.setattr(confine, "probe", lambda: {name: (False, detail) for name, detail in found.items()})
    for finding in sandbox_report.sandbox():
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
