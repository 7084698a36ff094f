"""Code cells of stage 4's notebook that are given: pictures, and what one tries out after passing.

``# %% EXERCISE ROLE`` starts a cell. Roles: picture (runs without any answer), given (part of the program that is
graded), given-check (uses the answers; not graded). ``# zh:`` and ``# en:`` comments are kept for one language.
"""
# ruff: noqa: E402, F821

# %% s4-read picture
from grader.course.figures import PALETTE, label, plt
from kernels.perf import find_soc
from kernels.profiles import training_step

# zh: 阶段三那个小模型在 910B3 上训练的一步（性能模型的预测）：表里每个 kernel 一行
# en: a training step of stage 3's small model on a 910B3, as predicted: the table has one row per kernel
rows = training_step(find_soc("910B3"), gap_us=2.0)
colors = {"FlashAttentionScore": PALETTE[0], "FlashAttentionScoreGrad": PALETTE[3], "MatMulV3": PALETTE[1]}
figure, ax = plt.subplots(figsize=(10, 2))
for kernel in rows:
    ax.barh(0, kernel.duration_us, left=kernel.start_us, color=colors.get(kernel.type, PALETTE[5]))
for name, color in (*colors.items(), (label("其他 Vector kernel", "other vector kernels"), PALETTE[5])):
    ax.barh(0, 0, color=color, label=name)
ax.set(xlabel=label("开始时间（微秒）", "start time (us)"), yticks=[], ylim=(-0.5, 1.4))
ax.legend(frameon=False, ncols=4, fontsize=8, loc="upper left")
ax.set_title(label(f"{len(rows)} 个 kernel，大多很短", f"{len(rows)} kernels, most of them short"), fontsize=10)
plt.show()

# %% s4-read given-check
from tempfile import TemporaryDirectory

from kernels.perf import Schedule, Shape, find_soc, predict
from kernels.profiles import kernel_run, training_step, write_msprof, write_pytorch

# zh: 性能模型写出的两种目录，你的函数都读得了；真机上采的也一样
# en: both kinds of folders, written from the performance model, are read by your function; so are recorded ones
soc, shape = find_soc("950PR"), Shape(1, 16, 16, 4096, 4096, 128)
with TemporaryDirectory() as place:
    one_run = read_profile(str(write_msprof(place, [kernel_run(predict(soc, shape, Schedule()), shape, soc)])))
    whole_step = read_profile(str(write_pytorch(place, training_step(soc), header="block-dim")))
print(one_run["kind"], {key: value for key, value in one_run["kernels"][0].items() if key != "input_shapes"})
print(whole_step["kind"], len(whole_step["kernels"]), "kernels")


# %% s4-utilisation picture
from grader.course.figures import PALETTE, label, plt

# zh: 真实的一行（910B3，B2 N4 S4096 因果）：duration 407.1，aicore 361.1 微秒，mac 0.357
# en: a real row (910B3, B2 N4 S4096 causal): duration 407.1, aicore 361.1 us, mac 0.357
duration, aicore, mac = 407.1, 361.1, 0.357
figure, ax = plt.subplots(figsize=(9, 1.9))
occupied = label(
    "核有事做：361.1 微秒，88.7%（cube_utilization）", "cores at work: 361.1 us, 88.7 % (cube_utilization)"
)
parts = (
    (1, duration, PALETTE[5], label("duration 407.1 微秒", "duration 407.1 us")),
    (0, aicore, PALETTE[0], occupied),
    (-1, aicore * mac, PALETTE[1], label("Cube 在乘：129 微秒", "Cubes multiply: 129 us")),
)
for y, width, color, text in parts:
    ax.barh(y, width, height=0.8, color=color)
    inside = width > 200
    ax.text(8 if inside else width + 6, y, text, va="center", color="white" if inside else color, fontsize=9)
ax.set(xlabel=label("微秒", "us"), yticks=[], xlim=(0, 420))
plt.show()

# %% s4-utilisation given-check
# zh: 上一题的一步与那个 FlashAttention：小模型让芯片闲着，大的才谈得上调优
# en: the step of the last exercise and its FlashAttention: a small model leaves the chip idle, a large one can be tuned
for name, rows in (("training step", whole_step["kernels"]), ("FlashAttention", one_run["kernels"])):
    found = utilisation(rows, {"cores": soc.cores, "mhz": soc.mhz})
    print(name, {key: None if value is None else round(value, 3) for key, value in found.items()})


