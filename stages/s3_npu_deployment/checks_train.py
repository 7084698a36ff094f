"""Checks of s3-train. Proof by value: two secret streams of tokens say what losses an honest run must have.

A Markov chain's entropy rate is the best mean loss there is: losses far above have not learned, losses below have seen
their targets. Independent uniform tokens cannot be learned at all: the loss stays at ln V.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.checking.compare import returned
from grader.subject import Outcome, Raised
from grader.vocabulary import Context, check, say

from .npu_calls import FLASH_ATTN, FLASH_ATTN_GRAD, refusals_named, require_operator
from .train_mistakes import RIGHT, losses, markov, name_curve

TRAIN = "train"
VOCAB, LENGTH, LAYERS = 20, 5000, 2
STEPS, UNIFORM_STEPS, SAME_STEPS, SEED_STEPS, CURVE_STEPS, LAST = 26, 14, 6, 3, 14, 6
FALLS = "s3-train.falls"

# measured: the last losses lie 0.1 to 0.3 above the entropy rate, from which ln V is 0.9 and more away; uniform ones
# lie 0 to 0.15 above ln V
BELOW, ABOVE, UNIFORM_BELOW, UNIFORM_ABOVE, START = 0.12, 0.5, 0.1, 0.35, 0.7
# from the losses of the given model with float32 attention: flash ones differ by 2e-4, with a schedule, clipping or
# Adam by up to 0.005; tensors mixed up between layers show as 0.017. The first loss is the same for all of them.
SAME, CURVE, FIRST = 0.01, 0.012, 0.003
EXPONENTIALS = 8 * 32 * VOCAB  # of one step's cross entropy; softmax by hand would add 16384 in every layer
SPARE = 3


def run_training(ctx: Context, steps: int, tokens: Tensor, seed: int, attention: str = "flash") -> Outcome:
    given = {} if attention == "flash" else {"attention": attention}
    try:
        with refusals_named():
            outcome = ctx.subject.call(TRAIN, steps, tokens, vocab=VOCAB, seed=seed, observe=True, **given)
    except Raised as error:
        if error.kind == "IndexError" and "out of range" in error.text:  # CONTEXT + 1 tokens, CONTEXT positions
            error.misconception = "train-targets-not-shifted"
        raise
    require_losses(ctx, outcome.value, steps)
    require_start(ctx, outcome.value, tokens, seed)
    return outcome


def require_losses(ctx: Context, value: Any, steps: int) -> None:
    """A list of ``steps`` finite Python floats."""
    if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
        ctx.fail(
            say(
                "损失是张量：请用 loss.item() 记成 Python 数，否则每一步的计算图都被留住。",
                "The losses are tensors: record loss.item(), a Python number, or the graph of every step is kept.",
            ),
            misconception="train-losses-are-tensors",
            evidence={"got": returned(value)},
        )
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, float) for item in value):
        ctx.fail(
            say(
                "应返回浮点数的列表，得到 {got}。",
                "It must return a list of floats, it returned {got}.",
                got=returned(value),
            ),
            misconception="wrong-return",
            evidence={"got": returned(value)},
        )
    if len(value) != steps or not all(map(math.isfinite, value)):
        ctx.fail(
            say(
                "steps={steps} 时应有 {steps} 个有限的损失，得到 {n} 个。",
                "With steps={steps} there must be {steps} finite losses, there are {n}.",
                steps=steps,
                n=len(value),
            ),
            evidence={"got": [str(item) for item in value[:5]], "expected": steps},
        )


def require_start(ctx: Context, curve: Sequence[float], tokens: Tensor, seed: int) -> None:
    """The first loss is of the order of ln V: a mean, in nats, before the update."""
    want = losses(tokens, VOCAB, 1, seed, RIGHT)[0]
    if abs(curve[0] - want) > START:
        ctx.fail(
            say(
                "第一步的损失应接近 ln V = {want:.2f}，得到 {got:.3f}：模型还没有学过任何东西。",
                "The first loss should be near ln V = {want:.2f}, it is {got:.3f}: nothing has been learned by then.",
                want=math.log(VOCAB),
                got=curve[0],
            ),
            misconception=name_curve(curve, tokens, VOCAB, seed) or "train-first-loss",
            evidence={"got": curve[0], "expected": want},
        )


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def fail_losses(
    ctx: Context, curve: Sequence[float], tokens: Tensor, seed: int, low: float, high: float, got: float
) -> None:
    ctx.fail(
        say(
            "最后几步的平均损失是 {got:.3f}，应在 {low:.2f} 到 {high:.2f} 之间；开头是 {first}。",
            "The mean of the last losses is {got:.3f}; it should lie between {low:.2f} and {high:.2f}. "
            "They begin with {first}.",
            got=got,
            low=low,
            high=high,
            first=", ".join(f"{loss:.3f}" for loss in curve[:4]),
        ),
        misconception=name_curve(curve, tokens, VOCAB, seed) or ("train-targets-visible" if got < low else None),
        evidence={"got": got, "expected": [low, high], "case": f"V={VOCAB} seed={seed} steps={len(curve)}"},
    )


@check(FALLS, points=5, concept="training")
def train_falls(ctx: Context) -> None:
    """A Markov chain: the loss begins near ln V and comes near the entropy rate, by the NPU's operators."""
    tokens, entropy = markov(ctx.rng(), VOCAB, LENGTH)
    seed = int(ctx.rng("seed").integers(1000))
    outcome = run_training(ctx, STEPS, tokens, seed)
    last, low, high = mean(outcome.value[-LAST:]), entropy - BELOW, entropy + ABOVE
    if not low <= last <= high:
        fail_losses(ctx, outcome.value, tokens, seed, low, high, last)
    require_by_operators(ctx, outcome, STEPS)
    require_given_curve(ctx, outcome.value, tokens, seed)


