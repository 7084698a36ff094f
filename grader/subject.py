"""What a check may do with a learner's program, wherever that program lives.

Two implementations: ``grader.live.subject`` (the functions in the learner's own kernel, for the instant answer) and
``grader.wall.workers`` (a confined process, for everything that counts). A check does not know which one it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from grader.text import Text, say
from grader.worker.provided import Provided

__all__ = [
    "Crashed", "Missing", "Outcome", "Provided", "Raised", "Subject", "SubjectError", "TimedOut", "Trace", "Where",
    "position",
]  # fmt: skip

if TYPE_CHECKING:  # the command line lists exercises without waiting for torch
    from torch import Tensor


@dataclass(frozen=True)
class Where:
    """A place in the submission: ``cell`` counts the notebook's cells from 1 (None in a ``.py``), ``line`` from 1."""

    cell: int | None
    line: int


def position(place: Where | None) -> Text:
    """``cell 3, line 7`` in both languages; "the code" for None."""
    if place is None:
        return say("代码", "the code")
    if place.cell is None:
        return say("第 {line} 行", "line {line}", line=place.line)
    return say("第 {cell} 个单元第 {line} 行", "cell {cell}, line {line}", cell=place.cell, line=place.line)


@dataclass
class Trace:
    """What the observer saw of one call. Evidence for honest learners, not proof: learner code shares its process."""

    largest: int = 0  # elements of the largest tensor that an operator newly allocated (views do not count)
    largest_shape: tuple[int, ...] = ()
    largest_op: str = ""
    flops: int = 0  # of matrix products, two per multiply-add
    matmuls: set[tuple[int, int, int, int]] = field(default_factory=set)  # the (batch, m, k, n) of products, each once
    exponentials: dict[int, int] = field(default_factory=dict)  # longest dimension -> elements exponentiated
    operators: dict[str, int] = field(default_factory=dict)  # "npu.npu_fusion_attention" -> calls; none of torch's
    origins: tuple[str, ...] = ()  # the operator, of these, that gave each tensor of the value as it is; "" for none


@dataclass
class Outcome:
    """What came back from one call."""

    value: Any  # tensors, numbers, strings, None, and tuples/lists/dicts of them
    changed: tuple[str, ...] = ()  # inputs whose bytes differ after the call: "0", "1", "q", ...
    differentiable: tuple[bool, ...] = ()  # requires_grad of each tensor of ``value``, in order
    devices: tuple[str, ...] = ()  # where each tensor of ``value`` was: "cpu", "npu:0"; ``value`` is on the CPU
    seconds: float = 0.0  # by the clock; of a timed call, of CPU
    trace: Trace | None = None  # when asked with observe=True
    peak_bytes: int | None = None  # growth of the resident set during the call, when asked with memory=True
    held_bytes: int | None = None  # held before the call beyond an empty program, and used during it (memory=True)


class SubjectError(Exception):
    """The call gave no value. A check that knows which idea is behind it may set ``misconception`` and raise on."""

    misconception: str | None = None


class Missing(SubjectError):
    """The submission defines no such name (``name``), or what it defines has the wrong kind (``found``)."""

    def __init__(self, name: str, found: str | None = None):
        super().__init__(name)
        self.name, self.found = name, found


class Raised(SubjectError):
    """Learner code raised. ``where`` is the deepest frame inside the submission."""

    def __init__(self, kind: str, text: str, where: Where | None = None):
        super().__init__(f"{kind}: {text}")
        self.kind, self.text, self.where = kind, text, where


class TimedOut(SubjectError):
    """The call did not come back within ``seconds``."""

    def __init__(self, seconds: float, where: Where | None = None):
        super().__init__(f"no answer within {seconds:g} s")
        self.seconds, self.where = seconds, where


class Crashed(SubjectError):
    """The process ended or answered nonsense. ``reason``: memory | cpu | exit | signal | garbage | too_large."""

    def __init__(self, reason: str, detail: str = ""):
        super().__init__(f"{reason} {detail}".strip())
        self.reason, self.detail = reason, detail


class Subject(Protocol):
    """The learner's program. Every method may raise a :class:`SubjectError`.

    Names are as in the contract (``softmax``, ``FlashAttentionV1``). Tensors passed in are copied (strides and
    aliasing kept), so nothing that learner code does to them reaches the check. In a stage whose device is the NPU they
    are moved there, as are modules, and results are moved back. A :class:`Provided` among the arguments becomes a
    callable, or the path of a folder.
    """

    def call(self, name: str, /, *args: Any, observe: bool = False, memory: bool = False, **kwargs: Any) -> Outcome:
        """``name(*args, **kwargs)``; for an ``autograd.Function``, ``name.apply(*args, **kwargs)``."""
        ...

    def timed(self, name: str, /, *args: Any, **kwargs: Any) -> Outcome:
        """As :meth:`call`; ``seconds`` is the CPU time that the function itself took, in all threads."""
        ...

    def beside(self, source: str) -> Subject:
        """A program of the course's own under the same conditions, to compare with. The caller closes it, if it can be
        closed."""
        ...

    def construct(self, name: str, /, *args: Any, **kwargs: Any) -> int:
        """Make an object (an ``nn.Module``) and return a handle for the calls below."""
        ...

    def state(self, handle: int) -> dict[str, Tensor]:
        """Its ``state_dict()``."""
        ...

    def load_state(self, handle: int, state: Mapping[str, Tensor]) -> None: ...

    def forward(
        self, handle: int, /, *args: Any, observe: bool = False, memory: bool = False, **kwargs: Any
    ) -> Outcome: ...

    def backward(
        self, name: str | int, args: Sequence[Any], grads: Sequence[Tensor | None], wrt: Sequence[int],
        *, memory: bool = False, observe: bool = False, between: Sequence[Any] = (),
    ) -> Outcome:
        """Call ``name`` (an ``autograd.Function`` with a backward of its own; a handle is that object) with ``args[i]``
        requiring grad for i in ``wrt``, then run ``torch.autograd.grad`` of its tensor outputs against ``grads`` (None
        = that output gets no gradient). ``between``: arguments of one more such call, made between the two.
        ``value`` is ``(outputs, gradients)``; ``differentiable`` speaks of the outputs."""
        ...
