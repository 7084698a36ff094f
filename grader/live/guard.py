"""Refuses, while a live check runs, what the course forbids. Evidence for honest learners; proof is the judge's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from grader.text import Text, say

ALWAYS = "library_attention"

_NAMES: dict[str, re.Pattern[str]] = {
    ALWAYS: re.compile(r"attention|multi_?head|transformer", re.IGNORECASE),
    "softmax": re.compile(r"softmax|softmin|logsumexp|logcumsumexp", re.IGNORECASE),
    "autograd": re.compile(r"^(grad|backward)$"),
    "numpy": re.compile(r"^(numpy|__array__|__dlpack__)$"),
}

_MESSAGES: dict[str, Text] = {
    ALWAYS: say(
        "不能使用现成的注意力算子（{what}）：这里要你自己写出来",
        "library attention is not allowed in FlashDojo ({what}): write it yourself",
    ),
    "softmax": say(
        "这道题不能调用现成的 softmax（{what}）：请用 exp、max、sum 自己写",
        "ready-made softmax is not allowed in FlashDojo here ({what}): write it with exp, max and sum",
    ),
    "autograd": say(
        "这道题不能借助自动求导（{what}）：请按公式自己写梯度",
        "autograd is not allowed in FlashDojo here ({what}): write the gradient by its formula",
    ),
    "numpy": say(
        "这道题不能离开 torch 改用 numpy（{what}）",
        "leaving torch for numpy is not allowed in FlashDojo here ({what})",
    ),
}


class Forbidden(RuntimeError):
    """Learner code called something that the exercise forbids; ``rule`` says which rule."""

    def __init__(self, rule: str, what: str):
        message = _MESSAGES[rule]
        self.rule, self.message = rule, Text(message.zh.format(what=what), message.en.format(what=what))
        super().__init__(str(self.message))


class Guard(TorchFunctionMode):
    """Sees every torch function that runs under it and raises :class:`Forbidden` for those under a ban.

    The first refusal is kept in ``refused``, so that a learner's ``try/except`` around the call does not hide it.
    """

    def __init__(self, bans: Iterable[str] = ()):
        super().__init__()
        self.patterns = {rule: _NAMES[rule] for rule in (ALWAYS, *bans) if rule in _NAMES}
        self.refused: Forbidden | None = None
        self._known: dict[str, str | None] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name not in self._known:
            self._known[name] = next((rule for rule, pattern in self.patterns.items() if pattern.search(name)), None)
        rule = self._known[name]
        if rule is not None:
            error = Forbidden(rule, name)
            self.refused = self.refused or error
            raise error
        return func(*args, **(kwargs or {}))


def differentiate(
    outputs: tuple[torch.Tensor, ...], gradients: tuple[torch.Tensor, ...], inputs: tuple[torch.Tensor, ...]
) -> tuple[torch.Tensor | None, ...]:
    """``torch.autograd.grad`` as the checks call it: past the guard, which still watches the learner's ``backward``."""
    engine = torch.autograd.Variable._execution_engine
    return engine.run_backward(outputs, gradients, False, False, inputs, allow_unreachable=True, accumulate_grad=False)