def require_by_operators(ctx: Context, outcome: Outcome, steps: int) -> None:
    """Both operators in every layer of every step, and no softmax but that of the loss."""
    require_operator(ctx, outcome, FLASH_ATTN, FLASH_ATTN_GRAD, least=LAYERS * steps)
    assert outcome.trace is not None
    done, needed = sum(outcome.trace.exponentials.values()), steps * EXPONENTIALS
    if done > SPARE * needed:
        ctx.fail(
            say(
                "除了算子，还算了 {done} 个指数，而损失只需要 {needed} 个：这里另有一份自己写的 softmax。",
                "Beside the operator {done} exponentials were computed, of which the loss needs {needed}: "
                "there is a softmax of your own.",
                done=done,
                needed=needed,
            ),
            misconception="operator-for-show",
            evidence={"got": done, "expected": needed},
        )


def require_given_curve(ctx: Context, curve: Sequence[float], tokens: Tensor, seed: int) -> None:
    """The losses are those of the given model, sampling and optimiser: losses made up in some other way are not."""
    right = losses(tokens, VOCAB, min(len(curve), CURVE_STEPS), seed, RIGHT)
    errors = [abs(a - b) for a, b in zip(curve, right, strict=False)]
    step = 0 if errors[0] > FIRST else max(range(len(errors)), key=errors.__getitem__)
    apart, most = errors[step], CURVE if step else FIRST
    if apart > most:
        ctx.fail(
            say(
                "第 {step} 步的损失是 {got:.3f}，按给定的模型与种子 {seed} 应是 {want:.3f}：改动了骨架给出的代码吗？",
                "The loss of step {step} is {got:.3f}; with seed {seed} the given model and data make it {want:.3f}. "
                "Was the code that the skeleton gives changed?",
                step=step,
                got=curve[step],
                want=right[step],
                seed=seed,
            ),
            misconception="train-seed-ignored"
            if same_start(curve, tokens, 0)
            else name_curve(curve, tokens, VOCAB, seed),
            evidence={"max_error": apart, "tolerance": most, "case": f"V={VOCAB} seed={seed}"},
        )


