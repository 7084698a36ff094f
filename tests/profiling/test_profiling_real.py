"""Recording on an NPU, driven against doubles with the documented signatures that write down what they are asked."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import pytest
import torch

from grader.cli import main
from grader.profiling import real
from kernels import machine
from kernels.perf import SCHEDULES, Shape, find_soc, predict
from kernels.profiles import kernel_run, read, write_msprof, write_pytorch

RELEASE = machine.release(torch.__version__)

# torch_npu.profiler as its documents describe it; every call goes into the file of the variable RECORD.
TORCH_NPU = """
import json, os, shutil, types
from enum import Enum


def record(**what):
    with open(os.environ["RECORD"], "a", encoding="utf-8") as file:
        file.write(json.dumps(what, default=str) + "\\n")


class npu:
    is_available = staticmethod(lambda: True)
    get_device_name = staticmethod(lambda index: "Ascend910B3")
    synchronize = staticmethod(lambda device=None: record(call="synchronize"))


class ProfilerActivity(Enum):
    CPU = 0
    NPU = 1


class ProfilerLevel:
    Level_none, Level0, Level1, Level2 = "Level_none", "Level0", "Level1", "Level2"


class AiCMetrics:
    AiCoreNone, PipeUtilization = "ACL_AICORE_NONE", "ACL_AICORE_PIPE_UTILIZATION"


class ExportType:
    Text, Db = "text", "db"


class _ExperimentalConfig:
    def __init__(self, export_type=[ExportType.Text], profiler_level=ProfilerLevel.Level0, mstx=False,
                 mstx_domain_include=[], mstx_domain_exclude=[], aic_metrics=AiCMetrics.AiCoreNone, l2_cache=False,
                 op_attr=False, data_simplification=True, record_op_args=False, gc_detect_threshold=None, host_sys=[],
                 sys_io=False, sys_interconnection=False):
        self.told = {"profiler_level": profiler_level, "aic_metrics": aic_metrics, "export_type": export_type}


def tensorboard_trace_handler(dir_name=None, worker_name=None, analyse_flag=True, async_mode=False):
    def handler(prof):
        folder = os.path.join(dir_name, os.path.basename(os.environ["MADE"]))
        shutil.copytree(os.environ["MADE"], folder)
    return handler


class profile:
    def __init__(self, activities=None, schedule=None, on_trace_ready=None, record_shapes=False, profile_memory=False,
                 with_stack=False, with_modules=False, with_flops=False, experimental_config=None):
        self.ready = on_trace_ready
        record(call="profile", activities=activities, record_shapes=record_shapes, **experimental_config.told)

    def __enter__(self):
        record(call="start")
        return self

    def __exit__(self, *error):
        record(call="stop")
        self.ready(self)


profiler = types.SimpleNamespace(profile=profile, ProfilerActivity=ProfilerActivity, ProfilerLevel=ProfilerLevel,
    AiCMetrics=AiCMetrics, ExportType=ExportType, _ExperimentalConfig=_ExperimentalConfig,
    tensorboard_trace_handler=tensorboard_trace_handler)
"""

MSPROF = """#!{python}
import itertools, json, os, shutil, subprocess, sys
options = list(itertools.takewhile(lambda word: word.startswith("--"), sys.argv[1:]))
told = dict(option[2:].split("=", 1) for option in options)
with open(os.environ["RECORD"], "a", encoding="utf-8") as file:
    file.write(json.dumps({{"call": "msprof", "argv": sys.argv[1:]}}) + "\\n")
if told.get("export") == "on":
    shutil.copytree(os.path.join(os.environ["MADE"], "mindstudio_profiler_output"),
                    os.path.join(told["output"], "mindstudio_profiler_output"))
    sys.exit(0)
code = subprocess.run(sys.argv[1 + len(options):]).returncode
parsed = not os.environ.get("UNPARSED")
shutil.copytree(os.environ["MADE"], os.path.join(told["output"], os.path.basename(os.environ["MADE"])),
                ignore=None if parsed else shutil.ignore_patterns("mindstudio_profiler_output"))