# %% s4-diagnose picture
from grader.course.figures import label, plt
from kernels.perf import SCHEDULES, Schedule, Shape, find_soc, predict

usual, deep, few = (
    Shape(1, *size) for size in ((16, 16, 4096, 4096, 128), (16, 16, 4096, 4096, 256), (2, 1, 512, 16384))
)
gm = {"s_path": "gm", "p_path": "gm", "o_path": "gm"}
a2 = Schedule(block_kv=256, l0c_slots=2, vector_code="cann", **gm)
single = Schedule(preload=0, k_slots=1, v_slots=1, p_slots=1, s_slots=1, o_slots=1, ub_p_slots=1)
rows = (
    (label("D=256，调好的", "D=256, tuned"), "950PR", deep, Schedule(s_slots=1, o_slots=1)),
    (label("向量指令没有融合", "vector code not fused"), "950PR", usual, SCHEDULES["v8-unfused"]),
    (label("块太矮：block_q=64", "flat tiles: block_q=64"), "950PR", usual, Schedule(block_q=64)),
    (label("950，经 GM 交换", "950, exchange through GM"), "950PR", usual, Schedule(**gm)),
    (label("910B3，没有片上通路", "910B3, no wires on chip"), "910B3", usual, a2),
    (label("缓存全是单份", "every buffer single"), "950PR", usual, single),
    (label("块太少：8 个核在干", "few blocks: 8 cores at work"), "950PR", few, Schedule()),
    (label("太小", "too small"), "950PR", Shape(1, 8, 1, 256, 256, 64), Schedule()),
)
pipes = ("mac", "mte1", "mte2", "fixpipe", "vec", "aiv_mte2", "mte3")
figure, ax = plt.subplots(figsize=(9, 3.4))
table = []
for y, (_, chip, shape, schedule) in enumerate(rows):
    found = predict(find_soc(chip), shape, schedule)
    busy = [found.busy[pipe] for pipe in ("CUBE", "MTE1", "MTE2", "FIXPIPE", "VECTOR", "VMTE2", "MTE3")]
    table.append([found.core_microseconds / found.microseconds, found.active_cores / found.soc.cores, *busy])
    for x, share in enumerate(table[y]):
        ax.text(x, y, f"{share:.2f}", ha="center", va="center", fontsize=8, color="white" if share > 0.7 else "black")
    decides = 0 if table[y][0] < 0.5 else 1 if table[y][1] < 0.5 else 2 + busy.index(max(busy))
    style = "-" if decides < 2 or max(busy) >= 0.8 else ":"
    ax.add_patch(plt.Rectangle((decides - 0.46, y - 0.46), 0.92, 0.92, fill=False, linewidth=2, linestyle=style))
ax.imshow(table, cmap="YlOrRd", vmin=0, vmax=1.1, aspect="auto")
names = (label("核的时间\n/ duration", "core time\n/ duration"), label("干活的核", "cores\nat work"), *pipes)
ax.set_xticks(range(len(names)), names, fontsize=8)
ax.set_yticks(range(len(rows)), [row[0] for row in rows], fontsize=9)
ax.axvline(1.5, color="white", linewidth=4)
plt.show()

# %% s4-diagnose given-check
# zh: 训练的一步里，哪些 kernel 值得看、卡在哪里
# en: which kernels of the training step are worth a look, and what holds each back
for kernel in sorted(whole_step["kernels"], key=lambda k: -k["duration_us"])[:5] + one_run["kernels"]:
    print(f"{kernel['duration_us']:8.1f} us  {kernel['type']:24s}", diagnose(kernel))


# %% s4-tiles picture
from grader.course.figures import PALETTE, label, plt
from kernels.perf import Schedule, Shape, buffer_plan, find_soc

