"""Watches the operators that one call runs: what it allocates, what it multiplies, what it holds at its peak."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .provenance import Provenance

# operator -> positions of the two factors among its arguments
_PRODUCTS = {
    "aten.mm": (0, 1), "aten.bmm": (0, 1), "aten.mv": (0, 1), "aten.dot": (0, 1), "aten.vdot": (0, 1),
    "aten.addmm": (1, 2), "aten.baddbmm": (1, 2), "aten.addbmm": (1, 2), "aten.addmv": (1, 2),
    "aten.addmm_": (1, 2), "aten.baddbmm_": (1, 2), "aten.addbmm_": (1, 2), "aten.addmv_": (1, 2),
}  # fmt: skip

_EXPONENTIALS = {
    f"aten.{name}{ending}" for ending in ("", "_")
    for name in ("exp", "exp2", "expm1", "pow", "sigmoid", "_softmax", "_safe_softmax", "_log_softmax", "logsumexp")
}  # fmt: skip

_TORCHS_OWN = {"aten", "prim", "prims", "profiler"}

_VIEWS = {"aten._unsafe_view", "aten._reshape_alias"}  # views whose schema does not say so


_PLAIN = {torch.Tensor, torch.nn.Parameter}
_entered: list[Observer] = []  # those that watch now


def watching() -> bool:
    return bool(_entered)


class Observer(TorchDispatchMode):
    """``with Observer() as seen: ...; seen.trace()``."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing here is compiled; torch's wrapper would import dynamo (1 s) and cost 25 us per operator

    def __init__(self) -> None:
        super().__init__()
        self._largest: tuple[int, tuple[int, ...], str] = (0, (), "")
        self._flops = 0
        self._matmuls: set[tuple[int, int, int, int]] = set()
        self._exponentials: dict[int, int] = {}
        self.provenance = Provenance()

    def __enter__(self) -> Observer:
        super().__enter__()
        _entered.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _entered.remove(self)
        super().__exit__(*error)

    def trace(self) -> dict[str, Any]:
        """The fields of ``grader.subject.Trace``."""
        largest, shape, op = self._largest
        return {
            "largest": largest, "largest_shape": shape, "largest_op": op,
            "flops": self._flops, "matmuls": set(self._matmuls), "exponentials": dict(self._exponentials),
            "operators": dict(self.provenance.calls),
        }  # fmt: skip

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if types and not _PLAIN.issuperset(types):
            raise RuntimeError("tensor classes of your own hide what is computed from the grader")
        result = func(*args, **kwargs) if kwargs else func(*args)
        name, factors, exponential, allocates, foreign = _KNOWN.get(id(func)) or _learn(func)
        if factors is not None:
            self._product(args[factors[0]], args[factors[1]])
        elif exponential:
            self._exponential(args)
        elif foreign:
            self.provenance.note(name, args, result)
        if allocates:
            for tensor in result if isinstance(result, (tuple, list)) else (result,):
                if isinstance(tensor, torch.Tensor):
                    self._output(name, tensor)
        return result

    def _product(self, a: torch.Tensor, b: torch.Tensor) -> None:
        batch = a.shape[0] if a.dim() == 3 else 1
        m, k = (a.shape[-2] if a.dim() > 1 else 1), a.shape[-1]
        n = b.shape[-1] if b.dim() > 1 else 1
        self._matmuls.add((batch, m, k, n))
        self._flops += 2 * batch * m * k * n

    def _exponential(self, args: Any) -> None:
        for tensor in args[:2]:  # pow may have its base before
            if isinstance(tensor, torch.Tensor):
                longest = max(tensor.shape, default=1)
                self._exponentials[longest] = self._exponentials.get(longest, 0) + tensor.numel()
                return

    def _output(self, name: str, tensor: torch.Tensor) -> None:
        """``tensor`` came out of an operator that may allocate."""
        elements = tensor.numel()
        if elements > self._largest[0]:
            self._largest = (elements, tuple(tensor.shape), name)


class PeakObserver(Observer):
    """Also adds up what is held, where memory cannot be seen from outside: in the learner's own kernel.

    ``peak_bytes``: the most bytes that storages first seen under the observer held at one time; those given to
    :meth:`ignore` (the inputs) count as known.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak_bytes = 0
        self._live_bytes = 0
        self._alive: dict[int, weakref.ref[Any]] = {}

    def ignore(self, storages: Iterable[Any]) -> None:
        for storage in storages:
            self._remember(storage, 0)

    def _output(self, name: str, tensor: torch.Tensor) -> None:
        super()._output(name, tensor)
        storage = tensor.untyped_storage()
        if storage._cdata not in self._alive:
            self._remember(storage, storage.nbytes())

    def _remember(self, storage: Any, size: int) -> None:
        key = storage._cdata

        def gone(_: Any) -> None:
            self._live_bytes -= size
            self._alive.pop(key, None)

        self._alive[key] = weakref.ref(storage, gone)
        self._live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self._live_bytes)


# what is known of an operator, by its identity (its own hash is slow): name, factors, is it an exp, may it allocate,
# is it none of torch's (an NPU operator, say)
_KNOWN: dict[int, tuple[str, tuple[int, int] | None, bool, bool, bool]] = {}
_kept: list[Any] = []  # the operators of _KNOWN, so that no identity is given away again


def _learn(func: Any) -> tuple[str, tuple[int, int] | None, bool, bool, bool]:
    name = str(func).rsplit(".", 1)[0]  # aten.bmm of aten.bmm.default
    results = func._schema.returns
    is_view = all(result.alias_info is not None for result in results) or name in _VIEWS
    foreign = name.split(".")[0] not in _TORCHS_OWN
    _kept.append(func)
    _KNOWN[id(func)] = known = name, _PRODUCTS.get(name), name in _EXPONENTIALS, not is_view, foreign
    return known
