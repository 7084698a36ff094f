"""Which NPU a process can use: CANN's files, versions that belong together, and every half-installed state."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kernels import machine
from kernels.machine import FAULTS, detect, find_cann, kind_of, situation, versions_match

RELEASE = machine.release(torch.__version__)
OURS = ("torch_npu", "cann_ops_transformer")
CARD = "class npu:\n    is_available = lambda: True\n    get_device_name = lambda index: {!r}\n"
THREE = "def flash_attn(): ...\ndef flash_attn_grad(): ...\ndef flash_attn_metadata(): ...\n"
NO_LIBRARY = "raise ImportError('libhccl.so: cannot open shared object file\\nand more')"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A machine with nothing of Ascend's, whatever this process has; packages can be put into the folder returned."""
    loaded = {name: sys.modules.pop(name) for name in [*sys.modules] if name.split(".")[0] in OURS}
    for variable in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(situation, "_device_files", lambda: False)
    monkeypatch.setattr(situation, "find_cann", lambda: find_cann(places=[str(tmp_path / "cann")]))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield tmp_path
    for name in [*sys.modules]:
        if name.split(".")[0] in OURS:
            del sys.modules[name]
    sys.modules.update(loaded)


def put(folder: Path, name: str, version: str, source: str) -> None:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(source)
    (folder / f"{name}-{version}.dist-info").mkdir()
    (folder / f"{name}-{version}.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    importlib.invalidate_caches()


def put_cann(folder: Path, version: str = "8.5.0") -> Path:
    home = folder / "cann"
    (home / "aarch64-linux").mkdir(parents=True)
    (home / "aarch64-linux" / "ascend_toolkit_install.info").write_text(
        f"package_name=Ascend-cann-toolkit\nversion={version}\ninnerversion=V100R001C25B001\narch=aarch64\n"
    )
    return home


def test_nothing_is_no_fault(bare):
    found = detect()
    assert (found.kind, found.fault, found.problem, found.torch_npu, found.cann) == ("none", None, None, None, None)
    assert found.torch == torch.__version__


def test_a_card_without_torch_npu(bare, monkeypatch):
    monkeypatch.setattr(situation, "_device_files", lambda: True)
    assert detect().fault == "torch-npu-missing"
    assert "Install the torch_npu of your torch" in detect().problem


def test_no_cann(bare):
    put(bare, "torch_npu", RELEASE, NO_LIBRARY)
    found = detect()
    assert (found.kind, found.fault) == ("none", "cann-missing")
    assert found.detail == "libhccl.so: cannot open shared object file"
    for word in (RELEASE, "Install CANN", "pip uninstall torch_npu", "libhccl.so"):
        assert word in found.problem


def test_cann_not_sourced(bare):
    put(bare, "torch_npu", RELEASE, NO_LIBRARY)
    home = put_cann(bare)
    found = detect()
    assert (found.fault, found.cann, found.cann_home) == ("cann-not-sourced", "8.5.0", str(home))
    assert f"source {home}/set_env.sh" in found.problem


def test_a_torch_npu_of_another_cann(bare, monkeypatch):
    put(bare, "torch_npu", RELEASE, "raise OSError('undefined symbol: aclrtFoo')")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(put_cann(bare)))
    found = detect()
    assert found.fault == "torch-npu-broken"
    assert "cannot be imported with CANN 8.5.0: undefined symbol: aclrtFoo" in found.problem


@pytest.mark.parametrize("other", ["2.1.0", "1.11.0.post3", f"{RELEASE}1"])
def test_versions_that_are_no_pair(bare, other):
    put(bare, "torch_npu", other, CARD.format("Ascend910B3"))
    found = detect()
    assert (found.kind, found.fault) == ("none", "not-a-pair")
    assert f"torch {torch.__version__} and torch_npu {other} are no pair" in found.problem
    assert f"Install torch_npu {RELEASE}" in found.problem
    assert "torch_npu" not in sys.modules


@pytest.mark.parametrize("chip", ["Ascend910B1", "Ascend910B4-1", "Ascend910_9392"])
def test_a_ready_910b(bare, chip, monkeypatch):
    put(bare, "torch_npu", f"{RELEASE}.post2", CARD.format(chip))
    monkeypatch.setenv("ASCEND_TOOLKIT_HOME", str(put_cann(bare, "9.1.0")))
    found = detect()
    assert (found.kind, found.soc, found.problem) == ("910B", chip, None)
    assert (found.torch_npu, found.cann, found.cann_ops_transformer) == (f"{RELEASE}.post2", "9.1.0", None)


@pytest.mark.parametrize(
    ("card", "words"),
    [
        ("class npu:\n    is_available = lambda: False", "is_available() is False"),
        ("class npu:\n    def is_available(): raise RuntimeError('drvGetDevNum failed')", "drvGetDevNum failed"),
    ],
)
def test_no_device(bare, card, words):
    put(bare, "torch_npu", RELEASE, card)
    found = detect()
    assert (found.kind, found.fault) == ("none", "no-device")
    assert words in found.problem
    assert "npu-smi info" in found.problem


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend910B", "Ascend310P3"])
def test_a_chip_without_the_operator(bare, chip):
    put(bare, "torch_npu", RELEASE, CARD.format(chip))
    found = detect()
    assert (found.kind, found.fault, found.soc) == ("none", "soc-unsupported", chip)
    assert found.problem.startswith(f"{chip} has no FlashAttention operator")


