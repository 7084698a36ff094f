"""Code cells of stage 3's notebook that are given: pictures, and what one tries out after passing.

``# %% EXERCISE ROLE`` starts a cell. Roles: picture (runs without any answer), given (part of the program that is
graded), given-check (uses the answers; not graded). ``# zh:`` and ``# en:`` comments are kept for one language.
"""
# ruff: noqa: E402, F821

# %% s3-environment picture
from grader.course.figures import INK, PALETTE, clean, label, plt

figure, ax = plt.subplots(figsize=(10, 2.9))
layers = (
    (label("驱动与固件", "driver and firmware"), "npu-smi info"),
    ("CANN", "source set_env.sh"),
    ("torch + torch_npu", label("成对的版本", "versions in pairs")),
    ("cann_ops_transformer", label("只有 950", "950 only")),
)
for level, (name, note) in enumerate(layers):
    ax.add_patch(plt.Rectangle((0, level), 4, 0.86, color=PALETTE[0] if level < 3 else PALETTE[1]))
    ax.text(2, level + 0.43, name, ha="center", va="center", color="white")
    ax.text(4.15, level + 0.43, note, va="center", color=INK)
routes = (("950", "flash_attn", PALETTE[1], 3.43), ("910B, 910_93", "npu_fusion_attention", PALETTE[0], 2.43))
for chip, operator, color, height in routes:
    ax.annotate("", (9.1, height), (6.6, height), arrowprops={"arrowstyle": "->", "color": color, "lw": 2})
    ax.text(7.8, height + 0.12, chip, ha="center", color=color)
    ax.text(9.2, height, operator, va="center", color=color)
ax.set(xlim=(0, 12), ylim=(-0.1, 4.1))
clean(ax)
plt.show()

# %% s3-environment given-check
import torch_npu

# zh: 这台机器（或模拟的芯片）自己的答案
# en: what this machine, or the chip it emulates, says
soc = torch_npu.npu.get_device_name().split()[0]
print(soc, (getattr(torch_npu, "__emulated__", False) and "emulated") or "real")
print(plan_environment(soc, torch.__version__, torch_npu.__version__))

# %% s3-build picture
from grader.course.figures import INK, PALETTE, clean, label, plt

figure, ax = plt.subplots(figsize=(10, 3.2))
places = (
    (0, 1.5, label("源码", "sources"), "git pull", PALETTE[5]),
    (3, 1.5, "build_out/", "*.run   *.whl", PALETTE[0]),
    (6.6, 2.6, "${CANN_DIR}/vendors", label("算子", "operators"), PALETTE[2]),
    (6.6, 0.4, "site-packages", "cann_ops_transformer", PALETTE[2]),
    (10, 0.4, "torch_extensions", label("~/.cache，首次导入时生成", "~/.cache, by the first import"), PALETTE[4]),
    (10, 2.6, label("你的 Python 进程", "your Python process"), label("装载后不再更新", "never reloads"), PALETTE[1]),
)
for x, y, name, note, color in places:
    ax.add_patch(plt.Rectangle((x, y), 2.5, 1.1, color=color))
    ax.text(x + 1.25, y + 0.7, name, ha="center", va="center", color="white", fontsize=9)
    ax.text(x + 1.25, y + 0.3, note, ha="center", va="center", color="white", fontsize=8)
moves = (((2.5, 2.05), (3, 2.05)), ((5.5, 2.3), (6.6, 3.1)), ((5.5, 1.8), (6.6, 1.0)), ((9.1, 1.0), (10, 1.0)))
for start, end in (*moves, ((9.1, 3.1), (10, 3.1)), ((11.25, 1.5), (11.25, 2.6))):
    ax.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": INK, "lw": 1.5})
ax.text(6.0, 0.0, label("每一格都可能是旧的", "each of these can be stale"), color=PALETTE[3], ha="center")
ax.set(xlim=(-0.2, 12.7), ylim=(-0.3, 4))
clean(ax)
plt.show()

# %% s3-forward picture
from grader.course.figures import PALETTE, clean, label, plt

S, N = 4, 3
figure, axes = plt.subplots(2, 1, figsize=(9, 2.5))
orders = (
    ("BSND", [(s, n) for s in range(S) for n in range(N)]),
    ("BNSD", [(s, n) for n in range(N) for s in range(S)]),
)
for ax, (layout, order) in zip(axes, orders, strict=True):
    for place, (s, n) in enumerate(order):
        ax.add_patch(plt.Rectangle((place, 0), 0.94, 1, color=PALETTE[n]))
        ax.text(place + 0.47, 0.5, f"s{s} n{n}", ha="center", va="center", color="white", fontsize=9)
    ax.set_title(
        f"{layout}: " + label("内存里的次序，每格是 D 个数", "order in memory, D numbers in each"), fontsize=10
    )
    ax.set(xlim=(0, S * N), ylim=(-0.05, 1.1))
