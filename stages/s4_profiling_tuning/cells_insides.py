"""Given code cells of stage 4's notebook, second part: the operator's insides, and the fast attention. See cells.py.

``# %% EXERCISE ROLE`` starts a cell. Roles: picture (runs without any answer), given (part of the program that is
graded), given-check (uses the answers; not graded). ``# zh:`` and ``# en:`` comments are kept for one language.
"""
# ruff: noqa: E402, F821

# %% s4-key picture
from grader.course.figures import INK, PALETTE, clean, label, plt

figure, ax = plt.subplots(figsize=(10, 2.6))
fields = (  # lowest bit, bits, name, what a code stands for
    (0, 2, "template", "0 BN2GS1S2\n1 BN2"),
    (2, 1, "tnd", ""),
    (3, 2, "mask_mode", "0 → 0\n1 → 3\n2 → 4"),
    (5, 1, "swizzle", ""),
    (6, 2, "d_align", "0 → 64\n1 → 128\n2 → 192"),
    (8, 1, "dv_align", "0 → 128\n1 → 192"),
    (9, 1, "multiblk", ""),
    (10, 1, "need_zero", ""),
)
example = 0b110_0101_0001  # BN2 MultiBlk that clears first, mask_mode 4, d_align 128
for n, (low, bits, name, codes) in enumerate(fields):
    left = 11 - low - bits
    ax.add_patch(plt.Rectangle((left, 0), bits - 0.06, 1, color=PALETTE[n % len(PALETTE)]))
    ax.text(left + bits / 2, 1.2 + 0.32 * (n % 2), name, ha="center", fontsize=9, color=INK)
    ax.text(left + bits / 2, -0.15, codes, ha="center", va="top", fontsize=8, color=INK)
    for bit in range(low, low + bits):
        ax.text(10.47 - bit, 0.6, example >> bit & 1, ha="center", va="center", color="white", fontsize=13)
        ax.text(10.47 - bit, 0.15, bit, ha="center", va="center", color="white", fontsize=7)
ax.set_title(label(f"例：键 {example}", f"example: key {example}"), pad=26)
ax.set(xlim=(-0.1, 11.1), ylim=(-1.3, 1.6))
clean(ax)
plt.show()

# %% s4-plan picture
from grader.course.figures import INK, PALETTE, clean, label, plt

figure, (ax, area) = plt.subplots(1, 2, figsize=(11, 3.4), gridspec_kw={"width_ratios": (1.5, 1)})
steps = (
    (label("解析", "parse"), label("平台：核数、L2\n参数：B N S D", "platform: cores, L2\narguments: B N S D")),
    (label("校验", "check"), "deterministic inputs\ndtype attributes\nmask layout shape"),
    (label("规划", "plan"), label("路线、分核\nswizzle、工作区", "route, cores\nswizzle, workspace")),
    (label("写回", "write"), "tiling key\ntiling data"),
)
for n, (name, what) in enumerate(steps):
    ax.add_patch(plt.Rectangle((2.6 * n, 0), 2, 1, color=PALETTE[n]))
    ax.text(2.6 * n + 1, 0.5, name, ha="center", va="center", color="white", fontsize=12)
    ax.text(2.6 * n + 1, -0.2, what, ha="center", va="top", fontsize=8, color=INK)
    if n:
        ax.annotate("", (2.6 * n, 0.5), (2.6 * n - 0.6, 0.5), arrowprops={"arrowstyle": "->", "color": INK, "lw": 2})
ax.set(xlim=(-0.1, 10), ylim=(-2, 1.6))
clean(ax)
area.add_patch(plt.Rectangle((0, 0), 800, 800, color=PALETTE[0]))
area.add_patch(plt.Rectangle((0, 0), 640, 640, color=PALETTE[2]))
area.add_patch(plt.Rectangle((0, 0), 128, 128, color=PALETTE[1]))
area.text(64, 64, "BN2", ha="center", va="center", color="white", fontsize=8)
many = label("头数够多时", "with enough heads")
area.text(384, 384, f"BN2 MultiBlk\n{many}", ha="center", va="center", color="white")
area.text(400, 720, "BN2GS1S2", ha="center", va="center", color="white")
area.set(xlim=(0, 800), ylim=(0, 800), xticks=(128, 640), yticks=(128, 640), xlabel="S1", ylabel="S2", aspect="equal")
area.set_title(label("N1 == N2、D ≤ 128、非 TND", "N1 == N2, D ≤ 128, no TND"))
plt.show()

