"""Advice on a profile: what was found, in which columns, compared with what, and what to try.

No advice rests on how little of the HBM's bandwidth is used: using little is no fault, and fusion uses less still.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.profiling import thresholds
from grader.profiling.facts import BACKWARD, FORWARD, span_us
from grader.profiling.thresholds import Threshold
from grader.text import Text, say
from kernels.profiles import Kernel, Profile

PIPES = (("aic", "mac", thresholds.CUBE), ("aiv", "vec", thresholds.VECTOR), ("aic", "mte2", thresholds.MTE2),
         ("aic", "fixpipe", thresholds.FIXPIPE))  # fmt: skip


@dataclass(frozen=True)
class Advice:
    """``evidence``: column and value. ``compared``: the thresholds behind it."""

    title: Text
    what_to_do: Text
    evidence: tuple[tuple[str, str], ...] = ()
    compared: tuple[Threshold, ...] = ()


def advise(profile: Profile) -> list[Advice]:
    """What is worth doing first comes first."""
    found = [*_recording(profile), *_idle(profile)]
    attention = [kernel for kernel in profile.kernels if kernel.type in (FORWARD, BACKWARD)]
    for kind in (FORWARD, BACKWARD):
        longest = max((k for k in attention if k.type == kind), key=lambda k: k.duration_us, default=None)
        if longest is not None:
            found += _kernel(longest)
    return found


def busiest(kernel: Kernel) -> tuple[str, float, Threshold] | None:
    """Column, ratio and threshold of the pipe that is nearest to its threshold or furthest above it."""
    ratios = [(t.column, r, t) for core, pipe, t in PIPES if (r := _ratio(kernel, core, pipe)) is not None]
    return max(ratios, key=lambda each: each[1] / each[2].value, default=None)


def _ratio(kernel: Kernel, core: str, pipe: str) -> float | None:
    return (kernel.ratios if core == "aic" else kernel.aiv_ratios).get(pipe)


def _recording(profile: Profile) -> list[Advice]:
    if any(ratio is not None for kernel in profile.kernels for ratio in kernel.ratios.values()):
        return []
    return [
        Advice(
            say("这个 profile 没有各流水的忙碌比例", "this profile has no busy ratios of the pipes"),
            say(
                "用 ProfilerLevel.Level1 和 AiCMetrics.PipeUtilization 重新采集（Level0 是默认值，只有名字和时间）。",
                "Record again with ProfilerLevel.Level1 and AiCMetrics.PipeUtilization (Level0, the default, has names "
                "and times only).",
            ),
        )
    ]


def _idle(profile: Profile) -> list[Advice]:
    spans = span_us(profile.kernels)
    if spans is None or spans[0] <= 0 or 1 - spans[1] / spans[0] < thresholds.IDLE.value:
        return []
    whole, busy = spans
    return [
        Advice(
            say(
                "NPU 有 {it:.0f} % 的时间在等主机",
                "the NPU waits for the host {it:.0f} % of the time",
                it=100 * (1 - busy / whole),
            ),
            say(
                "先解决这个：算子再快也省不下这段时间。看 trace_view.json 里空闲处主机在做什么："
                "数据读取、同步（.item()、.cpu()）、下发太慢（图模式、融合算子可以减少下发次数）。",
                "Mend this first: no faster kernel saves that time. Look in trace_view.json at what the host does in the "
                "gaps: loading data, synchronising (.item(), .cpu()), launching too slowly (graphs and fused operators "
                "launch less).",
            ),
            (("span (us)", f"{whole:.1f}"), ("computing (us)", f"{busy:.1f}")),
            (thresholds.IDLE,),
        )
    ]


def _kernel(kernel: Kernel) -> list[Advice]:
    if kernel.duration_us < thresholds.SHORT.value:
        return [_short(kernel)]
    found = [_bound(kernel)] if busiest(kernel) else []
    return [*found, *_cores(kernel), *_occupied(kernel), *_alignment(kernel)]


def _short(kernel: Kernel) -> Advice:
    return Advice(
        say("{type} 太短，谈不上瓶颈", "{type} is too short to have a bottleneck", type=kernel.type),
        say(
            "一次只有 {us:.1f} us，主要是启动、填充和排空流水。把小的合并成大的（批、多头、变长打包），比调块更有用。",
            "{us:.1f} us are mostly launch and the filling of the pipeline. Merging small calls into large ones (batch, "
            "heads, packed lengths) does more than tiles.",
            us=kernel.duration_us,
        ),
        (("Duration(us)", f"{kernel.duration_us:.1f}"),),
        (thresholds.SHORT,),
    )


_WHAT_TO_DO = {
    "aic_mac_ratio": (
        say("{type} 受限于 Cube：这是想要的状态", "{type} is bound by the Cube, as it should be"),
        say(
            "矩阵乘一直在做，换块和缓冲最多再快 {rest:.0f} %。再要快，只能少算：跳过被掩码遮住的块，或换更低的精度。",
            "It multiplies nearly all the time: tiles and buffers can gain {rest:.0f} % at most. Beyond that compute "
            "less: skip masked tiles, or use a lower precision.",
        ),
    ),
    "aiv_vec_ratio": (
        say("{type} 受限于 Vector", "{type} is bound by the vector cores"),
        say(
            "softmax 和缩放是最慢的一环。减少 Vector 指令：融合向量函数、少写回 UB；block_kv 大一些，缩放 O 的次数就少。"
            "把块改小没有帮助：元素总数不变，启动次数更多。",
            "Softmax and rescaling are the slowest part. Use fewer vector instructions: fuse vector functions, write to UB "
            "less; a larger block_kv rescales O less often. Smaller tiles do not help: as many elements, more start-ups.",
        ),
    ),
    "aic_mte2_ratio": (
        say("{type} 受限于 MTE2（从全局内存搬入）", "{type} is bound by MTE2, loading from global memory"),
        say(
            "每个 K、V 字节只服务 block_q 行：增大 block_q。让多个核同时读同一份 K、V，提高 L2 命中率；"
            "P 走片上（950）也少读一份。厂商的规则文件把这一条叫作 mac，看名字会误判，要看列。",
            "Each byte of K and V serves block_q rows: make block_q larger. Let cores read the same K and V at the same time, "
            'for L2; keep P on chip (950). The vendor\'s rule calls this bound "mac": go by the column, not by the word.',
        ),
    ),
    "aic_fixpipe_ratio": (
        say("{type} 受限于 Fixpipe（L0C 搬出）", "{type} is bound by Fixpipe, emptying L0C"),
        say(
            "S 和 O 的搬出是最慢的一环。950 上让 S、O 从 L0C 直接到 UB，不经过全局内存；910B 没有这条路，"
            "只能增大 block_kv（O 少搬几次）、以 16 位搬 S。厂商的工具在前向不检查这一条。",
            "Moving S and O out is the slowest part. On a 950 let them go from L0C to UB, not through global memory; a 910B "
            "has no such wire: a larger block_kv moves O less often, S can go in 16 bits. The vendor's tool does not check "
            "this for the forward.",
        ),
    ),
}


def _bound(kernel: Kernel) -> Advice:
    column, ratio, threshold = busiest(kernel)  # type: ignore[misc]
    evidence = tuple(
        (t.column, f"{value:.3f}") for core, pipe, t in PIPES if (value := _ratio(kernel, core, pipe)) is not None
    )
    compared = tuple(t for _, _, t in PIPES)
    if ratio >= threshold.value:
        title, what = _WHAT_TO_DO[column]
        rest = 100 * (1 / max(ratio, 1e-3) - 1)
        fill = {"type": kernel.type, "rest": rest}
        return Advice(*(Text(t.zh.format(**fill), t.en.format(**fill)) for t in (title, what)), evidence, compared)
    return Advice(
        say(
            "{type} 没有一条流水是忙的：在互相等待",
            "{type}: no pipe is busy, they wait for each other",
            type=kernel.type,
        ),
        say(
            "最忙的 {column} 也只有 {ratio:.2f}。让各级同时工作：预取（preload）、K/V/P/S/O 和 L0 的双缓冲，"
            "去掉级间的同步；单看哪条流水更快都没有用。",
            "The busiest, {column}, is at {ratio:.2f}. Let the stages overlap: preload, double buffers for K, V, P, S, O and "
            "L0, no barrier between stages; making one pipe faster does nothing.",
            column=column,
            ratio=ratio,
        ),
        evidence,
        compared,
    )


def _cores(kernel: Kernel) -> list[Advice]:
    cores = kernel.device.cores if kernel.device else None
    if not cores or not kernel.block_num or kernel.block_num >= cores:
        return []
    return [
        Advice(
            say("{cores} 个核只用了 {used} 个", "{used} of {cores} cores are used", cores=cores, used=kernel.block_num),
            say(
                "行块比核少。减小 block_q，或把 K/V 方向也分给不同的核（再合并一次）。",
                "There are fewer row blocks than cores. Make block_q smaller, or share out the K/V direction too and merge.",
            ),
            (("Block Num", str(kernel.block_num)),),
        )
    ]


def _occupied(kernel: Kernel) -> list[Advice]:
    mac, occupied = kernel.ratios.get("mac"), kernel.cube_utilization
    if mac is None or occupied is None or occupied < 100 * thresholds.CUBE.value or mac >= 0.6:
        return []
    return [
        Advice(
            say("cube_utilization 高，不等于 Cube 忙", "a high cube_utilization does not mean a busy Cube"),
            say(
                "它是核被占用的时间（{occupied:.0f} %），核里在等也算；乘加真正工作的时间是 aic_mac_ratio：{mac:.2f}。",
                "It is how long cores were occupied ({occupied:.0f} %), waiting included; how long they multiplied is "
                "aic_mac_ratio: {mac:.2f}.",
                occupied=occupied,
                mac=mac,
            ),
            (("cube_utilization(%)", f"{occupied:.1f}"), ("aic_mac_ratio", f"{mac:.3f}")),
        )
    ]


def _alignment(kernel: Kernel) -> list[Advice]:
    shape = kernel.input_shapes[0] if kernel.input_shapes else None
    if not shape or len(shape) != 4:
        return []
    unit = int(thresholds.ALIGNED.value)
    odd: Sequence[int] = [size for size in (max(shape[1:3]), shape[3]) if size % unit]
    if not odd or shape[3] in (64, 192):
        return []
    return [
        Advice(
            say(
                "长度不是 {unit} 的倍数：{odd}",
                "sizes that are no multiple of {unit}: {odd}",
                unit=unit,
                odd=", ".join(map(str, odd)),
            ),
            say(
                "最后一块只装一部分，Cube 仍按整块计算。补齐到 {unit} 的倍数有时更快，要量过才知道。",
                "The last tile is only partly filled, and the Cube computes all of it. Padding to a multiple of {unit} is "
                "sometimes faster: measure.",
                unit=unit,
            ),
            (("Input Shapes", ",".join(map(str, shape))),),
            (thresholds.ALIGNED,),
        )
    ]
