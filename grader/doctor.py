"""What this machine can do for the course, and the fix for each thing it cannot. Looks, changes nothing."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from grader import isolation, npu, paths
from grader.text import Text, listed, say

NEEDED_SPACE = 1 << 30  # bytes: notebooks, scratch folders, the package cache of a repair


@dataclass(frozen=True)
class Finding:
    """``level``: ok, note (something is not there and need not be), problem, or fatal (the course cannot run)."""

    level: str
    subject: Text
    found: Text
    fix: Text | None = None


def examine() -> list[Finding]:
    """All findings. A probe that itself breaks is a problem of its own, never the end of the examination."""
    found: list[Finding] = []
    for probe in (_python, _torch, _npu, _layout, _clash, _jupyter, _fonts, _disk, _sandbox):
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
        yield Finding(
            "fatal",
            name,
            Text(*[str(error).splitlines()[0]] * 2),
            say(
                "torch_npu 载入失败：先 source CANN 的 set_env.sh；没有 NPU 就卸载它：pip uninstall torch_npu。",
                "torch_npu cannot load: source CANN's set_env.sh first, or, without an NPU, pip uninstall torch_npu.",
            ),
        )
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
    if found["kind"] not in ("950", "910B"):
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


LAYERS = {
    "process": (say("独立进程", "own process"), say("环境变量与描述符已清理", "environment and descriptors cleaned")),
    "limits": (
        say("资源上限", "limits"),
        say("内存、CPU、文件大小、打开数", "memory, CPU time, file size, open files"),
    ),
    "user": (say("低权限用户", "unprivileged user"), say("每个进程一个用户", "each process has its own")),
    "namespaces": (
        say("命名空间", "namespaces"),
        say("看不到网络、别的进程与文件", "no network, other processes or files in sight"),
    ),
    "landlock": (say("Landlock", "Landlock"), say("只能读运行所需的文件", "reads nothing but what it needs to run")),
    "seccomp": (say("seccomp", "seccomp"), say("没有网络、进程、信号", "no network, processes or signals")),
}

WHY_NOT = {  # what the worker's walls say of themselves, in Chinese
    "the judge is not root, so the worker is the same user": "评分器不是以 root 运行，学员代码与它是同一用户",
    "the kernel has no Landlock": "内核没有 Landlock",
    "only root can read this Python, and there is no Landlock": "这个 Python 只有 root 能读，又没有 Landlock",
    "not Linux": "不是 Linux",
}

FIXES = {
    "user": say(
        "以 root 运行评分器、并且 Python 人人可读时启用。",
        "It is there when the grader runs as root, and its Python can be read by all.",
    ),
    "namespaces": say(
        "多一层保障，没有也可以；容器里通常没有。"
        "Ubuntu 24.04：sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        "A further wall, not a needed one; mostly not to be had in containers. "
        "Ubuntu 24.04: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    "landlock": say("需要 Linux 5.13 以上并启用 Landlock。", "It needs Linux 5.13 or newer with Landlock enabled."),
    "seccomp": say("安装 libseccomp2，再运行 ./dojo。", "Install libseccomp2, then run ./dojo."),
}


def _sandbox() -> Iterable[Finding]:
    from grader.worker.confine import probe

    layers = probe()
    for layer, (ok, detail) in layers.items():
        name, works = LAYERS.get(layer, (Text(layer, layer), Text(detail, detail)))
        subject = Text(f"沙箱：{name.zh}", f"sandbox: {name.en}")
        if ok:
            kinds = Text(f"（{detail}）", f" ({detail})") if layer == "namespaces" else Text("", "")
            yield Finding("ok", subject, Text(works.zh + kinds.zh, works.en + kinds.en))
        else:
            why = Text(f"没有启用：{WHY_NOT.get(detail, detail)}", f"not in force: {detail}")
            yield Finding("note", subject, why, FIXES.get(layer))
    absent = isolation.missing([layer for layer, (ok, _) in layers.items() if ok])
    if absent is not None:
        yield Finding(
            "problem",
            say("沙箱", "sandbox"),
            say(
                "没有 {missing}，隔离不完全，只适合批改可信的代码；每份报告都会注明",
                "without {missing} isolation is not complete: grade code that you trust; every report will say so",
                missing=absent,
            ),
            say(
                "给别人评分请用有 Landlock 的 Linux（5.13 以上）和 libseccomp2；grade --require-isolation 缺则不评。",
                "To grade other people's code, use Linux with Landlock (5.13 or newer) and libseccomp2; "
                "grade --require-isolation does not grade without.",
            ),
        )
