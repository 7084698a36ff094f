"""The learner's program inside the worker: its cells run here, and its names are looked up here."""

from __future__ import annotations
import __future__

import ast
import builtins
import linecache
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from . import place

TEXT_CAP = 500
FUTURES = {name: getattr(__future__, name).compiler_flag for name in __future__.all_feature_names}
COMPILE, EXEC = builtins.compile, builtins.exec


class Missing(Exception):
    """The program has no such name, or something else under it (``found``: its type)."""

    def __init__(self, name: str, found: str | None = None):
        super().__init__(name)
        self.name, self.found = name, found


class Program:
    """Cells are ``(number or None, source, filename)``. A failing statement does not stop what comes after it."""

    def __init__(self, cells: Sequence[tuple[int | None, str, str]]):
        self.cells = list(cells)
        self.numbers = {filename: number for number, _, filename in self.cells}
        notebook = any(number is not None for number, _, _ in self.cells)
        # A script's main guard is not for us; in a notebook the name is true.
        self.module = types.ModuleType("__main__" if notebook else "submission")
        self.module.__file__ = None if notebook else self.cells[0][2] if self.cells else None
        self.errors: list[dict[str, Any]] = []
        sys.modules["__main__"] = sys.modules[self.module.__name__] = self.module
        self._stubs = add_stubs(self.module)
        self._flags = 0

    def run(self) -> None:
        for number, source, filename in self.cells:
            linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
            try:
                statements = [self._compiled(statement, filename) for statement in ast.parse(source, filename).body]
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # nothing of the cell runs
                line = getattr(error, "lineno", None) or 1
                self.errors.append(report(error, {"cell": number, "line": line}))
                continue
            for code in statements:
                if code is not None:
                    self._run(code)

    def _compiled(self, statement: ast.stmt, filename: str) -> types.CodeType | None:
        """The code of a statement; None for a ``__future__`` import, which changes how what follows is compiled."""
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            for alias in statement.names:
                self._flags |= FUTURES.get(alias.name, 0)
            return None
        return COMPILE(ast.Module([statement], []), filename, "exec", self._flags, True)

    def _run(self, code: types.CodeType) -> None:
        try:
            EXEC(code, self.module.__dict__)
        except OutOfTime:
            raise
        except BaseException as error:
            self.errors.append(report(error, self.where(error)))

    def where(self, error: BaseException) -> dict[str, Any] | None:
        """The deepest frame of a traceback that lies in the program."""
        place = None
        try:
            for frame, line in traceback.walk_tb(error.__traceback__):
                filename = frame.f_code.co_filename
                if filename in self.numbers:
                    place = {"cell": self.numbers[filename], "line": line}
        except BaseException:
            return None
        return place

    def loop(self, error: BaseException) -> dict[str, Any] | None:
        """Where a program was that ran out of time: the loop it was in, the same whenever the clock rang. A ``while``
        is more likely to have no end than a ``for``, and of several the outermost is always named."""
        frames = [
            (frame.f_code.co_filename, line)
            for frame, line in traceback.walk_tb(error.__traceback__)
            if frame.f_code.co_filename in self.numbers
        ]
        for kind in (ast.While, ast.For | ast.AsyncFor):
            for filename, line in frames:
                lines = [n.lineno for n in self._around(filename, line) if isinstance(n, kind)]
                if lines:
                    return {"cell": self.numbers[filename], "line": lines[0]}
        return self.where(error)

    def _around(self, filename: str, line: int) -> list[ast.stmt]:
        """The statements that hold this line, from the outermost function or loop in."""
        source = next(source for _, source, name in self.cells if name == filename)
        found = [
            node
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
        ]
        within = [node for node in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        start = within[-1].lineno if within else 0  # a loop around the definition does not run now
        return [node for node in found if node.lineno >= start]

    def names(self) -> list[str]:
        return sorted(
            name
            for name, value in list(self.module.__dict__.items())
            if type(name) is str and not name.startswith("__") and self._stubs.get(name) is not value
        )[:2000]

    def lookup(self, name: str) -> Any:
        try:
            return self.module.__dict__[name]
        except KeyError:
            raise Missing(name) from None

    def function(self, name: str) -> Callable[..., Any]:
        """What calling ``name`` means: the function itself, or ``apply`` of an ``autograd.Function``."""
        found = self.lookup(name)
        if isinstance(found, type):
            if issubclass(found, torch.autograd.Function):
                return found.apply
            raise Missing(name, "class")
        if not callable(found):
            raise Missing(name, type(found).__name__)
        return found

    def differentiable(self, name: str) -> Callable[..., Any]:
        """``apply`` of an ``autograd.Function`` with a backward of its own; nothing else will do."""
        found = self.lookup(name)
        if without_backward(found):
            raise Missing(name, without_backward(found))
        return partial(APPLY, found)

    def constructor(self, name: str) -> Callable[..., Any]:
        found = self.lookup(name)
        if not isinstance(found, type):
            raise Missing(name, type(found).__name__)
        return found


APPLY = vars(torch.autograd.Function)["apply"].__func__


def without_backward(found: Any) -> str | None:
    """What ``found`` is, if it is no ``autograd.Function`` with a backward of its own."""
    if not isinstance(found, type) or not issubclass(found, torch.autograd.Function):
        return type(found).__name__ if not isinstance(found, type) else "class"
    own = [name for kind in found.__mro__[: found.__mro__.index(torch.autograd.Function)] for name in vars(kind)]
    return None if {"backward", "vjp"} & set(own) else "autograd.Function without backward"


class OutOfTime(BaseException):
    """Raised by the worker's alarm inside learner code, so that the answer can say where it was."""


def report(error: BaseException, where: dict[str, Any] | None) -> dict[str, Any]:
    """An exception as plain data. Its ``__str__`` is learner code too."""
    try:
        text = str(error)[:TEXT_CAP]
    except OutOfTime:
        raise
    except BaseException:
        text = ""
    return {"kind": str(type(error).__name__)[:100], "text": text, "where": where}


def add_stubs(module: types.ModuleType) -> dict[str, Any]:
    """What a notebook's kernel offers and a worker does not: names that exist and do nothing. Returns those names."""

    def nothing(*args: Any, **kwargs: Any) -> None:
        return None

    class Shell:
        user_ns = module.__dict__

        def getoutput(self, *args: Any, **kwargs: Any) -> list[str]:
            return []

        def __getattr__(self, name: str) -> Callable[..., None]:
            return nothing

    shell = Shell()
    stubs = {"get_ipython": lambda: shell, "display": nothing}
    module.__dict__.update(stubs)
    grader = types.ModuleType("grader")
    grader.check = nothing  # type: ignore[attr-defined]
    sys.modules["grader"] = grader
    if type(place.current) is not place.Place:  # the notebook's way to an NPU, which is there already
        sys.modules["kernels"] = kernels = types.ModuleType("kernels")
        sys.modules["kernels.ascend"] = kernels.ascend = types.ModuleType("kernels.ascend")  # type: ignore[attr-defined]
    return stubs
