"""Which NPU a process can use, and what is in the way if it cannot: nothing is installed, imported at most."""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernels.machine.cann import find_cann
from kernels.machine.chips import RUNS_ON, kind_of
from kernels.machine.packages import emulated, version_of

EMULATE = "set FLASHDOJO_NPU=emulated to emulate one all the same"

FAULTS = {  # code -> what is wrong and what to do; the fields of a situation go in
    "torch-npu-missing": (
        "there is an NPU (/dev/davinci*), but torch_npu is not installed. "
        "Install the torch_npu of your torch {torch} and your CANN (docs/en/npu.md has the table)"
    ),
    "not-a-pair": (
        "torch {torch} and torch_npu {torch_npu} are no pair: both must be of one release. "
        "Install torch_npu {release} (or a .post of it), or the torch that torch_npu {torch_npu} is made for"
    ),
    "cann-missing": (
        "torch_npu {torch_npu} is installed but cannot be imported, and no CANN is found. "
        "Install CANN and source its set_env.sh; on a machine without an NPU: pip uninstall torch_npu, "
        f"or {EMULATE} ({{detail}})"
    ),
    "cann-not-sourced": (
        "torch_npu {torch_npu} is installed but cannot be imported: the environment of CANN is not set. "
        f"source {{cann_home}}/set_env.sh, or the one beside it, before starting Python; or {EMULATE} ({{detail}})"
    ),
    "torch-npu-broken": (
        "torch_npu {torch_npu} is installed but cannot be imported with CANN {cann}: {detail}. "
        f"Install the torch_npu that goes with this CANN (docs/en/npu.md has the table), or {EMULATE}"
    ),
    "no-device": (
        "torch_npu {torch_npu} sees no NPU: {detail}. "
        "Check the driver and your rights on /dev/davinci* with npu-smi info"
    ),
    "soc-unsupported": (
        f"{{soc}} has no FlashAttention operator: flash_attn runs on {RUNS_ON['flash_attn']}, npu_fusion_attention on "
        f"{RUNS_ON['npu_fusion_attention']}. "
        "Use the CPU, or emulate another chip: FLASHDOJO_NPU=emulated FLASHDOJO_SOC=950"
    ),
    "ops-transformer-missing": (
        "{soc} needs cann_ops_transformer for flash_attn, and it is not installed. In ops-transformer: "
        "bash build.sh --torch_extension --soc=ascend950, then pip install build_out/*.whl --force-reinstall --no-deps"
    ),
    "ops-transformer-broken": (
        "cann_ops_transformer {cann_ops_transformer} is installed but cannot be imported: {detail}. "
        "Build it again with this torch and this CANN, after rm -rf ~/.cache/torch_extensions/*"
    ),
    "ops-transformer-too-old": (
        "cann_ops_transformer {cann_ops_transformer} has no {detail}. Build it again from the newest ops-transformer"
    ),
}
OPERATORS = ("flash_attn_metadata", "flash_attn", "flash_attn_grad")
REAL = ("950", "910B")


@dataclass(frozen=True)
class Situation:
    """``kind``: 950 and 910B (a real NPU that is ready; 910B stands for A3, Ascend910_93, too), emulated, or none.

    ``fault`` is a key of FAULTS, or None; with a fault ``kind`` is none. Versions are None for what is not there.
    """

    kind: str
    torch: str
    soc: str | None = None
    torch_npu: str | None = None
    cann: str | None = None
    cann_home: str | None = None
    cann_ops_transformer: str | None = None
    fault: str | None = None
    detail: str = ""

    @property
    def is_real(self) -> bool:
        """Whether there is a real NPU, ready to compute."""
        return self.kind in REAL

    @property
    def problem(self) -> str | None:
        """The fault as a sentence, with what to do; None when nothing is in the way."""
        return None if self.fault is None else FAULTS[self.fault].format(**self.facts())

    def facts(self) -> dict[str, Any]:
        """What the sentences of FAULTS are filled with, in any language."""
        return vars(self) | {"release": release(self.torch), "cann": self.cann or "?"}

    def report(self) -> dict[str, Any]:
        """All there is to say, as JSON takes it: for a process that cannot import torch itself."""
        return self.facts() | {"is_real": self.is_real, "problem": self.problem}


class NpuError(RuntimeError):
    """The NPU of this machine cannot be used; ``situation`` says why, and the text what to do."""

    def __init__(self, situation: Situation):
        super().__init__(situation.problem)
        self.situation = situation


def detect() -> Situation:
    """Look at this process and machine. A torch_npu that is installed is imported."""
    if emulated():
        loaded = sys.modules["torch_npu"]
        return Situation("emulated", torch.__version__, soc=_device_name(loaded), torch_npu=version_of("torch_npu"),
                         cann_ops_transformer=version_of("cann_ops_transformer"))  # fmt: skip
    torch_npu_version = version_of("torch_npu")
    if torch_npu_version is None:
        return _none("torch-npu-missing" if _device_files() else None)
    if not versions_match(torch.__version__, torch_npu_version):
        return _none("not-a-pair")
    try:
        torch_npu = importlib.import_module("torch_npu")
    except Exception as error:  # whatever a half-installed package raises
        return unimportable(error)
    try:
        if not torch_npu.npu.is_available():
            return _none("no-device", "torch.npu.is_available() is False")
        soc = _device_name(torch_npu)
    except Exception as error:
        return _none("no-device", error)
    kind = kind_of(soc)
    if kind is None:
        return _none("soc-unsupported", soc=soc)
    if kind == "950":
        if version_of("cann_ops_transformer") is None:
            return _none("ops-transformer-missing", soc=soc)
        try:
            ops = importlib.import_module("cann_ops_transformer")
        except Exception as error:
            return broken_operators(error, soc)
        absent = [name for name in OPERATORS if not hasattr(ops, name)]
        if absent:
            return _none("ops-transformer-too-old", ", ".join(absent), soc)
    return Situation(kind, soc=soc, **_versions())


def unimportable(error: object) -> Situation:
    """The situation in which importing torch_npu ended with this error, whatever it did."""
    cann = find_cann()
    if cann is None:
        return _none("cann-missing", error)
    return _none("torch-npu-broken" if cann.sourced else "cann-not-sourced", error)


def broken_operators(error: object, soc: str | None = None) -> Situation:
    """The situation in which importing cann_ops_transformer ended with this error."""
    return _none("ops-transformer-broken", error, soc)


def _none(fault: str | None = None, detail: object = "", soc: str | None = None) -> Situation:
    first_line = str(detail).strip().partition("\n")[0]
    return Situation("none", soc=soc, fault=fault, detail=first_line, **_versions())


def _versions() -> dict[str, Any]:
    cann = find_cann()
    return {
        "torch": torch.__version__,
        "torch_npu": version_of("torch_npu"),
        "cann": cann and cann.version,
        "cann_home": cann and cann.home,
        "cann_ops_transformer": version_of("cann_ops_transformer"),
    }


def release(version: str) -> str:
    """2.9.0 of 2.9.0.post2+git1234: torch and torch_npu of one release belong together."""
    found = re.match(r"\d+(\.\d+)*", version)
    return found[0] if found else version


def versions_match(torch_version: str, torch_npu_version: str | None) -> bool:
    """Whether the two are of one release; local versions (+cpu) and .post do not matter."""
    return torch_npu_version is not None and release(torch_version) == release(torch_npu_version)


def _device_name(torch_npu: ModuleType) -> str:
    return str(torch_npu.npu.get_device_name(0))


def _device_files() -> bool:
    return any(Path("/dev").glob("davinci[0-9]*"))
