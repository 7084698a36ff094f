"""Stage 3 by itself: comparison with a real kernel, rules of the build, and what training can and cannot reach."""

from __future__ import annotations

import itertools
import math
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from conftest import grade, solutions

from grader import paths
from grader.checking.hardware import GRADIENT_FLOOR, bad_share
from grader.course import catalog
from grader.text import Text


def module(name: str) -> Any:
    return import_module(f"flashdojo_stages.{catalog.load().stage('s3').folder}.{name}")


# ------------------------------------------------------------------------------------- comparison with a real kernel


@pytest.fixture
def npu_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulated kernel stands in for a real one."""
    from kernels.ascend.backend import backend_for
    from kernels.machine import detect

    backend = backend_for(detect())
    monkeypatch.setattr("grader.hardware.kernels_here", lambda: (backend, Text("替身", "a stand-in")))


@pytest.mark.parametrize(
    ("stage", "exercise"),
    [
        ("s2", "s2-forward"),
        ("s2", "s2-backward"),
        *(("s3", f"s3-{x}") for x in ("forward", "function", "fusion", "speed")),
    ],
)
def test_the_solutions_are_like_the_kernel(stage: str, exercise: str, npu_here: None) -> None:
    graded = grade(stage, solutions(stage), exercises=(exercise,))
    assert graded.status[f"{exercise}.hardware"] == "passed", graded.messages


def test_nothing_is_measured_without_an_npu() -> None:
    graded = grade("s3", solutions("s3"), exercises=("s3-forward", "s3-fusion"))
    assert graded.status["s3-forward.hardware"] == graded.status["s3-fusion.hardware"] == "not_measured"
    assert graded.points == 32


def test_another_kernel_is_noticed(npu_here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that computes with another scale: the learner's values are right, and differ from it."""
    from grader import hardware

    backend, _ = hardware.kernels_here()
    forward = type(backend).forward
    monkeypatch.setattr(
        type(backend), "forward", lambda self, *a, scale, **o: forward(self, *a, scale=1.1 * scale, **o)
    )
    graded = grade("s3", solutions("s3"), exercises=("s3-forward",))
    assert graded.failed == ["s3-forward.hardware"]
    assert "differs from the real kernel" in graded.messages["s3-forward.hardware"]
    assert graded.points == 20


def test_upstreams_rule() -> None:
    """|a - b| > atol + rtol |b| is bad, NaN is bad, +inf and -inf in an lse are the same."""
    kernel = torch.full((1000,), 2.0, dtype=torch.float16)
    assert bad_share(kernel + 0.0098, kernel, torch.float16) == 0
    assert bad_share(kernel + 0.012, kernel, torch.float16) == 1
    assert bad_share(kernel + 0.012, kernel, torch.bfloat16) == 0
    off = kernel.clone()
    off[:7] = math.nan
    assert bad_share(off, kernel, torch.float16) == pytest.approx(0.007)
    infinite = torch.tensor([math.inf, 1.0])
    assert bad_share(-infinite.where(infinite.isinf(), -infinite), infinite, torch.float16) == 0
    tiny = torch.full((10,), 1e-6)
    assert bad_share(tiny, torch.zeros(10), torch.float16) == 0
    assert bad_share(torch.full((10,), 5e-4), torch.zeros(10), torch.float16, floor=GRADIENT_FLOOR) == 0


# ------------------------------------------------------------------------------------------------ rules of the build


def test_the_rules_of_the_build_have_an_order() -> None:
    closure = module("checks_build").CLOSURE
    assert not any((b, a) in closure for a, b in closure)
    assert all((a, c) in closure for (a, b), (b2, c) in itertools.product(closure, closure) if b == b2)


def test_the_steps_are_those_of_the_skeleton_and_the_lessons() -> None:
    steps = set(module("checks_build").STEPS)
    namespace: dict[str, Any] = {}
    exec((paths.SOLUTIONS / "s3_npu_deployment" / "build.py").read_text("utf-8"), namespace)
    assert steps == set(namespace["BUILD_STEPS"])
    for lang in ("zh", "en"):
        lesson = (paths.STAGES / "s3_npu_deployment" / f"lesson.{lang}.md").read_text("utf-8")
        assert [step for step in steps if f"| `{step}` |" not in lesson] == []