clean(*axes)
plt.tight_layout()
plt.show()

# %% s3-forward given-check
# zh: 官方联合示例的形状；与整块矩阵的 float32 结果比较
# en: the shape of the official joint example, compared with the whole matrix in float32
B, S, N1, N2, D = 2, 128, 8, 2, 128
q, k, v = (torch.randn(B, S, n, D, dtype=torch.float16, device="npu") for n in (N1, N2, N2))
attn_out, softmax_lse = npu_flash_attention(q, k, v, scale=D**-0.5)
scores = torch.einsum("bqnd,bknd->bnqk", q.float(), k.float().repeat_interleave(N1 // N2, dim=2)) * D**-0.5
reference = torch.einsum("bnqk,bknd->bqnd", scores.softmax(-1), v.float().repeat_interleave(N1 // N2, dim=2))
print(attn_out.device, list(attn_out.shape), list(softmax_lse.shape))
print("max error", (attn_out - reference).abs().max().item(), (softmax_lse - scores.logsumexp(-1)).abs().max().item())

# %% s3-function picture
from grader.course.figures import INK, PALETTE, clean, label, plt

figure, ax = plt.subplots(figsize=(10, 2.6))
boxes = {}
for text, (x, y, color) in {
    "flash_attn_metadata": (0, 1, PALETTE[5]),
    "flash_attn": (3, 1.6, PALETTE[0]),
    "flash_attn_grad": (6.6, 0.4, PALETTE[1]),
    "attn_out, softmax_lse": (5.6, 1.6, PALETTE[2]),
    "dq, dk, dv": (9, 0.4, PALETTE[2]),
    "q, k, v": (3, 0.4, PALETTE[2]),
    "dout": (9, 1.6, PALETTE[2]),
}.items():
    style = {"boxstyle": "round,pad=0.4", "fc": color, "ec": "none"}
    boxes[text] = ax.text(x, y, text, ha="center", va="center", color="white", bbox=style)
for start, end in (
    ("flash_attn_metadata", "flash_attn"), ("flash_attn_metadata", "flash_attn_grad"), ("q, k, v", "flash_attn"),
    ("flash_attn", "attn_out, softmax_lse"), ("attn_out, softmax_lse", "flash_attn_grad"),
    ("q, k, v", "flash_attn_grad"), ("dout", "flash_attn_grad"), ("flash_attn_grad", "dq, dk, dv"),
):  # fmt: skip
    ends = {"patchA": boxes[start].get_bbox_patch(), "patchB": boxes[end].get_bbox_patch(), "shrinkA": 0, "shrinkB": 1}
    style = {"arrowstyle": "->", "color": INK, **ends}
    ax.annotate("", boxes[end].get_position(), boxes[start].get_position(), arrowprops=style)
ax.set_title(label("一份 metadata（is_grad_enabled=True）供两个算子用", "one metadata (is_grad_enabled=True) for both"))
ax.set(xlim=(-1.6, 10.2), ylim=(0, 2))
clean(ax)
plt.show()

# %% s3-function given-check
# zh: 训练要的就是这些梯度；softmax_lse 不参与求导
# en: these are the gradients that training needs; softmax_lse has none
q, k, v = (torch.randn(2, 128, n, 128, dtype=torch.float16, device="npu", requires_grad=True) for n in (8, 2, 2))
attn_out, softmax_lse = NpuFlashAttentionFunction.apply(q, k, v, 128**-0.5, 3)
attn_out.float().square().mean().backward()
print(softmax_lse.requires_grad, [list(x.grad.shape) for x in (q, k, v)], q.grad.dtype)


# %% s3-module picture
import torch

from grader.course.figures import PALETTE, label, plt

steps, update = 60, 3e-4
figure, ax = plt.subplots(figsize=(7, 2.6))
for dtype, color in ((torch.float32, PALETTE[0]), (torch.bfloat16, PALETTE[1]), (torch.float16, PALETTE[3])):
    value, path = torch.tensor(1.0, dtype=dtype), []
    for _ in range(steps):
        value = value + update
        path.append(value.item())
    ax.plot(path, color=color, label=str(dtype))
ax.set(xlabel=label("步", "step"), title=label("一个参数，每步加 3e-4", "a parameter that grows by 3e-4 each step"))
ax.legend(frameon=False)
plt.show()


# %% s3-module given
class StandardAttention(nn.Module):
    """Multi-head self-attention with the whole score matrix in float32, to compare with: [B, N, D] -> [B, N, D]."""

    def __init__(self, hidden_dim: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj, self.k_proj = nn.Linear(hidden_dim, hidden_dim), nn.Linear(hidden_dim, hidden_dim)
        self.v_proj, self.out_proj = nn.Linear(hidden_dim, hidden_dim), nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, N, C = x.shape
        Q, K, V = (p(x).view(B, N, self.num_heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1]), dim=-1)
        return self.out_proj((weights @ V).transpose(1, 2).reshape(B, N, C))


# %% s3-module given-check
# zh: 共享权重再比较；然后是学习路线里的程序，改正之后：推理、训练一步
# en: share the weights, then compare; then the roadmap's program, put right: inference, one step of training
model, standard_model = NpuFlashAttention(768, 12).npu(), StandardAttention(768, 12).npu()
standard_model.load_state_dict(model.state_dict())
x = torch.randn(2, 128, 768, device="npu")
with torch.no_grad():
    print("max error", (model(x) - standard_model(x)).abs().max().item())

from ops_transformer import FlashAttention

model = FlashAttention(hidden_dim=768, num_heads=12, block_size=256).npu()
embedding, head = nn.Embedding(30000, 768).npu(), nn.Linear(768, 30000).npu()
input_ids, labels = (torch.randint(0, 30000, (2, 128)).npu() for _ in range(2))
with torch.no_grad():
    print(model(embedding(input_ids)).shape)
optimizer = torch.optim.AdamW([p for part in (embedding, model, head) for p in part.parameters()], lr=5e-5)
loss = nn.CrossEntropyLoss()(head(model(embedding(input_ids))).view(-1, 30000), labels.view(-1))
loss.backward()
optimizer.step()
print(f"Loss: {loss.item():.4f}, ln 30000 = {math.log(30000):.4f}")

# %% s3-varlen picture
from grader.course.figures import INK, PALETTE, clean, label, plt

lengths, names = (3, 0, 5), ("a", "b", "c")
bounds = [sum(lengths[:b]) for b in range(4)]
figure, ax = plt.subplots(figsize=(9, 2.2))
for b, name in enumerate(names):
    for place in range(bounds[b], bounds[b + 1]):
        ax.add_patch(plt.Rectangle((place + 0.03, 1), 0.94, 0.8, color=PALETTE[2 * b % 3]))
        ax.text(place + 0.5, 1.4, f"{name}{place - bounds[b]}", ha="center", va="center", color="white")
for convention, row, first, color in (("950", 2.1, 0, PALETTE[0]), ("910B", 0.4, 1, PALETTE[1])):
    values = bounds[first:]
    ax.text(-0.4, row + 0.1, f"{convention}: {values}", ha="right", va="center", color=color)
    for value in sorted(set(values)):
        ax.plot([value, value], [0.9, 1.9], color=INK, linewidth=1)
        times = values.count(value)
        ax.text(
            value, row + 0.1, f"{value}" + (f" ×{times}" if times > 1 else ""), ha="center", va="center", color=color
        )
ax.set_title(
    label("三条序列，长度 3、0、5；b 是空的", "three sequences of lengths 3, 0 and 5; b is empty"), fontsize=10
)
ax.set(xlim=(-3.4, 8.4), ylim=(0, 2.6))
clean(ax)
plt.show()

# %% s3-fusion picture
import torch

from grader.course.figures import label, plt

S1, S2 = 5, 9
query, key = torch.arange(S1)[:, None], torch.arange(S2)
distance = key - query - (S2 - S1)
panels = (
    ("sparse_mode = 2\n" + label("左上对齐", "top-left"), key <= query),
    ("sparse_mode = 3\n" + label("右下对齐", "bottom-right"), key <= query + S2 - S1),
    ("sparse_mode = 4\npre_tockens = 3, next_tockens = 1", (distance >= -3) & (distance <= 1)),
)
figure, axes = plt.subplots(1, 3, figsize=(11, 2.6))
for ax, (title, mask) in zip(axes, panels, strict=True):
    ax.pcolormesh(mask, cmap="Blues", vmin=0, vmax=1.6, edgecolors="white", linewidth=1)
    ax.set_title(title, fontsize=10)
    ax.set(xlabel="key j", aspect="equal")
    ax.invert_yaxis()
axes[0].set_ylabel("query i")
plt.show()

# %% s3-train picture
from grader.course.figures import PALETTE, clean, label, plt

text = label("曲线往下走他喝茶", "curve down so tea")
figure, ax = plt.subplots(figsize=(9, 1.9))
for place, letter in enumerate(text):
    if place < len(text) - 1:
        ax.add_patch(plt.Rectangle((place, 1.2), 0.9, 0.8, color=PALETTE[0]))
        ax.text(place + 0.45, 1.6, letter, ha="center", va="center", color="white")
        ax.add_patch(plt.Rectangle((place, 0), 0.9, 0.8, color=PALETTE[1]))
        ax.text(place + 0.45, 0.4, text[place + 1], ha="center", va="center", color="white")
        ax.annotate("", (place + 0.45, 0.82), (place + 0.45, 1.18), arrowprops={"arrowstyle": "->"})
ax.text(-0.2, 1.6, label("输入", "inputs") + " batch[:, :-1]", ha="right", va="center", color=PALETTE[0])
ax.text(-0.2, 0.4, label("目标", "targets") + " batch[:, 1:]", ha="right", va="center", color=PALETTE[1])
ax.set(xlim=(-4.5, len(text)), ylim=(-0.1, 2.1))
clean(ax)
plt.show()

# %% s3-train given-check
from grader import paths
from grader.course.figures import PALETTE, plt

# zh: 仓库里的一小段文字，按字符编号；两条曲线应当重合
# en: a short text from the repository, one number per character; the two curves should coincide
text = (paths.STAGES / "s3_npu_deployment" / "corpus.txt").read_text("utf-8")
letters = sorted(set(text))
tokens = torch.tensor([letters.index(letter) for letter in text]).npu()
flash = train(60, tokens, vocab=len(letters))
standard = train(60, tokens, vocab=len(letters), attention="standard")
figure, ax = plt.subplots(figsize=(7, 3))
ax.plot(standard, color=PALETTE[1], linewidth=4, alpha=0.5, label="standard")
ax.plot(flash, color=PALETTE[0], label="flash")
ax.axhline(math.log(len(letters)), color=PALETTE[5], linestyle=":")
ax.text(45, math.log(len(letters)) + 0.08, f"ln {len(letters)}", color=PALETTE[5])
ax.set(xlabel="step", ylabel="loss")
ax.legend(frameon=False)
plt.show()
print(f"{flash[0]:.3f} -> {flash[-1]:.3f}; largest difference {max(abs(a - b) for a, b in zip(flash, standard)):.4f}")

# %% s3-speed picture
from grader.course.figures import INK, PALETTE, clean, label, plt

figure, ax = plt.subplots(figsize=(10, 2.2))
for call in range(4):
    ax.add_patch(plt.Rectangle((0.5 * call, 1.2), 0.4, 0.6, color=PALETTE[0]))
    ax.add_patch(plt.Rectangle((0.4 + 2.2 * call, 0.2), 2.1, 0.6, color=PALETTE[1]))
    ax.annotate("", (0.45 + 2.2 * call, 0.82), (0.5 * call + 0.3, 1.18), arrowprops={"arrowstyle": "->", "color": INK})
ax.axvline(2.0, color=PALETTE[3], linestyle="--")
ax.text(
    2.1, 1.5, label("循环结束：此刻看表，量到的是下发", "the loop ends: the clock shows launching"), color=PALETTE[3]
)
ax.axvline(9.2, color=PALETTE[2], linestyle="--")
ax.text(9.1, 1.0, label("synchronize() 之后", "after synchronize()"), ha="right", color=PALETTE[2])
ax.text(-0.1, 1.5, label("主机", "host"), ha="right", va="center")
ax.text(-0.1, 0.5, label("设备", "device"), ha="right", va="center")
ax.set(xlim=(-1, 10), ylim=(0, 2))
clean(ax)
plt.show()

# %% s3-speed given-check
# zh: 原文的形状 [2, 128, 768]、12 个头。没有 NPU 时，这是本机 CPU 模拟的速度，不是 NPU 的速度
# en: the article's shape [2, 128, 768], 12 heads. Without an NPU this is the CPU's emulation, not the speed of an NPU
model, x = NpuFlashAttention(768, 12).npu(), torch.randn(2, 128, 768, device="npu")
with torch.no_grad():
    rate = measure_speed(lambda: model(x), warmup=5, iters=20)
print(f"{torch_npu.npu.get_device_name()}: {rate:.0f} it/s")
