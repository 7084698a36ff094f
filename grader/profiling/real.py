"""Recording a program on a real NPU: the vendor's own tools, called as they are documented, and what they leave."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grader import npu
from grader.text import Text, say

TOOLS = ("torch", "msprof")
DRIVER = Path(__file__).with_name("record_torch.py")
# What keeps the course's operators from running and no tool from recording.
HARMLESS = ("soc-unsupported", "ops-transformer-missing", "ops-transformer-broken", "ops-transformer-too-old")
HARMLESS_TO = {"torch": HARMLESS, "msprof": (*HARMLESS, "torch-npu-missing", "not-a-pair")}


@dataclass(frozen=True)
class Recording:
    """``command`` records the program into ``out``; ``made`` is the folder's name as the tool chooses it."""

    tool: str
    command: Sequence[str]
    out: Path
    made: str

    def results(self) -> list[Path]:
        """The profile folders below ``out``, oldest first."""
        return sorted((path for path in self.out.glob(self.made) if path.is_dir()), key=lambda path: path.name)


def recording(tool: str, script: Path, arguments: Sequence[str], out: Path) -> Recording:
    """How ``tool`` records ``script``. msprof records pipe utilisation of AI Core by default."""
    program = [str(script), *arguments]
    if tool == "torch":
        return Recording(tool, [sys.executable, str(DRIVER), str(out), *program], out, "*_ascend_pt")
    options = [f"--output={out}", "--ascendcl=on", "--task-time=on", "--ai-core=on"]
    return Recording(tool, ["msprof", *options, sys.executable, *program], out, "PROF_*")


def export(folder: Path) -> list[str]:
    """The command that turns what msprof recorded into tables, for where it did not do so by itself."""
    return ["msprof", "--export=on", f"--output={folder}"]


def is_exported(folder: Path) -> bool:
    return any(folder.glob("mindstudio_profiler_output/op_summary_*.csv"))


def obstacle(tool: str) -> Text | None:
    """What is in the way of recording here, None if nothing is."""
    nothing = say("这台机器上没有昇腾 NPU。", "there is no Ascend NPU on this machine.")
    if os.environ.get("FLASHDOJO_NPU") == "emulated":
        return say(
            "这里的 NPU 是模拟的（FLASHDOJO_NPU=emulated），没有可采集的硬件。",
            "the NPU here is emulated (FLASHDOJO_NPU=emulated): there is no hardware to record.",
        )
    if not _card_here() and importlib.util.find_spec("torch_npu") is None:
        return nothing
    found = npu.look()
    if found is None:
        return say("没有可用的 PyTorch。", "there is no PyTorch that works.")
    if not found["is_real"] and found["fault"] not in HARMLESS_TO[tool]:
        return npu.problem_of(found) or nothing
    if tool == "msprof" and shutil.which("msprof") is None:
        return say(
            "PATH 里没有 msprof：它随 CANN Toolkit 安装，先 source CANN 的 set_env.sh，或用 --tool torch。",
            "msprof is not on PATH: it comes with the CANN Toolkit. source its set_env.sh first, or use --tool torch.",
        )
    return None


def _card_here() -> bool:
    return any(Path("/dev").glob("davinci[0-9]*"))
