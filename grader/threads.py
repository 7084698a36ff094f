"""Torch on one thread, for as long as it is asked to be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """The same sums in the same order for any number of jobs. Inputs are small: threads would wait for each other
    longer than they compute, most of all on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