@pytest.mark.parametrize(
    ("source", "kind", "fault", "words"),
    [
        (None, "none", "ops-transformer-missing", "bash build.sh --torch_extension --soc=ascend950"),
        (NO_LIBRARY, "none", "ops-transformer-broken", "rm -rf ~/.cache/torch_extensions"),
        ("def flash_attn(): ...", "none", "ops-transformer-too-old", "has no flash_attn_metadata, flash_attn_grad"),
        (THREE, "950", None, None),
    ],
    ids=["missing", "broken", "old", "ready"],
)
def test_a_950_needs_its_package(bare, source, kind, fault, words):
    put(bare, "torch_npu", RELEASE, CARD.format("Ascend950PR_9599"))
    if source is not None:
        put(bare, "cann_ops_transformer", "1.0.0", source)
    found = detect()
    assert (found.kind, found.fault, found.soc) == (kind, fault, "Ascend950PR_9599")
    assert found.cann_ops_transformer == (None if source is None else "1.0.0")
    assert found.problem is None if words is None else words in found.problem


@pytest.mark.parametrize(
    ("file", "text", "version"),
    [
        ("version.cfg", "# version: 1.0\nruntime_running_version=[7.3.0.1.231:8.0.RC3]\n", "8.0.RC3"),
        ("version.cfg", "toolkit_running_version=[8.3.RC1:8.3.RC1]\n", "8.3.RC1"),
        ("x86_64-linux/ascend_toolkit_install.info", "package_name=Ascend-cann-toolkit\nversion=8.5.0\n", "8.5.0"),
        ("version.info", "Version=9.1.0\n", "9.1.0"),
        ("compiler/version.info", "Version=8.2.RC1\nversion_dir=8.2\n", "8.2.RC1"),
        ("README", "version=1\n", None),
    ],
)
def test_where_cann_says_its_version(tmp_path, file, text, version):
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    found = find_cann({"ASCEND_HOME_PATH": str(tmp_path)}, [])
    assert (found.home, found.version, found.sourced) == (str(tmp_path), version, True)


def test_the_environment_comes_before_the_usual_places(tmp_path):
    named, usual = tmp_path / "named", tmp_path / "usual"
    usual.mkdir()
    assert find_cann({"ASCEND_HOME_PATH": str(named)}, [str(named), str(usual)]).home == str(usual)
    named.mkdir()
    assert find_cann({"ASCEND_TOOLKIT_HOME": str(named)}, [str(usual)]).home == str(named)
    assert find_cann({}, [str(tmp_path / "nowhere")]) is None
    assert not find_cann({}, [str(usual)]).sourced


@pytest.mark.parametrize(
    ("one", "other", "match"),
    [
        ("2.9.0+cpu", "2.9.0", True), ("2.9.0", "2.9.0.post2", True), ("2.9.0a0+git12", "2.9.0.post2+gitabc", True),
        ("2.9.0", "2.9.1", False), ("2.9.0", "2.10.0", False), ("2.9.0", "2.9", False), ("2.9.0", None, False),
    ],
)  # fmt: skip
def test_pairs(one, other, match):
    assert versions_match(one, other) is match


def test_kinds():
    for name, kind in {
        "Ascend950DT_95A2": "950", "Ascend910B2C": "910B", "Ascend910_9362": "910B", "Ascend910B": None,
        "Ascend910ProB": None, "Ascend910PremiumA": None, "Ascend310B1": None, "": None,
    }.items():  # fmt: skip
        assert kind_of(name) == kind, name


def test_every_sentence_says_what_to_do():
    for code, sentence in FAULTS.items():
        assert re.search(r"Install|pip|source |Check|Build|bash|Use the CPU", sentence), code


def test_looking_installs_no_device():
    code = (
        "import sys, torch; from kernels.machine import detect; found = detect();"
        "assert found.kind == 'none', found;"
        "assert 'kernels.ascend' not in sys.modules; assert not hasattr(torch, 'npu')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(machine.__file__).parents[2])


def test_a_torch_npu_that_works_is_left_alone_and_served_by_the_facade(bare):
    put(bare, "torch_npu", RELEASE, CARD.format("Ascend910B3"))
    code = (
        "import sys, torch, kernels.ascend, torch_npu;"
        "from kernels.machine import detect; from kernels.ascend import facade;"
        "assert not kernels.ascend.is_emulated() and not hasattr(torch, 'npu') and torch_npu.__file__;"
        "assert sys.modules['cann_ops_transformer'].__emulated__ and detect().kind == '910B', detect();"
        "from ops_transformer import FlashAttention; x = torch.zeros(1, 2, 64);"
        "assert FlashAttention is facade.FlashAttention and FlashAttention(64, 1)(x).shape == x.shape"
    )
    root = str(Path(machine.__file__).parents[2])
    environment = {"PATH": "", "PYTHONPATH": f"{root}:{bare}", "HOME": str(bare)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_the_emulated_device_is_found_as_such():
    code = (
        "import kernels.ascend; from kernels.machine import detect; found = detect();"
        "assert found.kind == 'emulated' and found.problem is None, found;"
        "assert found.soc == 'Ascend910B3 (emulated)' and 'emulated' in found.torch_npu, found;"
        "from kernels.ascend.device.soc import use_soc; use_soc('950');"
        "assert detect().soc.startswith('Ascend950'), detect()"
    )
    environment = {"FLASHDOJO_SOC": "Ascend910B3", "PATH": "", "PYTHONPATH": str(Path(machine.__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