shape, soc = Shape(1, 16, 16, 4096, 4096, 256), find_soc("950PR")
plans = {
    label("S、O 各两份", "two slots of S and O"): Schedule(),
    label("S、O 共用一块", "S and O share"): Schedule(shared_so=True),
}
figure, axes = plt.subplots(1, 2, figsize=(10, 2.9), sharey=True)
short = {"S and O shared": "S / O", "O accumulator": label("O 累加", "O acc."), "Q or P": "Q, P", "K or V": "K, V"}
for ax, (title, schedule) in zip(axes, plans.items()):
    for x, buffer in enumerate(buffer_plan(soc, shape, schedule).values()):
        bottom = 0.0
        for n, (part, size) in enumerate(sorted(buffer.parts.items(), key=lambda item: -item[1])):
            share = size / buffer.capacity
            ax.bar(x, share, bottom=bottom, width=0.7, color=PALETTE[n % 6])
            if share > 0.07:
                ax.text(
                    x, bottom + share / 2, short.get(part, part), ha="center", va="center", color="white", fontsize=7
                )
            bottom += share
        ax.text(x, bottom + 0.02, f"{buffer.used:,}\n/ {buffer.capacity:,}", ha="center", fontsize=7)
    ax.axhline(1, color=PALETTE[3], linestyle="--")
    ax.set_xticks(range(5), buffer_plan(soc, shape, schedule))
    ax.set(title=title, ylim=(0, 1.5))
axes[0].set_ylabel(label("用量 / 容量", "used / capacity"))
figure.suptitle(label("950，D = 256，块 (128, 128)", "950, D = 256, tile (128, 128)"), y=1.04)
plt.show()

# %% s4-tiles given-check
from kernels.perf import Refused, Schedule, Shape, find_soc, predict

# zh: 列出的最大的块，模型也肯跑吗？两个 Vector 核平分行数，所以用 16 的倍数试
# en: does the model run the largest tiles of the list? Vector cores share rows equally, so try multiples of 16
chip = find_soc("950PR")
sizes = {name: getattr(chip.architecture, name) for name in ("l1", "l0a", "l0b", "l0c", "ub")}
rates = {name: getattr(chip, name) for name in ("l2_bytes_per_cycle", "hbm_bytes_per_cycle")}
for shared in (False, True):
    tiles = feasible_tiles(sizes | rates, 256, shared_so=shared, hit_rate=1.0)
    print(
        f"shared_so={shared}: {len(tiles)} tiles,",
        {n: max((m for m, kv in tiles if kv == n), default=None) for n in (64, 128, 256)},
    )
for block_q in (96, 112, 128):
    try:
        print(
            block_q,
            f"{predict(chip, Shape(1, 16, 16, 4096, 4096, 256), Schedule(block_q=block_q)).microseconds:.0f} us",
        )
    except Refused as error:
        print(block_q, error)


# %% s4-schedule picture
from math import ceil

from grader.course.figures import PALETTE, label, plt
from kernels.perf import Schedule, Shape, find_soc, predict

soc, sizes = find_soc("950PR"), range(32, 129, 16)
figure, axes = plt.subplots(1, 2, figsize=(10, 2.8))
for ax, shape in zip(axes, (Shape(1, 16, 16, 4096, 4096, 128), Shape(1, 5, 1, 1024, 8192, 128))):
    found = [predict(soc, shape, Schedule(block_q=m)) for m in sizes]
    ax.plot(sizes, [one.microseconds for one in found], "o-", color=PALETTE[0])
    blocks = [shape.num_heads * ceil(shape.seq_q / m) for m in sizes]
    for m, one, n in zip(sizes, found, blocks):
        waves = ceil(n / soc.cores)
        ax.annotate(
            label(f"{waves} 轮", f"{waves} w."),
            (m, one.microseconds),
            (0, 6),
            textcoords="offset points",
            ha="center",
            fontsize=7,
        )
    ax.set(xlabel="block_q", ylabel=label("微秒", "us"), ylim=(0, 1.15 * found[0].microseconds), xticks=sizes)
    ax.set_title(f"N1={shape.num_heads} S1={shape.seq_q} S2={shape.seq_kv}", fontsize=10)
plt.show()

# %% s4-schedule given-check
from dataclasses import asdict, replace

from kernels.perf import Schedule, Shape, best, find_soc, predict, sweep

