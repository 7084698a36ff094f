"""Code cells of stage 1's notebook that are given: pictures, and what one tries out after passing.

``# %% EXERCISE ROLE`` starts a cell. Roles: picture (runs without any answer), given (part of the program that is
graded), given-check (uses the answers; not graded). ``# zh:`` and ``# en:`` comments are kept for one language.
"""
# ruff: noqa: E402, F821

# %% s1-softmax picture
import torch

from grader.course.figures import PALETTE, label, plt

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 2.8))
x = torch.linspace(-5, 100, 300, dtype=torch.float64)
left.semilogy(x, x.exp(), color=PALETTE[0])
for name, dtype, color in (("float16", torch.float16, PALETTE[1]), ("float32", torch.float32, PALETTE[3])):
    biggest = torch.finfo(dtype).max
    left.axhline(biggest, color=color, linestyle="--", linewidth=1)
    left.text(22, biggest * 5, f"{name}: x > {torch.tensor(biggest, dtype=torch.float64).log():.1f} → inf", color=color)
left.set(title="exp(x)", xlabel="x", ylim=(1e-3, 1e44))

logits = torch.tensor([1000.0, 1001.0, 1002.0])
shifted = torch.exp(logits - logits.max())
right.bar([str(int(v)) for v in logits], shifted, color=PALETTE[0], width=0.5, label="exp(x - m)")
right.plot([0, 1, 2], shifted / shifted.sum(), "o", color=PALETTE[1], label="softmax(x)")
right.set(title="m = 1002", ylim=(0, 1.15))
right.set_xlabel(label("x 的三个分量", "the three entries of x"))
right.legend(frameon=False)
plt.show()

# %% s1-attention picture
import torch

from grader.course.figures import PALETTE, VISIBLE, clean, label, plt

S1, S2, N1, N2 = 4, 6, 6, 2
rows, keys = torch.arange(S1)[:, None], torch.arange(S2)
figure, axes = plt.subplots(1, 3, figsize=(10, 2.8), width_ratios=[1, 1, 1.1])
for ax, offset, title in (
    (axes[0], S2 - S1, label("右下角对齐（正确）", "bottom right (right)")),
    (axes[1], 0, label("左上角对齐（错误）", "top left (wrong)")),
):
    ax.pcolormesh(keys <= rows + offset, cmap="Blues", vmin=0, vmax=1.4, edgecolors="white", linewidth=2)
    ax.set(title=title, xlabel="key j", ylabel="query i", aspect="equal")
    ax.set_xticks(torch.arange(S2) + 0.5, range(S2))
    ax.set_yticks(torch.arange(S1) + 0.5, range(S1))
    ax.invert_yaxis()

for head in range(N1):
    group = head // (N1 // N2)
    axes[2].plot([head, 1 + 3 * group], [1, 0], color=PALETTE[group])
    axes[2].text(head, 1.05, f"q{head}", ha="center", color=VISIBLE)
for head in range(N2):
    axes[2].text(1 + 3 * head, -0.16, f"kv{head}", ha="center", color=PALETTE[head])
axes[2].set(title="N1 = 6, N2 = 2", ylim=(-0.3, 1.3))
clean(axes[2])
plt.show()

# %% s1-module picture
import torch

from grader.course.figures import PALETTE, clean, label, plt

N, H, d = 4, 2, 3
token = torch.arange(N)[:, None].expand(N, H * d)
channel = torch.arange(H * d).expand(N, H * d)


def split(matrix, right):
    return matrix.reshape(N, H, d).transpose(0, 1) if right else matrix.reshape(H, N, d)


def draw(ax, tokens, channels, title):
    for row in range(tokens.shape[0]):
        for column in range(tokens.shape[1]):
            ax.add_patch(plt.Rectangle((column, row), 1, 1, color=PALETTE[tokens[row, column]], ec="white", lw=2))
            ax.text(column + 0.5, row + 0.5, int(channels[row, column]), ha="center", va="center", color="white")
    ax.set(title=title, xlim=(0, tokens.shape[1]), ylim=(tokens.shape[0], 0), aspect="equal")
    clean(ax)


figure, axes = plt.subplots(1, 5, figsize=(10, 2.4), width_ratios=[2, 1, 1, 1, 1])
draw(axes[0], token, channel, "x: [N, D] = [4, 6]")
for start, right, title in ((1, True, "view + transpose"), (3, False, label("只 view（错误）", "view only (wrong)"))):
    for head in range(H):
        tokens, channels = split(token.contiguous(), right)[head], split(channel.contiguous(), right)[head]
        draw(axes[start + head], tokens, channels, f"head {head}")
    axes[start].text(0, -1.1, title, fontsize=11)
plt.show()

# %% s1-module given-check
# zh: 形状应为 [2, 128, 768]
# en: the shape should be [2, 128, 768]
model = StandardAttention(hidden_dim=768, num_heads=12)
x = torch.randn(2, 128, 768)  # [B=2, N=128, D=768]
output = model(x)
print(output.shape)

# %% s1-cost picture
import torch

from grader.course.figures import PALETTE, label, plt

peak, bandwidth = 353.9e12, 1.6e12  # 910B2: float16 flop/s, byte/s
intensity = torch.logspace(-1, 4, 200)
figure, ax = plt.subplots(figsize=(7, 3))
ax.loglog(intensity, torch.clamp(intensity * bandwidth, max=peak) / 1e12, color=PALETTE[0], linewidth=2)
ax.axvline(peak / bandwidth, color=PALETTE[5], linestyle=":")
n = 4096
product = 2 * n**3 / (3 * n * n * 2)  # [n, n] × [n, n], float16
for where, name in ((2 / 4, label("逐元素乘法", "elementwise product")), (product, f"[{n}, {n}] × [{n}, {n}]")):
    rate = min(where * bandwidth, peak) / 1e12
    ax.plot(where, rate, "o", color=PALETTE[1])
    ax.annotate(name, (where, rate), (8, -14), textcoords="offset points", color=PALETTE[1])
ax.set(xlabel="flop / byte", ylabel="TFLOPS", title="910B2: 353.9 TFLOPS, 1.6 TB/s", ylim=(0.05, 900))
ax.text(peak / bandwidth * 1.1, 0.1, f"{peak / bandwidth:.0f} flop/byte", color=PALETTE[5])
plt.show()

# %% s1-cost given-check
peak, bandwidth = 353.9e12, 1.6e12  # 910B2: float16 flop/s, byte/s
for length in (1024, 4096, 16384):
    cost = attention_cost(1, 16, length, length, 128, 2)
    compute, move = cost["flops"] / peak * 1e3, cost["hbm_bytes"] / bandwidth * 1e3
    intensity = cost["flops"] / cost["hbm_bytes"]
    print(f"S={length:6d}  {intensity:5.1f} flop/byte  cube {compute:6.3f} ms  HBM {move:6.3f} ms")