def test_every_repair_can_be_carried_out() -> None:
    """Whoever cleans build_out also builds what is then installed from it."""
    for steps in module("checks_build").REPAIRS:
        if "clean-build" in steps:
            assert ("install-package" in steps) <= ("build-package" in steps)
            assert ("install-wheel" in steps) <= ("build-wheel" in steps)


def test_other_orders_are_right_too() -> None:
    order = ["clear-extension-cache", "install-torch-pair", "remove-vendors", "update-sources", "clean-build",
             "install-cann", "source-env", "build-wheel", "build-package", "install-wheel", "install-package",
             "restart-python", "verify"]  # fmt: skip
    source = f"ORDER = {order}\ndef order_build_steps(steps): return tuple(sorted(steps, key=ORDER.index))"
    assert grade("s3", source, exercises=("s3-build",)).points == 6


# --------------------------------------------------------------------------------------------------------- training


def test_the_entropy_rate_is_the_best_mean_loss() -> None:
    """Of a long stream's bigrams, each with the probability that the chain gives it."""
    tokens, entropy = module("train_mistakes").markov(np.random.default_rng(7), 12, 60_000)
    pairs = torch.zeros(12, 12).index_put_((tokens[:-1], tokens[1:]), torch.ones(59_999), accumulate=True)
    rows = pairs / pairs.sum(1, keepdim=True)
    empirical = -(pairs / pairs.sum() * rows.clamp_min(1e-30).log()).sum()
    assert float(empirical) == pytest.approx(entropy, abs=0.02)


def test_right_losses_and_wrong_ones_are_far_apart() -> None:
    training, checks = module("train_mistakes"), module("checks_train")
    tokens, entropy = training.markov(np.random.default_rng(0), checks.VOCAB, checks.LENGTH)
    low, high = entropy - checks.BELOW, entropy + checks.ABOVE

    def last(step: Any) -> float:
        return float(np.mean(training.losses(tokens, checks.VOCAB, checks.STEPS, 0, step)[-checks.LAST :]))

    assert low + 0.1 < last(training.RIGHT) < high - 0.15
    for id, step in training.MISTAKES:
        if id != "train-targets-rolled":  # which shows in the curve alone
            assert not low - 0.15 < last(step) < high + 0.15, id


@pytest.mark.slow
def test_every_mistake_of_the_table_has_a_curve_of_its_own() -> None:
    training, checks = module("train_mistakes"), module("checks_train")
    for seed in (1, 2):
        tokens, _ = training.markov(np.random.default_rng(seed), checks.VOCAB, checks.LENGTH)
        right = training.losses(tokens, checks.VOCAB, checks.CURVE_STEPS, seed, training.RIGHT)
        assert training.name_curve(right, tokens, checks.VOCAB, seed) is None
        for id, step in training.MISTAKES:
            curve = training.losses(tokens, checks.VOCAB, checks.CURVE_STEPS, seed, step)
            assert training.name_curve(curve, tokens, checks.VOCAB, seed) == id
            assert max(abs(a - b) for a, b in zip(curve, right, strict=True)) > 2 * checks.CURVE, id


def test_the_course_trains_on_its_own_text() -> None:
    """The data that the notebook trains on: the loss falls, on one curve for flash and standard attention."""
    text = (paths.STAGES / "s3_npu_deployment" / "corpus.txt").read_text("utf-8")
    letters = sorted(set(text))
    namespace: dict[str, Any] = {}
    exec(solutions("s3"), namespace)
    tokens = torch.tensor([letters.index(letter) for letter in text]).npu()
    flash, standard = (
        namespace["train"](30, tokens, vocab=len(letters), attention=attention) for attention in ("flash", "standard")
    )
    assert abs(flash[0] - math.log(len(letters))) < 0.5
    assert np.mean(flash[-5:]) < flash[0] - 1.5
    assert max(abs(a - b) for a, b in zip(flash, standard, strict=True)) < 0.05
