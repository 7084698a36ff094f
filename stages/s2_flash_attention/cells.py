"""Code cells of stage 2's notebook that are given: pictures, and what one tries out after passing.

``# %% EXERCISE ROLE`` starts a cell. Roles: picture (runs without any answer), given (part of the program that is
graded), given-check (uses the answers; not graded). ``# zh:`` and ``# en:`` comments are kept for one language.
"""
# ruff: noqa: E402, F821

# %% s2-update picture
import torch

from grader.course.figures import PALETTE, label, plt

scores, values = torch.tensor([1.0, 3.0, 5.0, 2.0]), torch.tensor([10.0, 20.0, 30.0, 40.0])
figure, axes = plt.subplots(1, 2, figsize=(9, 2.8), sharey=True)
for ax, seen, title in (
    (axes[0], 2, label("第 1 块之后", "after block 1")),
    (axes[1], 4, label("第 2 块之后", "after block 2")),
):
    row_max = scores[:seen].max()
    bars = torch.exp(scores[:seen] - row_max)
    if seen == 4:
        alone = torch.exp(scores[:2] - scores[:2].max())
        ax.bar(range(2), alone, width=0.6, fill=False, ec=PALETTE[0], linestyle=":", label=label("修正前", "before α"))
        ax.legend(frameon=False)
    ax.bar(range(seen), bars, width=0.6, color=[PALETTE[0], PALETTE[0], PALETTE[1], PALETTE[1]][:seen])
    for column, height in enumerate(bars):
        ax.text(column, height + 0.02, f"{height:.3f}", ha="center")
    ax.set_xticks(range(4), [f"s={s:g}, v={v:g}" for s, v in zip(scores, values, strict=True)])
    row_sum, acc = bars.sum(), (bars * values[:seen]).sum()
    ax.set(title=f"{title}\nm = {row_max:g}   ℓ = {row_sum:.4f}   a = {acc:.4f}", ylim=(0, 1.2), xlim=(-0.5, 3.5))
axes[0].set_ylabel("exp(s - m)")
plt.show()

# %% s2-merge picture
from grader.course.figures import PALETTE, clean, label, plt


def node(ax, x, y, text, color):
    box = {"boxstyle": "round,pad=0.4", "fc": color, "ec": "none"}
    ax.text(x, y, text, ha="center", va="center", color="white", bbox=box)


def arrow(ax, start, end):
    ax.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": PALETTE[5], "shrinkA": 12, "shrinkB": 13})


figure, (chain, tree) = plt.subplots(1, 2, figsize=(10, 2.6))
for block in range(4):
    for ax in (chain, tree):
        node(ax, block, 0, f"K{block} V{block}", PALETTE[0])
    node(chain, block, 1, ("a", "ab", "abc", "abcd")[block], PALETTE[1])
    arrow(chain, (block, 0), (block, 1))
    if block:
        arrow(chain, (block - 1, 1), (block, 1))
    arrow(tree, (block, 0), (0.5 if block < 2 else 2.5, 1))
for x, text in ((0.5, "ab"), (2.5, "cd")):
    node(tree, x, 1, text, PALETTE[1])
    arrow(tree, (x, 1), (1.5, 2))
node(tree, 1.5, 2, "abcd", PALETTE[2])
chain.set_title(label("一个核，依次合并", "one core, one after another"))
tree.set_title(label("多个核各算一段，再两两合并", "several cores, merged in pairs"))
chain.set(xlim=(-0.6, 3.6), ylim=(-0.5, 1.6))
tree.set(xlim=(-0.6, 3.6), ylim=(-0.5, 2.5))
clean(chain, tree)
plt.show()

# %% s2-tiles picture
import torch

from grader.course.figures import PALETTE, plt

