"""What the performance model and the reader of profiles refuse, as one line in the learner's language.

Their own sentences are English; here are the Chinese ones, by what the errors carry. Checks say them as well as
commands, so this belongs to what stages may import.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from grader.text import Text, say
from kernels.perf import BadSchedule, BadShape, NoPath, NoVectorCode, Overflow, Refused, UnknownSoc
from kernels.perf.buffers import Reason
from kernels.profiles import BadProfile

NEAREST = 5  # names that are proposed for one that is not known
LONGEST = 60  # characters of what somebody typed, in a line

_PARTS_ZH = {
    "Q or P": "Q 或 P",
    "K or V": "K 或 V",
    "S or O": "S 或 O",
    "O accumulator": "O 累加",
    "row statistics": "每行的统计量",
    "scalars": "标量",
    "S and O shared": "S 与 O 共用",
    "mask": "掩码",
    "S chunks": "S 分片",
    "P chunks": "P 分片",
    "scratch": "临时",
}
_WAITS_ZH = (
    (r"a place for (\w+), which (.+) gives back", " {0} 的空位（由 {1} 归还）"),
    (r"the place that S and O share, which (.+) gives back", " S 与 O 共用的空位（由 {0} 归还）"),
    (r"(\d+) places for (\w+), and there are (\d+)", " {1} 的 {0} 个空位，而总共只有 {2} 个"),
)

SHAPES_ZH = (  # sentences of kernels.perf.shape
    (r"(\w+) is (.+): it must be a whole number of at least 1", "{0} 是 {1}：要写不小于 1 的整数"),
    (r"batch is (\d+): the operator takes less than 65,536", "batch 是 {0}：算子要求小于 65,536"),
    (r"(\d+) query heads on (\d+) kv heads: .*", "{0} 个 query 头配 {1} 个 kv 头：N1 必须是 N2 的整数倍"),
    (r"a sequence of (\d+): the operator takes up to ([\d,]+)", "序列长 {0}：算子最多支持 {1}"),
    (r"head_dim is (\d+): the operator takes (.+)", "head_dim 是 {0}：算子只支持 {1}"),
    (r"dtype (.+): the operator takes .*", "dtype {0}：算子只支持 float16（fp16）和 bfloat16（bf16）"),
    (r"mask(?:_mode is)? (.+): the model covers .*", "掩码 {0}：模型只算 none（0）和 causal（3）"),
    (r"(.+) is no shape: .*", "{0} 不是形状：请写六个数 B,N1,N2,S1,S2,D，如 1,16,16,4096,4096,128"),
)
SCHEDULES_ZH = (  # of kernels.perf.schedule
    (r"(.+) is none of (.+)", "{0} 不行，可选 {1}"),
    (r"(.+) is neither true nor false", "{0} 不是 true 或 false"),
    (r"(.+) is no whole number", "{0} 不是整数"),
    (r"(.+) is outside (\d+) to (\d+)", "{0} 超出范围，应在 {1} 到 {2} 之间"),
    (r"(\d+) is no multiple of 16, the Cube's", "{0} 不是 16 的倍数（Cube 以 16 为单位）"),
    (r"with group above 0 .*", "group 大于 0 时不能再预取，preload 必须是 0"),
    (r"no JSON: (.+) in line (\d+)", "不是 JSON：第 {1} 行，{0}"),
    (r"no JSON that can be read: (.+)", "不是能够读取的 JSON：{0}"),
    (r"a schedule is a JSON object such as (.+)", "调度是一个 JSON 对象，如 {0}"),
    (r"no such field; did you mean (.+)\?", "没有这一项，你要的是不是 {0}？"),
    (r"no such field; there are (.+)", "没有这一项，可以写的有 {0}"),
)
PROFILES_ZH = {  # of kernels.profiles.problems
    "missing": "没有这个文件或目录",
    "empty-folder": "目录是空的：是不是采集还没有写出任何东西就被停止了？",
    "not-a-profile": "这不是昇腾 NPU 的 profile：请给出 *_ascend_pt（torch_npu.profiler）或 PROF_*（msprof）目录，"
    "或其中的 kernel_details.csv、op_summary_*.csv",
    "other-tool": "这是 {tool} 写的，它记录的是别的东西：{instead}",
    "several": "这里不止一个 profile（{names}）：请指定其中一个",
    "not-parsed": "这里只有还没有解析的原始数据：请先对它运行 {command}",
    "database-only": "这个 profile 只导出了数据库：请导出为文本（{command}）",
    "half-written": "缺少 {missing}：采集被打断了，或者还在写",
    "empty-file": "文件是空的：采集被打断了，或者还在写",
    "not-text": "文件不是 UTF-8 文本：{detail}",
    "separator": "各列之间用的是 {separator!r}：请改存为逗号分隔，或者用原来的文件",
    "header": "第一行不是算子表的表头：缺少 {missing} 列",
    "duplicate-column": "{column!r} 列出现了两次：请使用采集工具写出的原文件",
    "no-kernels": "只有表头，没有一个算子：采集期间 NPU 上什么也没有运行",
    "cut": "第 {line} 行只有半行：文件被截断了，或者还在写",
    "row": "第 {line} 行有 {found} 个字段，表头有 {expected} 个：请使用采集工具写出的原文件",
    "quotes": "第 {line} 行的引号不成对：请使用采集工具写出的原文件",
    "number": "第 {line} 行 {column!r} 列：{value!r} 不是 {wanted}",
    "not-a-trace": "这不是 Chrome Trace Event 格式的时间线，或者只有一部分",
    "too-large-file": "文件超过 {limit} MiB：请少采集几步",
    "too-large": "算子超过 {limit} 个：请少采集几步",
}

FACTS_ZH = (  # what they quote
    (r"profile the whole program with msprof or torch_npu\.profiler", "请用 msprof 或 torch_npu.profiler 采集整个程序"),
    (r"use torch_npu\.profiler with ProfilerActivity\.NPU", "请用 torch_npu.profiler，并加上 ProfilerActivity.NPU"),
    (r"profile on an NPU", "请在 NPU 上采集"),
    (r"torch\.profiler without torch_npu", "没有 torch_npu 的 torch.profiler"),
    (r"the JAX/TensorFlow profiler", "JAX 或 TensorFlow 的采集工具"),
    (r"it is UTF-16, .*", "它是 UTF-16（电子表格的“Unicode 文本”）"),
    (r"it is a workbook, an archive or a database", "它是工作簿、压缩包或数据库"),
    (r"byte (\d+) cannot be decoded", "第 {0} 个字节无法解码"),
    (r"there are zero bytes in line (\d+)", "第 {0} 行有零字节"),
    (r"a cell of more than 128 KiB", "有一个单元格超过 128 KiB"),
    (r"it may not be read \((.+)\)", "没有权限读取（{0}）"),
    (r"name", "名字"),
    (r"duration", "时长"),
)


def shortened(text: str) -> str:
    """On one line, and no longer than a name has to be."""
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def part_name(name: str) -> Text:
    """What lies in a buffer, as kernels.perf names it."""
    return Text(_PARTS_ZH.get(name, name), name)


def waited_for(what: str) -> Text:
    """What a stage waits for in a deadlock: a place in a buffer, or another stage such as "C1(0)"."""
    for pattern, chinese in _WAITS_ZH:
        found = re.fullmatch(pattern, what)
        if found:
            return Text(chinese.format(*found.groups()), what)
    return Text(f" {what}", what)


def in_words(error: ValueError) -> Text:
    """The error in both languages. ``error``: one that kernels.perf or kernels.profiles document."""
    if isinstance(error, UnknownSoc):
        names = ", ".join(name.removeprefix("Ascend") for name in error.known[:NEAREST])
        return say(
            "没有 {name} 这个芯片，相近的有 {names}；常用简称：950PR、950DT、910B1 到 910B4、A3。",
            "there is no SoC {name}; nearest are {names}. Short names: 950PR, 950DT, 910B1 to 910B4, A3.",
            name=shortened(error.name),
            names=names,
        )
    if isinstance(error, BadShape):
        return _translated(error.problem, SHAPES_ZH)
    if isinstance(error, BadSchedule):
        sentence = _translated(error.problem, SCHEDULES_ZH)
        if not error.field:
            return sentence
        field = shortened(error.field)
        return Text(f"{field}：{sentence.zh}", f"{field}: {sentence.en}")
    if isinstance(error, BadProfile):
        told = str(error).removeprefix(f"{error.path}: ")
        chinese = PROFILES_ZH[error.problem].format(**{name: _fact(value) for name, value in error.facts.items()})
        return Text(f"{error.path}：{_ended(chinese, '。')}", f"{error.path}: {_ended(told, '.')}")
    if isinstance(error, Refused):
        chinese = "；".join(_reason(reason) for reason in error.reasons)
        return Text(f"芯片执行不了这个调度：{chinese}。", f"the chip cannot run this schedule: {error}.")
    return Text(_ended(str(error), "。"), _ended(str(error), "."))


def _fact(value: Any) -> Any:
    """A fact that an error quotes in English, in Chinese."""
    for pattern, chinese in FACTS_ZH:
        found = re.fullmatch(pattern, value) if isinstance(value, str) else None
        if found:
            return chinese.format(*found.groups())
    return value


def _reason(reason: Reason) -> str:
    if isinstance(reason, Overflow):
        terms = " + ".join(f"{part_name(name).zh} {size:,}" for name, size in reason.parts.items() if size)
        return (
            f"{reason.level} 溢出：{terms} = {reason.used:,} 字节，容量 {reason.capacity:,}，"
            f"是容量的 {reason.used / reason.capacity:.2f} 倍"
        )
    if isinstance(reason, NoPath):
        source, target = reason.source, reason.target
        return f'{reason.field} 是 "chip"，但 {reason.arch} 没有从 {source} 到 {target} 的通路，请改为 "gm"'
    if isinstance(reason, NoVectorCode):
        known = " 或 ".join(reason.known)
        return f'vector_code "{reason.code}" 在 {reason.arch} 上没有实测，请用 {known}'
    waits = "；".join(f"{stage}({tile}) 在等{waited_for(what).zh}" for stage, tile, what in reason.stages)
    return f"死锁：{waits}，此外没有别的可做"


def _translated(english: str, table: Sequence[tuple[str, str]]) -> Text:
    for pattern, chinese in table:
        found = re.fullmatch(pattern, english)
        if found:
            return Text(_ended(chinese.format(*found.groups()), "。"), _ended(english, "."))
    return Text(_ended(english, "。"), _ended(english, "."))


def _ended(sentence: str, stop: str) -> str:
    return sentence if sentence.endswith(("?", "？", stop)) else sentence + stop