# zh: 用模型看看你的选择离最优多远；换些形状和芯片再试
# en: how far your choice is from the best by the model; try other shapes and chips
for name, shape in (("950PR", Shape(1, 16, 16, 4096, 4096, 256)), ("910B3", Shape(4, 32, 8, 64, 8192, 128))):
    soc = find_soc(name)
    facts = {
        key: getattr(soc, key)
        for key in ("arch", "cores", "mhz", "l2_bytes", "l2_bytes_per_cycle", "hbm_bytes_per_cycle")
    }
    facts |= {key: getattr(soc.architecture, key) for key in ("l1", "l0a", "l0b", "l0c", "ub")}
    base = (
        Schedule()
        if soc.arch == "3510"
        else Schedule(l0c_slots=2, vector_code="cann", s_path="gm", p_path="gm", o_path="gm")
    )
    mine = replace(base, **choose_schedule(facts, asdict(shape)))
    wide = (64, 128, 256) if soc.arch == "3510" else (128, 256, 512, 1024)
    tried = [
        replace(base, block_q=m, block_kv=n, s_slots=s, o_slots=s) for m in (64, 96, 128) for n in wide for s in (1, 2)
    ]
    top = best(sweep(soc, shape, tried))
    print(
        name,
        f"{predict(soc, shape, mine).microseconds:.0f} us, best {top.microseconds:.0f} us:",
        top.schedule.block_q,
        top.schedule.block_kv,
    )


# %% s4-tune picture
from grader.course.figures import PALETTE, label, plt
from kernels.perf import Schedule, Shape, find_soc, timeline

soc, shape = find_soc("950PR"), Shape(1, 16, 16, 4096, 4096, 128)
start = label("起点：preload 1，S、P 各一份", "start: preload 1, one slot of S and P")
end = label("preload 2，S 两份、P 三份", "preload 2, two slots of S, three of P")
schedules = ((start, Schedule(preload=1, s_slots=1, p_slots=1)), (end, Schedule()))
used = ["MTE2", "MTE1", "CUBE", "FIXPIPE", "VECTOR", "MTE3"]
figure, axes = plt.subplots(2, 1, figsize=(10, 4.6), sharex=True)
for ax, (title, schedule) in zip(axes, schedules):
    for event in timeline(soc, shape, schedule, tiles=8):
        y = used.index(event.pipe)
        ax.barh(y, event.end - event.start, left=event.start, height=0.8, color=PALETTE[max(event.tile, 0) % 6])
    ax.set_yticks(range(len(used)), used, fontsize=8)
    ax.invert_yaxis()
    ax.set_title(title, fontsize=10)
axes[1].set_xlabel(label("周期（一个核，8 块）", "cycles (one core, 8 tiles)"))
figure.tight_layout()
plt.show()

# %% s4-evidence picture
from grader.course.figures import PALETTE, label, plt
from kernels.perf import Schedule, Shape, find_soc, predict

soc, shape = find_soc("950PR"), Shape(1, 16, 16, 4096, 4096, 128)
rate = soc.cores * soc.mhz * soc.l2_bytes_per_cycle / 1e6  # zh: TB/s
figure, ax = plt.subplots(figsize=(7, 3))
places = [8, soc.peak_tflops / rate, 300]
ax.plot(places, [min(soc.peak_tflops, rate * x) for x in places], color=PALETTE[5])
for m, color in ((64, PALETTE[1]), (128, PALETTE[0])):
    found = predict(soc, shape, Schedule(block_q=m))
    ax.plot(m, found.tflops, "o", color=color)
    ax.annotate(
        f"block_q={m}: {found.tflops:.0f} TFLOPS", (m, found.tflops), (8, -12), textcoords="offset points", color=color
    )
ax.annotate(
    label(f"L2 {rate:.1f} TB/s", f"L2, {rate:.1f} TB/s"), (16, rate * 16), (-70, 10), textcoords="offset points"
)
ax.annotate(
    label(f"Cube 峰值 {soc.peak_tflops:.0f} TFLOPS", f"Cube peak, {soc.peak_tflops:.0f} TFLOPS"),
    (100, soc.peak_tflops),
    (0, 6),
    textcoords="offset points",
)
ax.set(xscale="log", yscale="log", ylim=(30, 800), ylabel="TFLOPS")
ax.set_xticks([8, 16, 32, 64, 128, 256], [8, 16, 32, 64, 128, 256])
ax.set_yticks([50, 100, 200, 400], [50, 100, 200, 400])
ax.minorticks_off()
ax.set_xlabel(label("每字节 K、V 的运算次数（= block_q）", "operations per byte of K and V (= block_q)"))
plt.show()

# %% s4-evidence given-check
from pathlib import Path

# zh: 用自己写的函数读前后两份，看时间从哪里省下来
# en: read both with your own functions and see where the time was saved
for which in ("before", "after"):
    (folder,) = Path("profiles", which).iterdir()
    (kernel,) = read_profile(str(folder))["kernels"]
    print(which, kernel["duration_us"], "us", diagnose(kernel), "mac", kernel["mac"])