S1, S2, block = 10, 14, 4
diagonal, keys = torch.arange(S1)[:, None] + S2 - S1, torch.arange(S2)
panels = (
    ("mask_mode = 0", torch.ones(S1, S2, dtype=torch.bool)),
    ("mask_mode = 3", keys <= diagonal),
    ("mask_mode = 4, win_left = 3, win_right = 1", (keys >= diagonal - 3) & (keys <= diagonal + 1)),
)
figure, axes = plt.subplots(1, 3, figsize=(11, 3.1))
for ax, (title, visible) in zip(axes, panels, strict=True):
    ax.pcolormesh(visible, cmap="Blues", vmin=0, vmax=1.6, edgecolors="white", linewidth=1)
    for top in range(0, S1, block):
        for left in range(0, S2, block):
            tile = visible[top : top + block, left : left + block]
            if tile.any():
                color = PALETTE[2] if tile.all() else PALETTE[3]
                height, width = tile.shape
                corner = (left + 0.12, top + 0.12)
                ax.add_patch(plt.Rectangle(corner, width - 0.24, height - 0.24, fill=False, ec=color, lw=2.5))
    ax.set_xticks([*range(0, S2, block), S2])
    ax.set_yticks([*range(0, S1, block), S1])
    ax.set(title=title, xlabel="key j", aspect="equal")
    ax.invert_yaxis()
axes[0].set_ylabel("query i")
plt.show()

# %% s2-forward picture
from grader.course.figures import INK, MASKED, PALETTE, clean, label, plt

figure, ax = plt.subplots(figsize=(8, 5))


def matrix(x, y, width, height, name, steps_x=1, steps_y=1, dashed=False):
    style = {"fill": not dashed, "fc": MASKED, "ec": PALETTE[5], "lw": 1, "linestyle": ":" if dashed else "-"}
    for i in range(steps_x):
        for j in range(steps_y):
            w, h = width / steps_x, height / steps_y
            ax.add_patch(plt.Rectangle((x + i * w, y + j * h), w, h, **style))
    ax.text(x + width / 2, y + height + 0.1, name, ha="center", color=INK)


def tile(x, y, width, height, text, color):
    ax.add_patch(plt.Rectangle((x, y), width, height, color=color))
    ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", color="white", fontsize=9)


matrix(0, 0, 1, 4, "Q  [S1, D]", steps_y=4)
matrix(1.6, 0, 5, 4, label("S：从未整体存在", "S: never whole"), steps_x=5, steps_y=4, dashed=True)
matrix(1.6, 4.7, 5, 1, "Kᵀ  [D, S2]", steps_x=5)
matrix(1.6, 6.2, 5, 1, "Vᵀ  [Dv, S2]", steps_x=5)
matrix(7.2, 0, 1, 4, "O  [S1, Dv]", steps_y=4)
tile(0, 2, 1, 1, "Q_i", PALETTE[0])
tile(3.6, 2, 1, 1, "S_ij", PALETTE[1])
tile(3.6, 4.7, 1, 1, "K_j", PALETTE[0])
tile(3.6, 6.2, 1, 1, "V_j", PALETTE[0])
tile(7.2, 2, 1, 1, "m, ℓ, a", PALETTE[2])
arrow = {"arrowstyle": "->", "color": INK, "lw": 1.5}
ax.annotate("", (6.5, 2.5), (4.8, 2.5), arrowprops=arrow)
ax.text(5.65, 3.1, label("j 在内层", "j inside"), ha="center", color=INK)
ax.annotate("", (-0.25, 0.2), (-0.25, 2.9), arrowprops=arrow)
ax.text(-0.35, 1.4, label("i 在外层", "i outside"), ha="right", color=INK)
ax.set(xlim=(-1.8, 8.5), ylim=(-0.2, 7.7), aspect="equal")
clean(ax)
plt.show()

# %% s2-module picture
from grader.course.figures import PALETTE, plt

