"""``profile real`` (or ``profile --real``): record a program on this machine's NPU with the vendor's own tools."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from grader.commands.base import command, note, short, stop, tell
from grader.exit_codes import PASSED
from grader.profiling import real as recorder
from grader.text import listed, say

PLAIN_PATH = re.compile(r"[\w./-]+", re.ASCII)  # what torch_npu.profiler takes for a folder


def real(script: Path, arguments: Sequence[str], tool: str, out: Path | None) -> int:
    if tool not in recorder.TOOLS:
        stop(say("--tool 只能是 {it}", "--tool takes {it}", it=listed(recorder.TOOLS)))
    if script.suffix != ".py":
        stop(say("--real 采集 .py 程序：{name}", "--real records a .py program, not {name}", name=short(script)))
    if not script.is_file():
        stop(say("没有这个程序：{name}", "no such program: {name}", name=short(script)))
    in_the_way = recorder.obstacle(tool)
    if in_the_way is not None:
        stop(
            say(
                "无法采集：{why}没有 NPU 时，用模型生成同样格式的 profile：{instead}",
                "nothing was recorded: {why} Without an NPU the model makes a profile of the same format: {instead}",
                why=in_the_way,
                instead=command("profile", "write", "--soc", "950PR"),
            )
        )
    out = _folder(out or Path("profiles") / f"{script.stem}-{time.strftime('%Y%m%d-%H%M%S')}")
    recording = recorder.recording(tool, script, arguments, out)
    _say_how(recording)
    code = _run(recording.command)
    made = recording.results()
    if not made:
        stop(
            say(
                "{tool} 没有留下 profile（退出码 {code}），输出见上。",
                "{tool} left no profile (exit code {code}); what it said is above.",
                tool=recording.command[0] if tool == "msprof" else "torch_npu.profiler",
                code=code,
            )
        )
    if code:
        note(
            say(
                "程序以退出码 {code} 结束，profile 可能不完整。",
                "the program ended with exit code {code}; the profile may be incomplete.",
                code=code,
            )
        )
    for folder in made:
        if tool == "msprof" and not recorder.is_exported(folder):
            _run(recorder.export(folder))
        _say_what(folder)
    return PASSED


def _folder(out: Path) -> Path:
    """The folder of a recording: new or empty, and of letters that torch_npu.profiler takes."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        stop(say("{out} 已有内容，请换一个目录。", "{out} is not empty; choose another folder.", out=short(out)))
    path = out.resolve()
    if not PLAIN_PATH.fullmatch(str(path)):
        stop(
            say(
                "采集工具只接受字母、数字、下划线和连字符组成的路径，{out} 不行。请用 --out 指定别处。",
                "the recorders take paths of letters, digits, _ and - only, not {out}. Name another with --out.",
                out=path,
            )
        )
    path.mkdir(parents=True, exist_ok=True)
    return path


def _run(words: Sequence[str]) -> int:
    """Show the command as it would be typed, then run it with its output where ours goes."""
    tell(f"$ {shlex.join(words)}")
    sys.stdout.flush()
    return subprocess.run(words, check=False).returncode


def _say_how(recording: recorder.Recording) -> None:
    if recording.tool == "torch":
        tell(
            say(
                "用 torch_npu.profiler 采集整个程序（Level1，PipeUtilization），设置写在 {file}：",
                "torch_npu.profiler records the whole program (Level1, PipeUtilization); the settings are in {file}:",
                file=short(recorder.DRIVER),
            )
        )
    else:
        tell(say("用 msprof 采集整个程序：", "msprof records the whole program:"))
    tell(
        say(
            "（同时想看负载，在另一个终端运行 npu-smi info watch，或 npu-smi info -t usages -i 0。"
            "npu-smi 只看卡的状态，不采集算子，也不生成报告。）",
            "(To watch the load meanwhile: npu-smi info watch in another terminal, or npu-smi info -t usages -i 0. "
            "npu-smi shows the state of a card; it records no kernels and writes no report.)",
        )
    )


def _say_what(folder: Path) -> None:
    from grader.profiling.reading import read_profile

    profile = read_profile(folder)
    kernels = profile.kernels
    total = sum(kernel.duration_us or 0.0 for kernel in kernels)
    tell(
        say(
            "{folder}：{n} 个算子，共 {total:.1f} us",
            "{folder}: {n} kernels, {total:.1f} us in all",
            folder=short(folder),
            n=len(kernels),
            total=total,
        )
    )
    tell(say("网页：{it}", "as a page: {it}", it=command("profile", "open", folder)))
    advisor = shlex.join(["msprof-analyze", "advisor", "all", "-d", str(folder), "-o", str(folder.parent)])
    tell(say("厂商的分析：{it}", "the vendor's analysis: {it}", it=advisor))
