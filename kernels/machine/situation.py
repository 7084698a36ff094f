"""Which NPU a process can use, and what is in the way if it cannot: nothing is installed, imported at most."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernels.machine.cann import find_cann

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
        "Install CANN and source its set_env.sh; on a machine without an NPU: pip uninstall torch_npu ({detail})"
    ),
    "cann-not-sourced": (
        "torch_npu {torch_npu} is installed but cannot be imported: the environment of CANN is not set. "
        "source {cann_home}/set_env.sh, or the one beside it, before starting Python ({detail})"
    ),
    "torch-npu-broken": (
        "torch_npu {torch_npu} is installed but cannot be imported with CANN {cann}: {detail}. "
        "Install the torch_npu that goes with this CANN (docs/en/npu.md has the table)"
    ),
    "no-device": (
        "torch_npu {torch_npu} sees no NPU: {detail}. "
        "Check the driver and your rights on /dev/davinci* with npu-smi info"
    ),
    "soc-unsupported": (
        "{soc} has no FlashAttention operator: flash_attn runs on Ascend950, npu_fusion_attention on Ascend910B1 to B4 "
        "and Ascend910_93. Use the CPU or the emulated device"
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
    def problem(self) -> str | None:
        """The fault as a sentence, with what to do; None when nothing is in the way."""
        return None if self.fault is None else FAULTS[self.fault].format(**self.facts())

    def facts(self) -> dict[str, Any]:
        """What the sentences of FAULTS are filled with, in any language."""
        return vars(self) | {"release": release(self.torch), "cann": self.cann or "?"}


def detect() -> Situation:
    """Look at this process and machine. A torch_npu that is installed is imported."""
    loaded = sys.modules.get("torch_npu")
    if loaded is not None and getattr(loaded, "__emulated__", False):
        ops = getattr(sys.modules.get("cann_ops_transformer"), "__version__", None)
        return Situation("emulated", torch.__version__, soc=_device_name(loaded), torch_npu=loaded.__version__,
                         cann_ops_transformer=ops)  # fmt: skip
    cann, torch_npu_version = find_cann(), _installed("torch_npu")
    found = {
        "torch": torch.__version__,
        "torch_npu": torch_npu_version,
        "cann": cann and cann.version,
        "cann_home": cann and cann.home,
        "cann_ops_transformer": _installed("cann_ops_transformer"),
    }

    def none(fault: str | None = None, detail: object = "", soc: str | None = None) -> Situation:
        first_line = str(detail).strip().partition("\n")[0]
        return Situation("none", soc=soc, fault=fault, detail=first_line, **found)  # type: ignore[arg-type]

    if torch_npu_version is None:
        return none("torch-npu-missing" if _device_files() else None)
    if not versions_match(torch.__version__, torch_npu_version):
        return none("not-a-pair")
    try:
        torch_npu = importlib.import_module("torch_npu")
    except Exception as error:  # whatever a half-installed package raises
        if cann is None:
            return none("cann-missing", error)
        return none("torch-npu-broken" if cann.sourced else "cann-not-sourced", error)
    try:
        if not torch_npu.npu.is_available():
            return none("no-device", "torch.npu.is_available() is False")
        soc = _device_name(torch_npu)
    except Exception as error:
        return none("no-device", error)
    kind = kind_of(soc)
    if kind is None:
        return none("soc-unsupported", soc=soc)
    if kind == "950":
        if found["cann_ops_transformer"] is None:
            return none("ops-transformer-missing", soc=soc)
        try:
            ops = importlib.import_module("cann_ops_transformer")
        except Exception as error:
            return none("ops-transformer-broken", error, soc)
        absent = [name for name in OPERATORS if not hasattr(ops, name)]
        if absent:
            return none("ops-transformer-too-old", ", ".join(absent), soc)
    return Situation(kind, soc=soc, **found)  # type: ignore[arg-type]


def kind_of(soc: str) -> str | None:
    """Which operator a chip has: "950", "910B", or None. Ascend910B without a digit is of the first generation."""
    if soc.startswith("Ascend950"):
        return "950"
    return "910B" if re.match(r"Ascend910(B[1-4]|_93)", soc) else None


def release(version: str) -> str:
    """2.9.0 of 2.9.0.post2+git1234: torch and torch_npu of one release belong together."""
    found = re.match(r"\d+(\.\d+)*", version)
    return found[0] if found else version


def versions_match(torch_version: str, torch_npu_version: str | None) -> bool:
    """Whether the two are of one release; local versions (+cpu) and .post do not matter."""
    return torch_npu_version is not None and release(torch_version) == release(torch_npu_version)


def _installed(package: str) -> str | None:
    """Its version, "?" when it is there without metadata, None when it is not there."""
    if package not in sys.modules and importlib.util.find_spec(package) is None:
        return None
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return getattr(sys.modules.get(package), "__version__", "?")


def _device_name(torch_npu: ModuleType) -> str:
    return str(torch_npu.npu.get_device_name(0))


def _device_files() -> bool:
    return any(Path("/dev").glob("davinci[0-9]*"))
