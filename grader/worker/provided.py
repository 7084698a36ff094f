"""What a check hands to learner code and cannot send: functions, and folders with files. Made where that code runs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Provided:
    """``Provided("queued_kernel", {"seconds": 0.003, ...})`` among the arguments of a call becomes a function there,
    that of :func:`grader.checking.folders.folder` the path of a folder."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


_written: list[str] = []  # folders that were written and are still there

Launch = Callable[[float], None]  # starts work of so many seconds on the device and returns at once


def make(provided: Provided, launch: Launch | None) -> Any:
    """The thing itself. Raises :class:`LookupError` for a name that is none of ours, or without a device."""
    if provided.name == "folder":
        return write_folder(**provided.options)
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


def write_folder(*, name: str, files: Mapping[str, Tensor]) -> str:
    """The path of a new folder ``name``, in a temporary one, with these files."""
    around = tempfile.mkdtemp(prefix="given-")
    _written.append(around)
    top = os.path.join(around, name)
    os.mkdir(top)
    for path, data in files.items():
        place = os.path.join(top, *path.split("/"))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as file:
            file.write(bytes(data.tolist()))
    return top


def clear() -> None:
    """Remove the folders that were written."""
    while _written:
        shutil.rmtree(_written.pop(), ignore_errors=True)