sys.exit(code)
"""

PROGRAM = """
import json, os, sys
with open(os.environ["RECORD"], "a", encoding="utf-8") as file:
    file.write(json.dumps({"call": "program", "argv": sys.argv, "name": __name__, "path": sys.path[0]}) + "\\n")
sys.exit(int(os.environ.get("FAILS", "0")))
"""


class Machine:
    def __init__(self, folder: Path):
        self.folder = folder

    @property
    def calls(self) -> list[dict]:
        file = self.folder / "record.jsonl"
        return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with a 910B3: torch_npu can be imported, msprof is on PATH, program.py lies here."""
    packages = tmp_path / "packages"
    (packages / "torch_npu").mkdir(parents=True)
    (packages / "torch_npu" / "__init__.py").write_text(TORCH_NPU)
    (packages / f"torch_npu-{RELEASE}.dist-info").mkdir()
    about = packages / f"torch_npu-{RELEASE}.dist-info" / "METADATA"
    about.write_text(f"Name: torch_npu\nVersion: {RELEASE}\n")
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "msprof").write_text(MSPROF.format(python=sys.executable))
    (tools / "msprof").chmod(0o755)
    soc, shape = find_soc("910B3"), Shape(1, 16, 16, 4096, 4096)
    run = kernel_run(predict(soc, shape, SCHEDULES["cann"]), shape, soc)
    made = {"torch": write_pytorch(tmp_path / "made", [run]), "msprof": write_msprof(tmp_path / "made", [run])}
    monkeypatch.setenv("PATH", os.pathsep.join([str(tools), os.environ["PATH"]]))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    monkeypatch.setenv("RECORD", str(tmp_path / "record.jsonl"))
    monkeypatch.setenv("MADE", str(made["torch"]))
    monkeypatch.setenv("MADE_BY_MSPROF", str(made["msprof"]))
    monkeypatch.setenv("FLASHDOJO_LANG", "en")
    monkeypatch.delenv("FLASHDOJO_NPU", raising=False)
    monkeypatch.syspath_prepend(packages)
    importlib.invalidate_caches()
    # finding torch_npu in a process of its own takes as long as importing torch, and tests/ascend does it
    monkeypatch.setattr(
        real.npu, "look", lambda: {"kind": "910B", "is_real": True, "fault": None, "soc": "Ascend910B3"}
    )
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(PROGRAM)
    return Machine(tmp_path)


def test_torch_npu_records_the_whole_program_with_the_pipes(card: Machine, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "--real", "program.py", "--steps", "3", "--out", "here"]) == 0
    profile, start, program, *rest = card.calls
    assert profile == {
        "call": "profile",
        "activities": ["ProfilerActivity.CPU", "ProfilerActivity.NPU"],
        "record_shapes": True,
        "profiler_level": "Level1",
        "aic_metrics": "ACL_AICORE_PIPE_UTILIZATION",
        "export_type": ["text"],
    }
    assert start == {"call": "start"}
    assert program["argv"] == ["program.py", "--steps", "3"]
    assert program["name"] == "__main__"
    assert program["path"] == str(card.folder)
    assert {"call": "stop"} in rest
    said = capfd.readouterr().out
    assert "record_torch.py" in said.split("$ ")[1]  # the command, before it ran
    (made,) = Path("here").iterdir()
    assert f"{made}: 1 kernels, {read(made).duration_us:.1f} us" in said
    assert "profile open" in said
    assert "msprof-analyze advisor all -d" in said
    assert "records no kernels" in said  # npu-smi, for what it is


