"""What the losses of the first steps are when the training step has a mistake in it: the given model, run here.

The model and the sampling are given code with a seed, so every mistake leaves a curve of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from grader import paths

Step = Callable[[Any, Any, Tensor], float]

NEAR, FAR = 0.03, 0.01  # of a loss: within the one it may be this curve, somewhere beyond the other it is not


def markov(rng: np.random.Generator, vocab: int, length: int) -> tuple[Tensor, float]:
    """A random Markov chain's tokens, and its entropy rate in nats: the best mean loss there is."""
    transitions = rng.dirichlet(np.full(vocab, 0.25), size=vocab)
    share = np.full(vocab, 1 / vocab)
    for _ in range(200):
        share = share @ transitions
    surprise = -(transitions * np.log(np.maximum(transitions, 1e-300))).sum(axis=1)
    cumulated, draws, states = transitions.cumsum(axis=1), rng.random(length), [int(rng.integers(vocab))]
    for draw in draws[1:]:
        states.append(min(int(np.searchsorted(cumulated[states[-1]], draw)), vocab - 1))
    return torch.tensor(states), float(share @ surprise)


@cache
def given() -> dict[str, Any]:
    """The classes and functions that the skeleton gives: everything above ``train`` in the worked solution."""
    source = (paths.SOLUTIONS / "s3_npu_deployment" / "train.py").read_text("utf-8").split("\ndef train(")[0]
    namespace: dict[str, Any] = {}
    exec(compile(source, "train.py", "exec"), namespace)
    return namespace


def losses(tokens: Tensor, vocab: int, steps: int, seed: int, step: Step) -> list[float]:
    """The losses of ``steps`` such steps, by standard attention on the CPU."""
    parts = given()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        generator = torch.Generator().manual_seed(seed)
        model = parts["TinyLM"](vocab, parts["standard_causal"])
        optimizer = torch.optim.AdamW(model.parameters(), lr=parts["LEARNING_RATE"])
        return [step(model, optimizer, parts["sample_batch"](tokens, generator)) for _ in range(steps)]


def _step(
    *,
    targets: Callable[[Tensor], Tensor] = lambda batch: batch[:, 1:],
    inputs: Callable[[Tensor], Tensor] = lambda batch: batch[:, :-1],
    logits: Callable[[Tensor], Tensor] = lambda logits: logits,
    reduction: str = "mean",
    zero: bool = True,
    update: bool = True,
) -> Step:
    def step(model: Any, optimizer: Any, batch: Tensor) -> float:
        scores = logits(model(inputs(batch))).flatten(0, 1)
        loss = F.cross_entropy(scores, targets(batch).flatten(), reduction=reduction)
        if zero:
            optimizer.zero_grad()
        loss.backward()
        if update:
            optimizer.step()
        return loss.item()

    return step


def _first_batch_again(model: Any, optimizer: Any, batch: Tensor) -> float:
    """The batch was drawn before the loop."""
    optimizer.batch = getattr(optimizer, "batch", batch)
    return RIGHT(model, optimizer, optimizer.batch)


RIGHT = _step()
MISTAKES: tuple[tuple[str, Step], ...] = (
    ("train-targets-not-shifted", _step(targets=lambda batch: batch[:, :-1])),
    ("train-targets-not-shifted", _step(inputs=lambda batch: batch[:, 1:])),
    ("train-targets-not-shifted", _step(inputs=lambda batch: batch[:, 1:], targets=lambda batch: batch[:, :-1])),
    ("train-targets-shifted-twice", _step(targets=lambda batch: batch[:, 1:].roll(-1, 1))),
    ("train-targets-rolled", _step(targets=lambda batch: batch[:, :-1].roll(-1, 1))),
    ("train-one-batch", _first_batch_again),
    ("train-no-update", _step(update=False)),
    ("train-gradients-kept", _step(zero=False)),
    ("train-softmax-twice", _step(logits=lambda logits: logits.softmax(-1))),
    ("train-loss-summed", _step(reduction="sum")),
)


def name_curve(curve: Sequence[float], tokens: Tensor, vocab: int, seed: int, steps: int = 9) -> str | None:
    """The mistake whose losses these are, when it is certain: much nearer to them than to the right ones."""
    seen = list(curve[:steps])
    off = _apart(seen, losses(tokens, vocab, len(seen), seed, RIGHT))
    if not seen or off < FAR:
        return None
    near = min(NEAR, off / 5)
    found = {id for id, step in MISTAKES if _apart(seen, losses(tokens, vocab, len(seen), seed, step)) <= near}
    return found.pop() if len(found) == 1 else None


def _apart(a: Sequence[float], b: Sequence[float]) -> float:
    """The largest difference, relative where the losses are large."""
    return max((abs(x - y) / max(1.0, abs(y) / 4) for x, y in zip(a, b, strict=True)), default=math.inf)