block_size = 256
figure, axes = plt.subplots(1, 2, figsize=(7, 2.9))
for ax, N in zip(axes, (128, 600), strict=True):
    for count, (top, left) in enumerate((i, j) for i in range(0, N, block_size) for j in range(0, N, block_size)):
        height, width = min(block_size, N - top), min(block_size, N - left)
        ax.add_patch(plt.Rectangle((left, top), width, height, fc=PALETTE[0], ec="white", lw=2))
        ax.text(left + width / 2, top + height / 2, count + 1, ha="center", va="center", color="white")
    ax.set(title=f"N = {N}, block_size = 256", xlabel="key", ylabel="query")
    ax.set(xlim=(0, 600), ylim=(600, 0), aspect="equal")
    ax.set_xticks(sorted({0, min(256, N), min(512, N), N}))
    ax.set_yticks(sorted({0, min(256, N), min(512, N), N}))
plt.show()


# %% s2-module given
class StandardAttention(nn.Module):
    """Multi-head self-attention with the whole score matrix, to compare with: [B, N, D] -> [B, N, D]."""

    def __init__(self, hidden_dim: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.q_proj = nn.Linear(hidden_dim, hidden_dim)
        self.k_proj = nn.Linear(hidden_dim, hidden_dim)
        self.v_proj = nn.Linear(hidden_dim, hidden_dim)
        self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, N, D = x.shape
        Q, K, V = (p(x).view(B, N, self.num_heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(self.head_dim), dim=-1)
        return self.out_proj((weights @ V).transpose(1, 2).reshape(B, N, D))


# %% s2-module given-check
# zh: 先共享权重，再比较；N 大于 block_size，且不是它的倍数
# en: share the weights first, then compare; N exceeds block_size and is no multiple of it
model = FlashAttentionV1(hidden_dim=768, num_heads=12, block_size=256)
standard_model = StandardAttention(hidden_dim=768, num_heads=12)
standard_model.load_state_dict(model.state_dict())
x = torch.randn(2, 600, 768)
with torch.no_grad():
    output, standard_output = model(x), standard_model(x)
print(output.shape, "max error", (output - standard_output).abs().max().item())

# %% s2-backward picture
from grader.course.figures import INK, PALETTE, clean, label, plt

CUBE, VECTOR, INPUT = PALETTE[0], PALETTE[1], PALETTE[5]
nodes = {
    "Q, K": (0, 3, INPUT), "S = scale·QKᵀ": (2, 3, CUBE), "P = exp(S - lse)": (4.3, 3, VECTOR),
    "dO, V": (0, 2, INPUT), "dP = dO·Vᵀ": (2, 2, CUBE), "dS = P ⊙ (dP - D)": (4.3, 2, VECTOR),
    "dV += Pᵀ·dO": (7, 3, CUBE), "dQ += dS·K": (7, 2, CUBE),
    "dO, O": (0, 1, INPUT), "D = rowsum(dO ⊙ O)": (2, 1, VECTOR), "dK += dSᵀ·Q": (7, 1, CUBE),
}  # fmt: skip
edges = (
    ("Q, K", "S = scale·QKᵀ"), ("S = scale·QKᵀ", "P = exp(S - lse)"), ("P = exp(S - lse)", "dV += Pᵀ·dO"),
    ("dO, V", "dP = dO·Vᵀ"), ("dP = dO·Vᵀ", "dS = P ⊙ (dP - D)"), ("dS = P ⊙ (dP - D)", "dQ += dS·K"),
    ("dO, O", "D = rowsum(dO ⊙ O)"), ("D = rowsum(dO ⊙ O)", "dS = P ⊙ (dP - D)"),
    ("P = exp(S - lse)", "dS = P ⊙ (dP - D)"), ("dS = P ⊙ (dP - D)", "dK += dSᵀ·Q"),
)  # fmt: skip
figure, ax = plt.subplots(figsize=(10, 3))
boxes = {}
for text, (x, y, color) in nodes.items():
    style = {"boxstyle": "round,pad=0.4", "fc": color, "ec": "none"}
    boxes[text] = ax.text(x, y, text, ha="center", va="center", color="white", bbox=style).get_bbox_patch()
for start, end in edges:
    style = {"arrowstyle": "->", "color": INK, "patchA": boxes[start], "patchB": boxes[end], "shrinkA": 0, "shrinkB": 1}
    ax.annotate("", nodes[end][:2], nodes[start][:2], arrowprops=style)
for x, (text, color) in enumerate(((label("输入", "inputs"), INPUT), ("Cube", CUBE), ("Vector", VECTOR))):
    ax.text(1.5 * x, 0.2, f"■ {text}", color=color)
ax.set(xlim=(-0.8, 8.2), ylim=(0, 3.5))
clean(ax)
plt.show()

# %% s2-function picture
import torch

from grader.course.figures import PALETTE, label, plt

heads, dim = 16, 128
length = 2 ** torch.arange(9, 18)
figure, ax = plt.subplots(figsize=(7, 3))
ax.loglog(length, heads * length**2 * 2 / 2**20, "o-", color=PALETTE[3], label="P, float16")
ax.loglog(length, heads * length * (dim * 2 + 4) / 2**20, "o-", color=PALETTE[0], label="O + softmax_lse")
ax.axhline(64 * 1024, color=PALETTE[5], linestyle="--", linewidth=1)
ax.text(600, 64 * 1024 * 1.25, label("910B2 的全部显存 64 GiB", "all memory of a 910B2, 64 GiB"), color=PALETTE[5])
ax.set(xlabel="S", ylabel="MiB", title="B = 1, N = 16, D = 128")
ax.legend(frameon=False, loc="lower right")
plt.show()

# %% s2-varlen picture
import torch

from grader.course.figures import PALETTE, plt

cu_q, cu_kv = [0, 3, 3, 8], [0, 4, 6, 11]
image = torch.zeros(cu_q[-1], cu_kv[-1])
for b in range(3):
    S1, S2 = cu_q[b + 1] - cu_q[b], cu_kv[b + 1] - cu_kv[b]
    visible = torch.arange(S2) <= torch.arange(S1)[:, None] + S2 - S1
    image[cu_q[b] : cu_q[b + 1], cu_kv[b] : cu_kv[b + 1]] = 0.3 + 0.7 * visible
figure, ax = plt.subplots(figsize=(6, 3.4))
ax.pcolormesh(image, cmap="Blues", vmin=0, vmax=1.5, edgecolors="white", linewidth=2)
for b in (0, 2):
    corner, width, height = (cu_kv[b], cu_q[b]), cu_kv[b + 1] - cu_kv[b], cu_q[b + 1] - cu_q[b]
    ax.add_patch(plt.Rectangle(corner, width, height, fill=False, ec=PALETTE[1], lw=2))
ax.set_xticks(cu_kv)
ax.set_yticks(sorted(set(cu_q)))
ax.set(xlabel=f"cu_seqlens_kv = {cu_kv}", ylabel=f"cu_seqlens_q = {cu_q}", aspect="equal")
ax.invert_yaxis()
plt.show()

# %% s2-traffic picture
import torch

from grader.course.figures import PALETTE, label, plt

D = 128
length = 2 ** torch.arange(9, 16)
figure, ax = plt.subplots(figsize=(7, 3))
standard = label("标准 Attention", "standard attention")
for block_q, color in ((64, PALETTE[4]), (128, PALETTE[0]), (256, PALETTE[2])):
    passes = (length / block_q).ceil()
    ax.loglog(length, (1 + passes) * 2 * D * length, "o-", color=color, label=f"block_q = {block_q}")
ax.loglog(length, 4 * D * length + 4 * length**2, "--", color=PALETTE[3], linewidth=2.5, label=standard)
ax.set(xlabel="S", title=label("每个头搬运的元素个数，D = 128", "elements moved per head, D = 128"))
ax.legend(frameon=False)
plt.show()

# %% s2-traffic given-check
for block_q in (64, 128, 256):
    cost = flash_traffic(1, 16, 8192, 8192, 128, block_q, 128, 2)
    intensity = cost["flops"] / cost["hbm_bytes"]
    print(f"block_q={block_q:4d}  {cost['hbm_bytes'] / 2**20:8.1f} MiB  {intensity:6.0f} flop/byte")
