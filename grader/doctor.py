"""What this machine can do for the course, and the fix for each thing it cannot. Looks, changes nothing."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path

from grader import npu, paths
from grader.findings import Finding
from grader.sandbox_report import sandbox
from grader.text import Text, listed, say

NEEDED_SPACE = 1 << 30  # bytes: notebooks, scratch folders, the package cache of a repair


def examine() -> list[Finding]:
    """All findings. A probe that itself breaks is a problem of its own, never the end of the examination."""
    found: list[Finding] = []
    for probe in (_python, _torch, _npu, _layout, _clash, _jupyter, _fonts, _disk, sandbox):
        found += _guarded(probe)
    return found


def _guarded(probe: Callable[[], Iterable[Finding]]) -> list[Finding]:
    name = Text(*[probe.__name__.strip("_")] * 2)
    try:
        return list(probe())
    except Exception as error:
        fix = say("请把这一行报告给课程作者。", "Please report this line to the authors of the course.")
        return [Finding("problem", name, Text(*[f"{type(error).__name__}: {error}"] * 2), fix)]


def _python() -> Iterable[Finding]:
    version = sys.version.split()[0]
    found = Text(*[f"{version}  {sys.executable}"] * 2)
    fix = say(
        "需要 Python 3.11 或更新：用 FLASHDOJO_PYTHON 指定一个，删除 .venv 后再运行 ./dojo。",
        "Python 3.11 or newer is needed: name one with FLASHDOJO_PYTHON, remove .venv and run ./dojo again.",
    )
    new_enough = sys.version_info >= (3, 11)
    yield Finding("ok" if new_enough else "fatal", Text("Python", "Python"), found, None if new_enough else fix)


def _torch() -> Iterable[Finding]:
    name = Text("PyTorch", "PyTorch")
    try:
        import torch
    except ImportError as error:
        yield Finding(
            "fatal",
            name,
            Text(*[str(error).splitlines()[0]] * 2),
            say("再运行一次 ./dojo，它会补装缺少的包。", "Run ./dojo again; it installs what is missing."),
        )
        return
    except RuntimeError as error:  # a backend such as torch_npu that cannot load takes torch down with it
        found = npu.look()
        fix = npu.problem_of(found) if found is not None else None
        if fix is None:
            fix = say(
                "设 TORCH_DEVICE_BACKEND_AUTOLOAD=0 可以不载入别的设备。",
                "TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps torch from loading other devices.",
            )
        yield Finding("fatal", name, Text(*[str(error).splitlines()[0]] * 2), fix)
        return
    yield Finding(
        "ok",
        name,
        say(
            "{version}，{threads} 线程",
            "{version}, {threads} threads",
            version=torch.__version__,
            threads=torch.get_num_threads(),
        ),
    )


def _npu() -> Iterable[Finding]:
    name = Text("NPU", "NPU")
    found = npu.look()
    if found is None:
        yield Finding("note", name, say("没有 PyTorch，无法检查", "cannot be examined without PyTorch"))
        return
    problem, versions = npu.problem_of(found), f"torch {found['torch']}, torch_npu {found['torch_npu']}"
    if problem is not None:
        yield Finding("problem", name, say("用不了", "cannot be used"), problem)
    elif found["kind"] == "emulated":
        soc = found["soc"].removesuffix(" (emulated)")
        text = say(
            "模拟设备 {soc}；环境变量 FLASHDOJO_SOC 可以换一个",
            "emulated, {soc}; the variable FLASHDOJO_SOC chooses another",
            soc=soc,
        )
        yield Finding("ok", name, text)
    elif found["kind"] == "none":
        yield Finding(
            "note",
            name,
            say(
                "没有。课程不需要：阶段 1、2 在 CPU 上运行，从阶段 3 起有模拟设备",
                "none. None is needed: stages 1 and 2 run on the CPU, from stage 3 on there is the emulated device",
            ),
        )
    else:
        yield Finding("ok", name, Text(*[f"{found['soc']}  {versions}"] * 2))
        if found["kind"] == "950":
            yield Finding("ok", Text(*["cann_ops_transformer"] * 2), Text(*[found["cann_ops_transformer"]] * 2))
    if found["cann_home"]:
        yield Finding("ok", Text("CANN", "CANN"), Text(*[f"{found['cann']}  {found['cann_home']}"] * 2))
    else:
        yield Finding(
            "note", Text("CANN", "CANN"), say("没有安装（真实 NPU 才需要）", "not installed (only a real NPU needs it)")
        )
    if not found["is_real"]:
        for chips, text in npu.what_to_install().items():
            yield Finding("note", Text(chips, chips), text)


def _layout() -> Iterable[Finding]:
    name = say("仓库", "repository")
    missing = [part for part in ("stages", "solutions", "kernels", "notebooks") if not (paths.ROOT / part).is_dir()]
    if not missing:
        yield Finding("ok", name, Text(*[str(paths.ROOT)] * 2))
        return
    yield Finding(
        "fatal",
        name,
        say(
            "{root} 里缺少 {parts}：运行的是装进 site-packages 的副本",
            "{root} has no {parts}: this is a copy in site-packages",
            root=paths.ROOT,
            parts=listed(missing),
        ),
        say("请在克隆的仓库里用 ./dojo 运行。", "Run ./dojo inside a clone of the repository."),
    )


def _clash() -> Iterable[Finding]:
    name = say("包名 kernels", "package name kernels")
    others = {d for d in metadata.packages_distributions().get("kernels", ()) if d.lower() != "flashdojo"}
    spec = importlib.util.find_spec("kernels")
    origin = Path(spec.origin).parent if spec and spec.origin else None
    if origin is not None and origin != paths.ROOT / "kernels":
        yield Finding(
            "problem",
            name,
            say("import kernels 得到的是 {path}", "import kernels finds {path}", path=origin),
            say(
                "用 ./dojo 运行，或卸载同名的包：pip uninstall {names}。",
                "Run ./dojo, or remove the other one: pip uninstall {names}.",
                names=" ".join(sorted(others)) or "kernels",
            ),
        )
    elif others:
        yield Finding(
            "note",
            name,
            say(
                "还装有同名的发行包 {names}，这里用的是我们的",
                "another distribution, {names}, has it too; ours comes first here",
                names=listed(sorted(others)),
            ),
        )
    else:
        yield Finding("ok", name, say("没有冲突", "no clash"))


def _jupyter() -> Iterable[Finding]:
    name = Text("Jupyter", "Jupyter")
    found = importlib.util.find_spec("jupyterlab") and importlib.util.find_spec("ipykernel")
    if found:
        yield Finding("ok", name, Text(*[f"jupyterlab {metadata.version('jupyterlab')}"] * 2))
    else:
        yield Finding(
            "problem",
            name,
            say(
                "没有 jupyterlab 或 ipykernel，打不开笔记本",
                "no jupyterlab or no ipykernel: notebooks cannot be opened",
            ),
            say("再运行一次 ./dojo，它会补装。", "Run ./dojo again; it installs them."),
        )


def _fonts() -> Iterable[Finding]:
    name = say("中文字体", "Chinese font")
    if importlib.util.find_spec("matplotlib") is None:
        yield Finding(
            "problem",
            name,
            say("没有 matplotlib", "no matplotlib"),
            say("再运行一次 ./dojo，它会补装。", "Run ./dojo again; it installs it."),
        )
        return
    from matplotlib import font_manager

    from grader.course.figures import CHINESE_FONTS

    known = set(font_manager.get_font_names())
    chinese = next((font for font in CHINESE_FONTS if font in known), None)
    if chinese:
        yield Finding("ok", name, Text(chinese, chinese))
        return
    yield Finding(
        "note",
        name,
        say("没有：图中的文字用英文", "none: pictures are labelled in English"),
        say(
            "apt-get install fonts-wqy-microhei，然后删除 ~/.cache/matplotlib。",
            "apt-get install fonts-wqy-microhei, then remove ~/.cache/matplotlib.",
        ),
    )


def _disk() -> Iterable[Finding]:
    import tempfile

    name = say("磁盘", "disk")
    for folder in dict.fromkeys((str(paths.ROOT), tempfile.gettempdir())):
        free = shutil.disk_usage(folder).free
        text = say(
            "{folder} 剩余 {free:.1f} GB", "{free:.1f} GB free in {folder}", folder=folder, free=free / (1 << 30)
        )
        if free < NEEDED_SPACE:
            yield Finding("problem", name, text, say("请腾出至少 1 GB。", "Free at least 1 GB."))
        else:
            yield Finding("ok", name, text)
