"""Which walls of the worker are in force on this machine, in words, and how to get those that are not."""

from __future__ import annotations

from collections.abc import Iterable

from grader import isolation
from grader.findings import Finding
from grader.text import Text, say

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


def sandbox() -> Iterable[Finding]:
    """A finding for each wall, and one more where isolation is not complete."""
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