# %% s4-dataflow picture
from grader.course.figures import INK, PALETTE, clean, label, plt

figure, (graph, *charts) = plt.subplots(3, 1, figsize=(11, 6.2), gridspec_kw={"height_ratios": (1.5, 1, 1)})
nodes = {
    "C2": (0, 2, "S = QKᵀ"), "C1": (0, 1, "dP = dO·Vᵀ"), "V1": (0, 0, "rowsum(dO·O)"), "V2": (2, 2, "P = exp(S − lse)"),
    "V4": (4, 2, "P → L1"), "V3": (4, 1, "dS = P(dP − sfmg)"), "C5": (6, 2, "dV += PᵀdO"),
    "C3": (6, 1, "dQ += dS·K"), "C4": (6, 0, "dK += dSᵀQ"), "V5": (8, 1, "BN2"), "V6": (8, 0, "BN2"),
}  # fmt: skip
arrows = "C2-V2 V2-V4 V2-V3 C1-V3 V1-V3 V4-C5 V3-C3 V3-C4 C3-V5 C4-V6"
for a, b in (arrow.split("-") for arrow in arrows.split()):
    (x, y, _), (u, v, _) = nodes[a], nodes[b]
    graph.annotate("", (u, v), (x + 1.3, y), arrowprops={"arrowstyle": "->", "color": INK, "lw": 1})
for name, (x, y, what) in nodes.items():
    graph.add_patch(plt.Rectangle((x, y - 0.3), 1.3, 0.6, color=PALETTE[0] if name[0] == "C" else PALETTE[1]))
    graph.text(x + 0.65, y, f"{name}  {what}", ha="center", va="center", color="white", fontsize=8)
graph.set(xlim=(-0.1, 9.5), ylim=(-0.4, 2.5))
graph.set_title(
    label("蓝：Cube，橙：Vector；跨颜色的箭头要 set/wait", "blue: Cube, orange: Vector; across colours set and wait")
)
clean(graph)
took = {"C1": 2, "C2": 2, "C3": 2, "C4": 2, "C5": 2, "V1": 1, "V2": 5, "V3": 3, "V4": 2}  # made up, for the drawing
serial = """C2:0:0 C1:0:2 V1:0:0 V2:0:2 V4:0:7 V3:0:9 V1:1:12 C5:0:9 C3:0:12 C4:0:14 C2:1:16 C1:1:18 V2:1:18 V4:1:23
    V3:1:25 V1:2:28 C5:1:25 C3:1:28 C4:1:30 C2:2:32 C1:2:34 V2:2:34 V4:2:39 V3:2:41 C5:2:41 C3:2:44 C4:2:46"""
ahead = """C2:0:0 C1:0:2 C2:1:4 C1:1:6 V1:0:0 V2:0:2 V4:0:7 V3:0:9 V1:1:12 V2:1:13 C2:2:12 C1:2:14 C5:0:16 C3:0:18
    C4:0:20 V4:1:18 V3:1:22 V1:2:25 V2:2:26 C5:1:22 C3:1:25 C4:1:27 V4:2:31 V3:2:33 C5:2:33 C3:2:36 C4:2:38"""
titles = label("一个接一个", "one after the other"), label("领先两个任务", "two tasks ahead")
for ax, bars, title in zip(charts, (serial, ahead), titles, strict=True):
    for stage, task, start in (bar.split(":") for bar in bars.split()):
        row = 1 if stage[0] == "C" else 0
        ax.add_patch(plt.Rectangle((int(start), row), took[stage] - 0.1, 0.8, color=PALETTE[2 + int(task)]))
        ax.text(int(start) + took[stage] / 2, row + 0.4, stage, ha="center", va="center", color="white", fontsize=8)
    ax.set(xlim=(0, 49), ylim=(-0.1, 1.9), yticks=(0.4, 1.4), yticklabels=("Vector", "Cube"))
    ax.set_title(title)
figure.tight_layout()
plt.show()


