"""Refuses, while a live check runs, what the course forbids. Evidence for honest learners; proof is the judge's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from grader.reading.forbidden import MESSAGES
from grader.text import Text
from grader.worker.names import ATTENTION, SOFTMAX, TO_ARRAY

ALWAYS = "library_attention"

NAMES: dict[str, re.Pattern[str]] = {
    ALWAYS: ATTENTION,
    "softmax": SOFTMAX,
    "autograd": re.compile(r"^(grad|backward)$"),
    "numpy": re.compile(f"^({'|'.join(TO_ARRAY)})$"),
}
NPU_OPERATOR = re.compile(r"^npu_fusion_attention(_\w+)?$")  # no library attention, whatever its name


class Forbidden(RuntimeError):
    """Learner code called something that the exercise forbids; ``rule`` says which rule."""

    def __init__(self, rule: str, what: str):
        message = MESSAGES[rule]
        self.rule, self.message = rule, Text(message.zh.format(what=what), message.en.format(what=what))
        super().__init__(str(self.message))


class Guard(TorchFunctionMode):
    """Sees every torch function that runs under it and raises :class:`Forbidden` for those under a ban.

    The first refusal is kept in ``refused``, so that a learner's ``try/except`` around the call does not hide it.
    """

    def __init__(self, bans: Iterable[str] = ()):
        super().__init__()
        self.patterns = {rule: NAMES[rule] for rule in (ALWAYS, *bans) if rule in NAMES}
        self.refused: Forbidden | None = None
        self._known: dict[str, str | None] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name not in self._known:
            self._known[name] = self._rule(name)
        rule = self._known[name]
        if rule is not None:
            error = Forbidden(rule, name)
            self.refused = self.refused or error
            raise error
        return func(*args, **(kwargs or {}))

    def _rule(self, name: str) -> str | None:
        """The ban that a function of this name falls under."""
        if NPU_OPERATOR.search(name):
            return None
        return next((rule for rule, pattern in self.patterns.items() if pattern.search(name)), None)


def differentiate(
    outputs: tuple[torch.Tensor, ...], gradients: tuple[torch.Tensor, ...], inputs: tuple[torch.Tensor, ...]
) -> tuple[torch.Tensor | None, ...]:
    """``torch.autograd.grad`` as the checks call it: past the guard, which still watches the learner's ``backward``."""
    engine = torch.autograd.Variable._execution_engine
    return engine.run_backward(outputs, gradients, False, False, inputs, allow_unreachable=True, accumulate_grad=False)
