"""Python source as a tree, one at a time: CPython 3.11 loses count of its depth when two threads parse at once
("AST constructor recursion depth mismatch", python/cpython#106905)."""

from __future__ import annotations

import ast
import contextlib
import threading
import warnings
from collections.abc import Iterator

_lock = threading.RLock()  # it also guards the filters of warnings, which belong to the process


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """One thread at a time, and no warnings about somebody's source."""
    with _lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def tree_of(source: str) -> ast.Module:
    """``ast.parse`` that says nothing; raises what that raises."""
    with silent():
        return ast.parse(source)