def test_the_last_kernels_belong_to_the_recording(card: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("program.py").write_text("")
    assert main(["profile", "--real=program.py"]) == 0
    assert [call["call"] for call in card.calls] == ["profile", "start", "synchronize", "stop"]


def test_msprof_gets_documented_options_and_then_the_program(
    card: Machine, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MADE", os.environ["MADE_BY_MSPROF"])
    assert main(["profile", "--real", "program.py", "--tool", "msprof", "--out", "here", "--", "--out", "there"]) == 0
    tool, program = card.calls
    options = [f"--output={card.folder / 'here'}", "--ascendcl=on", "--task-time=on", "--ai-core=on"]
    assert tool["argv"] == [*options, sys.executable, "program.py", "--out", "there"]
    assert program["argv"] == ["program.py", "--out", "there"]
    assert "$ msprof --output=" in capfd.readouterr().out


def test_what_msprof_left_raw_is_exported(card: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADE", os.environ["MADE_BY_MSPROF"])
    monkeypatch.setenv("UNPARSED", "1")
    assert main(["profile", "--real", "program.py", "--tool", "msprof", "--out", "here"]) == 0
    assert card.calls[-1]["argv"][0] == "--export=on"
    assert len(list(Path("here").glob("PROF_*/mindstudio_profiler_output/op_summary_*.csv"))) == 1


def test_a_program_that_fails_is_said_and_its_profile_kept(
    card: Machine, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAILS", "5")
    assert main(["profile", "--real", "program.py", "--out", "here"]) == 0
    said = capfd.readouterr()
    assert "exit code 5" in said.err
    assert "1 kernels" in said.out


def test_a_tool_that_leaves_nothing(
    card: Machine, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (card.folder / "bin" / "msprof").write_text("#!/bin/sh\necho no device >&2\nexit 9\n")
    assert main(["profile", "--real", "program.py", "--tool", "msprof", "--out", "here"]) == 2
    assert "msprof left no profile (exit code 9)" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["none.py"], "no such program: none.py"),
        (["program.ipynb"], "records a .py program"),
        (["program.py", "--tool", "npu-smi"], "--tool takes torch, msprof"),
        (["program.py", "--out", "made"], "made is not empty"),
        (["program.py", "--out", "报 告"], "letters, digits"),
    ],
)
def test_what_cannot_be_recorded(
    card: Machine, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main(["profile", "--real", *arguments]) == 2
    assert says in capsys.readouterr().err
    assert card.calls == []


@pytest.mark.parametrize("tool", real.TOOLS)
def test_without_an_npu_one_line_says_what_to_do(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLASHDOJO_NPU", raising=False)
    monkeypatch.setattr(real, "_card_here", lambda: False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    Path("program.py").write_text("")
    for lang, words in (("en", ("no Ascend NPU", "profile write")), ("zh", ("没有昇腾 NPU", "profile write"))):
        assert main(["profile", "--real", "program.py", "--tool", tool, "--lang", lang]) == 2
        said = capsys.readouterr().err
        assert all(word in said for word in words)
        assert said.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["program.py"]


def test_the_emulated_npu_is_no_hardware(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLASHDOJO_NPU", "emulated")
    Path("program.py").write_text("")
    assert main(["profile", "--real", "program.py", "--lang", "en"]) == 2
    assert "emulated" in capsys.readouterr().err


def test_faults_that_only_stop_the_courses_operators_do_not_stop_a_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLASHDOJO_NPU", raising=False)
    monkeypatch.setattr(real, "_card_here", lambda: True)
    found = machine.Situation("none", "2.12.0", fault="ops-transformer-missing", soc="Ascend950PR_9589").report()
    monkeypatch.setattr(real.npu, "look", lambda: found)
    assert real.obstacle("torch") is None
    missing = machine.Situation("none", "2.12.0", fault="torch-npu-missing").report()
    monkeypatch.setattr(real.npu, "look", lambda: missing)
    in_the_way = real.obstacle("torch")
    assert in_the_way is not None
    assert "torch_npu" in in_the_way.zh
    monkeypatch.setattr(real.shutil, "which", lambda name: None)
    without = real.obstacle("msprof")
    assert without is not None
    assert "set_env.sh" in without.en
