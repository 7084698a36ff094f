"""When the emulated device is there: asked for only, and in the place of a real torch_npu if FLASHDOJO_NPU says so.

Each test has a process of its own, because a device stays.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import flashdojo_npu
from grader.paths import ROOT

REAL = '__version__ = "2.13.0"\n'
HALF_INSTALLED = 'raise ImportError("libhccl.so: cannot open shared object file: No such file or directory")\n'


def python(code: str, *path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLASHDOJO_")}
    kept["PYTHONPATH"] = os.pathsep.join(map(str, (*path, ROOT)))
    command = [sys.executable, "-W", "error::UserWarning", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, cwd="/", env=kept | environment)


def output(code: str, *path: Path, **environment: str) -> str:
    run = python(code, *path, **environment)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.fixture
def installed(tmp_path):
    """The course as an installed distribution: its entry points, as pip writes them down."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    info = tmp_path / "flashdojo-0.1.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: flashdojo\nVersion: 0.1\n")
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in names.items()) for group, names in points.items()]
    info.joinpath("entry_points.txt").write_text("\n".join(lines))
    return tmp_path


@pytest.fixture
def package(tmp_path):
    def make(name: str, source: str) -> Path:
        folder = tmp_path / "site"
        folder.mkdir(exist_ok=True)
        folder.joinpath(f"{name}.py").write_text(source)
        return folder

    return make


def test_nothing_is_there_and_nothing_of_the_course_imported_unless_asked_for(installed):
    told = output(
        "import sys, torch\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('kernels', 'grader', 'torch_npu')])\n"
        "import kernels\n"
        "print(hasattr(torch, 'npu'), 'torch_npu' in sys.modules, torch._C._get_privateuse1_backend_name())",
        installed,
    )
    assert told == "[]\nFalse False privateuseone"


@pytest.mark.parametrize("first", ["torch", "kernels.tiles"])
def test_flashdojo_npu_makes_every_program_find_it(installed, first):
    code = f"import {first}, torch, torch_npu; print(torch.ones(2, device='npu').device, torch.npu.get_device_name())"
    told = output(code, installed, FLASHDOJO_NPU="emulated", FLASHDOJO_SOC="Ascend910B3")
    assert told == "npu:0 Ascend910B3 (emulated)"


def test_an_unknown_value_of_flashdojo_npu_is_an_error(monkeypatch):
    monkeypatch.setenv("FLASHDOJO_NPU", "yes")
    with pytest.raises(ValueError, match="FLASHDOJO_NPU is 'yes': set it to \"emulated\""):
        flashdojo_npu.autoload()


def test_it_starts_in_half_a_second_and_starts_no_thread(tmp_path):
    tmp_path.joinpath("torch_npu").mkdir()  # a folder of that name is no torch_npu
    told = output(
        "import os, time, torch\n"
        "threads, start = len(os.listdir('/proc/self/task')), time.process_time()\n"  # the machine may be busy
        "import kernels.ascend\n"
        "print(time.process_time() - start < 0.5, len(os.listdir('/proc/self/task')) - threads)\n"
        "kernels.ascend.install()\n"
        "kernels.ascend.install('910_93')\n"
        "print(kernels.ascend.is_emulated(), torch.npu.get_soc_version())",
        tmp_path,
    )
    assert told == "True 0\nTrue 250"


def test_a_real_torch_npu_is_left_alone(package):
    site = package("torch_npu", REAL)
    package("cann_ops_transformer", REAL)
    told = output(
        "import kernels.ascend, sys, torch\n"
        "print(kernels.ascend.is_emulated(), hasattr(torch, 'npu'), sys.modules['torch_npu'].__file__,\n"
        "      'cann_ops_transformer' in sys.modules, hasattr(sys.modules['torch_npu'], '__emulated__'))",
        site,
    )
    assert told == f"False False {site}/torch_npu.py True False"


def test_a_torch_npu_that_cannot_be_imported_says_what_to_do(package):
    run = python("import kernels.ascend", package("torch_npu", HALF_INSTALLED))
    assert run.returncode
    message = run.stderr.strip().splitlines()[-1]
    for words in (
        "cannot be imported",
        "libhccl.so",
        "set_env.sh",
        "pip uninstall torch_npu",
        "FLASHDOJO_NPU=emulated",
    ):
        assert words in message


def test_another_backend_in_its_place_says_so():
    run = python("import torch; torch.utils.rename_privateuse1_backend('other'); import kernels.ascend")
    assert "The device 'other' already has the place" in run.stderr


@pytest.mark.parametrize("source", [REAL, HALF_INSTALLED, "import os; os._exit(9)\n"], ids=["works", "half", "crashes"])
def test_flashdojo_npu_comes_before_an_installed_torch_npu(package, source):
    code = (
        "import torch, kernels.ascend, torch_npu, cann_ops_transformer\n"
        "print(torch_npu.__emulated__, kernels.ascend.is_emulated(), torch.ones(1).npu().device)"
    )
    asked = {"FLASHDOJO_NPU": "emulated", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    assert output(code, package("torch_npu", source), **asked) == "True True npu:0"


AUTOLOADED = """
import torch
__version__ = "2.13.0"
torch.utils.rename_privateuse1_backend("npu")
def _autoload(): ...
"""


def as_distribution(site: Path) -> Path:
    """With the entry point by which torch imports torch_npu itself."""
    info = site / "torch_npu-2.13.0.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.13.0\n")
    info.joinpath("entry_points.txt").write_text("[torch.backends]\ntorch_npu = torch_npu:_autoload\n")
    return site


def test_a_torch_npu_that_torch_has_loaded_by_itself_says_what_to_do(package):
    site = as_distribution(package("torch_npu", AUTOLOADED))
    run = python("import torch, kernels.ascend", site, FLASHDOJO_NPU="emulated")
    assert run.returncode
    (message,) = (line for line in run.stderr.splitlines() if "of the installed torch_npu already" in line)
    assert "the device 'npu'" in message
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in message
    assert "unset FLASHDOJO_NPU" in message


def test_torch_may_come_to_the_real_one_after_the_emulated_one(installed, package):
    """Both distributions have the entry point; this is the order in which ours is first."""
    site = as_distribution(package("torch_npu", AUTOLOADED))
    code = "import torch, torch_npu; print(torch_npu.__emulated__, torch.ones(1, device='npu').device)"
    assert output(code, installed, site, FLASHDOJO_NPU="emulated") == "True npu:0"