# %% s4-fast given
def slow_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """FlashAttention as one writes it first: right, tiled, and slow. q [B, N1, S1, D], k and v [B, N2, S2, D]."""
    batch, num_heads, seq_q, head_dim = q.shape
    group, seq_kv, block, scale = num_heads // k.shape[1], k.shape[2], 64, 1 / math.sqrt(head_dim)
    attn_out = torch.zeros_like(q)
    for b in range(batch):
        for h in range(num_heads):
            for i in range(0, seq_q, block):
                q_tile = q[b, h, i : i + block]
                row_max = torch.full((len(q_tile), 1), -math.inf)
                row_sum = torch.zeros(len(q_tile), 1)
                acc = torch.zeros(len(q_tile), head_dim)
                for j in range(0, seq_kv, block):
                    k_tile, v_tile = k[b, h // group, j : j + block], v[b, h // group, j : j + block]
                    scores = (q_tile @ k_tile.transpose(0, 1)) * scale
                    new_max = torch.maximum(row_max, scores.max(dim=1, keepdim=True).values)
                    weights = torch.exp(scores - new_max)
                    rescale = torch.exp(row_max - new_max)
                    row_sum = row_sum * rescale + weights.sum(dim=1, keepdim=True)
                    acc = acc * rescale + weights @ v_tile
                    row_max = new_max
                attn_out[b, h, i : i + block] = acc / row_sum
    return attn_out


# %% s4-fast picture
from torch.profiler import ProfilerActivity, profile

from grader.course.figures import PALETTE, label, plt

threads = torch.get_num_threads()
torch.set_num_threads(1)
q, k, v = (torch.randn(1, 4, 512, 64) for _ in range(3))
slow_attention(q, k, v)
with profile(activities=[ProfilerActivity.CPU]) as measured:
    slow_attention(q, k, v)
torch.set_num_threads(threads)
rows = sorted(measured.key_averages(), key=lambda row: row.self_cpu_time_total)[-10:]
figure, (bars, curve) = plt.subplots(1, 2, figsize=(11, 3.6))
bars.barh([row.key for row in rows], [row.self_cpu_time_total / 1e3 for row in rows], color=PALETTE[0])
for place, row in enumerate(rows):
    bars.text(row.self_cpu_time_total / 1e3, place, f" {row.count}×", va="center", fontsize=8)
bars.set_title(label("此刻在这台机器上：毫秒与次数（256 块）", "this machine, just now: ms and calls (256 tiles)"))
tiles = 32, 64, 128, 256, 512, 1024
start, tuned = (354, 131, 74, 53, 51, 69), (228, 87, 48, 42, 38, 46)
curve.plot(tiles, start, "o-", color=PALETTE[0], label=label("起点，只改块", "the start, other tiles"))
curve.plot(tiles, tuned, "o-", color=PALETTE[1], label=label("再就地更新", "and updated in place"))
curve.axhline(131 / 1.5, color=PALETTE[3], ls="--", lw=1)
curve.text(1024, 131 / 1.5, label("快 1.5 倍", "1.5 times as fast"), ha="right", va="bottom", color=PALETTE[3])
curve.set(xscale="log", yscale="log", xticks=tiles, xticklabels=tiles)
curve.set(yticks=(50, 100, 200), yticklabels=(50, 100, 200))
curve.minorticks_off()
curve.set(xlabel=label("块的边长", "tile, rows = columns"), ylabel="ms")
curve.set_title(label("AMD EPYC 一个线程，N1=8 S=1024 D=64", "one thread of an AMD EPYC, N1=8 S=1024 D=64"))
curve.legend(frameon=False)
figure.tight_layout()
plt.show()

# %% s4-fast given-check
import statistics
import time

# zh: 交替地计时，用 CPU 时间，取比值的中位数：和判分的量法一样。
# en: In turn, in CPU time, and the median of ratios: the way grading measures.
threads = torch.get_num_threads()
torch.set_num_threads(1)
ratios = []
for _ in range(8):
    q, k, v = torch.randn(1, 8, 1024, 64), torch.randn(1, 4, 1024, 64), torch.randn(1, 4, 1024, 64)
    seconds = {}
    for attention in (slow_attention, fast_attention):
        begin = time.process_time()
        attention(q, k, v)
        seconds[attention] = time.process_time() - begin
    ratios.append(seconds[slow_attention] / seconds[fast_attention])
torch.set_num_threads(threads)
print(f"{statistics.median(ratios):.2f}x  ({min(ratios):.2f} .. {max(ratios):.2f})")