def same_start(curve: Sequence[float], tokens: Tensor, seed: int) -> bool:
    """Whether the first losses are those of this seed."""
    return all(abs(a - b) <= SAME for a, b in zip(curve, losses(tokens, VOCAB, 4, seed, RIGHT), strict=False))


@check("s3-train.chance", points=3, concept="training", needs=(FALLS,))
def train_chance(ctx: Context) -> None:
    """Independent uniform tokens: nothing can be learned, whatever the curve of before was."""
    tokens = torch.from_numpy(ctx.rng().integers(0, VOCAB, LENGTH))
    seed = int(ctx.rng("seed").integers(1000))
    outcome = run_training(ctx, UNIFORM_STEPS, tokens, seed)
    last, want = mean(outcome.value[-LAST:]), math.log(VOCAB)
    if not want - UNIFORM_BELOW <= last <= want + UNIFORM_ABOVE:
        fail_losses(ctx, outcome.value, tokens, seed, want - UNIFORM_BELOW, want + UNIFORM_ABOVE, last)
    require_by_operators(ctx, outcome, UNIFORM_STEPS)
    require_given_curve(ctx, outcome.value, tokens, seed)


@check("s3-train.same-curve", points=2.5, concept="training", needs=(FALLS,))
def train_same_curve(ctx: Context) -> None:
    """Flash and standard attention give the same losses, step by step; standard attention calls no operator."""
    tokens, _ = markov(ctx.rng(), VOCAB, LENGTH)
    seed = int(ctx.rng("seed").integers(1000))
    flash = run_training(ctx, SAME_STEPS, tokens, seed)
    outcome = run_training(ctx, SAME_STEPS, tokens, seed, "standard")
    apart = max(abs(a - b) for a, b in zip(flash.value, outcome.value, strict=True))
    if apart > SAME:
        ctx.fail(
            say(
                "flash 与 standard 的损失最多相差 {apart:.3f}（容许 {most}）：同一个种子应是同一条曲线。",
                "Flash and standard differ by up to {apart:.3f} in a loss ({most} may): one seed gives one curve.",
                apart=apart,
                most=SAME,
            ),
            misconception="train-curves-differ",
            evidence={"max_error": apart, "tolerance": SAME},
        )
    called = outcome.trace.operators.get(FLASH_ATTN, 0) if outcome.trace else 0
    if called:
        ctx.fail(
            say(
                'attention="standard" 时仍调用了 flash_attn {n} 次。',
                'With attention="standard" flash_attn was still called {n} times.',
                n=called,
            ),
            misconception="train-attention-ignored",
            evidence={"got": called, "expected": 0},
        )
    require_by_operators(ctx, flash, SAME_STEPS)
    require_given_curve(ctx, flash.value, tokens, seed)
    require_given_curve(ctx, outcome.value, tokens, seed)


@check("s3-train.seed", points=1.5, concept="repeatable", needs=(FALLS,))
def train_seed(ctx: Context) -> None:
    """The same seed gives the same losses, another seed others."""
    tokens, _ = markov(ctx.rng(), VOCAB, LENGTH)
    a = int(ctx.rng("seed").integers(1000))
    b = a + 1
    first, again, other = (run_training(ctx, SEED_STEPS, tokens, seed).value for seed in (a, a, b))
    apart = max(abs(a - b) for a, b in zip(first, again, strict=True))
    if apart > 1e-3:
        ctx.fail(
            say(
                "同一个种子跑两次，损失相差 {apart:.3g}。",
                "The same seed twice, and the losses differ by {apart:.3g}.",
                apart=apart,
            ),
            misconception="train-seed-ignored",
            evidence={"max_error": apart, "tolerance": 1e-3},
        )
    if max(abs(a - b) for a, b in zip(first, other, strict=True)) < 1e-4:
        ctx.fail(
            say("换一个种子，损失一点没变。", "Another seed gives exactly the same losses."),
            misconception="train-seed-ignored",
            evidence={"got": first, "expected": "other losses"},
        )
    require_given_curve(ctx, first, tokens, a)
    require_given_curve(ctx, other, tokens, b)
