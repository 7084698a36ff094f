"""Callables that a check hands to learner code. Functions do not travel, so they are made where that code runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Provided:
    """``Provided("queued_kernel", {"seconds": 0.003, ...})`` among the arguments of a call becomes a function there."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


Launch = Callable[[float], None]  # starts work of so many seconds on the device and returns at once


def make(provided: Provided, launch: Launch | None) -> Callable[[], None]:
    """The function itself. Raises :class:`LookupError` for a name that is none of ours, or without a device."""
    if provided.name != "queued_kernel" or launch is None:
        raise LookupError(f"{provided.name} cannot be provided here")
    return queued_kernel(launch, **provided.options)


def queued_kernel(
    launch: Launch, *, seconds: float, first: tuple[float, ...] = (), hiccups: tuple[int, ...] = (), hiccup: float = 0.0
) -> Callable[[], None]:
    """A kernel that takes ``seconds`` on the device while its call returns at once. The first calls take ``first``
    (the device compiles), the calls numbered in ``hiccups`` (from 0) take ``hiccup``."""
    calls = 0

    def kernel() -> None:
        nonlocal calls
        usual = hiccup if calls in hiccups else seconds
        launch(first[calls] if calls < len(first) else usual)
        calls += 1

    return kernel
