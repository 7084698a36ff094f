"""Checks of s3-build: what has to come before what. Every order that keeps these rules is right."""

from __future__ import annotations

from collections.abc import Sequence

from grader.checking.compare import returned
from grader.vocabulary import Context, check, say

ORDER = "order_build_steps"

# (earlier, later) -> the idea that is missing when the two change places
RULES = {
    ("install-cann", "source-env"): "build-environment",
    ("source-env", "build-package"): "build-environment",
    ("source-env", "build-wheel"): "build-environment",
    ("update-sources", "build-package"): "build-old-sources",
    ("update-sources", "build-wheel"): "build-old-sources",
    ("clean-build", "build-package"): "build-cleaned-away",
    ("clean-build", "build-wheel"): "build-cleaned-away",
    ("build-package", "install-package"): "build-before-install",
    ("build-wheel", "install-wheel"): "build-before-install",
    ("remove-vendors", "install-package"): "build-vendors-removed",
    ("install-torch-pair", "build-wheel"): "build-without-torch",
    ("install-package", "restart-python"): "build-restart-early",
    ("install-wheel", "restart-python"): "build-restart-early",
    ("clear-extension-cache", "restart-python"): "build-stale-cache",
    ("restart-python", "verify"): "build-verified-early",
}
STEPS = tuple(dict.fromkeys(step for pair in RULES for step in pair))

# what one does again after a change, each as a whole
REPAIRS = (
    ("update-sources", "clean-build", "build-package", "remove-vendors", "install-package", "restart-python", "verify"),
    ("clear-extension-cache", "clean-build", "build-wheel", "install-wheel", "restart-python", "verify"),
    ("install-torch-pair", "clear-extension-cache", "build-wheel", "install-wheel", "restart-python", "verify"),
    ("source-env", "remove-vendors", "build-package", "install-package", "verify"),
    ("clear-extension-cache", "restart-python", "verify"),
    ("clean-build", "source-env", "build-package", "build-wheel"),
)


def _closure() -> dict[tuple[str, str], str]:
    """Also what follows from several rules, named after the last of them: steps in between may be missing."""
    found = dict(RULES)
    for _ in STEPS:
        for (a, b), _first in list(found.items()):
            for (c, d), idea in RULES.items():
                if b == c:
                    found.setdefault((a, d), idea)
    return found


CLOSURE = _closure()


def require_order(ctx: Context, steps: Sequence[str]) -> None:
    value = ctx.subject.call(ORDER, list(steps)).value
    if not isinstance(value, (list, tuple)) or not all(isinstance(step, str) for step in value):
        ctx.fail(
            say(
                "应返回步骤名的列表，得到 {got}。",
                "It must return a list of steps, it returned {got}.",
                got=returned(value),
            ),
            misconception="wrong-return",
            evidence={"got": returned(value)},
        )
    if sorted(value) != sorted(steps):
        lost, added = sorted(set(steps) - set(value)), sorted(set(value) - set(steps))
        ctx.fail(
            say(
                "给了 {given} 步，应原样返回这几步：少了 {lost}，多了 {added}，共返回 {n} 步。",
                "{given} steps were given and exactly these are to be returned: missing {lost}, added {added}, "
                "{n} returned.",
                given=len(steps),
                lost=lost or "-",
                added=added or "-",
                n=len(value),
            ),
            misconception="build-steps-changed",
            evidence={"expected": sorted(steps), "got": list(value)[:20]},
        )
    place = {step: i for i, step in enumerate(value)}
    broken = [pair for pair in CLOSURE if set(pair) <= set(place) and place[pair[0]] > place[pair[1]]]
    if broken:
        first, second = min(broken, key=lambda pair: (pair not in RULES, place[pair[0]] - place[pair[1]]))
        ideas = {CLOSURE[pair] for pair in broken if pair in RULES} or {CLOSURE[first, second]}
        ctx.fail(
            say(
                "{first} 排在了 {second} 之后，应在它之前。你的次序：{got}",
                "{first} comes after {second}; it has to come before. Your order: {got}",
                first=first,
                second=second,
                got=" → ".join(value),
            ),
            misconception=ideas.pop() if len(ideas) == 1 else None,
            evidence={"got": list(value), "case": str(list(steps))},
        )


def shuffled(ctx: Context, name: str, steps: Sequence[str]) -> list[str]:
    return [steps[i] for i in ctx.rng(name).permutation(len(steps))]


@check("s3-build.order", points=4, concept="build")
def build_order(ctx: Context) -> None:
    """All steps of a first installation, shuffled several times."""
    for n in range(6):
        require_order(ctx, shuffled(ctx, str(n), STEPS))


@check("s3-build.repairs", points=2, concept="build", needs=("s3-build.order",))
def build_repairs(ctx: Context) -> None:
    """Some of the steps only, as after a change; and none."""
    for n, steps in enumerate(REPAIRS):
        require_order(ctx, shuffled(ctx, f"repair {n}", steps))
    require_order(ctx, [])
