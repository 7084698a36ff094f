"""Tests that share a course in nbgrader share a worker: to live it takes a minute."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

SHARE_A_WORKER = "tests/classroom/"


def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """As ``--dist load``, but for the folder above. (Groups by mark are lost in pytest 9.2 with xdist 3.8.)"""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return SHARE_A_WORKER if nodeid.startswith(SHARE_A_WORKER) else nodeid

    return Together(config, log)


@pytest.fixture(autouse=True)
def no_language_is_left_behind() -> Iterator[None]:
    """A command speaks the language of its notebook, and ``--lang`` sets the environment: not for the next test."""
    from grader.text import answer_in

    before = os.environ.get("FLASHDOJO_LANG")
    yield
    answer_in(None)
    if before is None:
        os.environ.pop("FLASHDOJO_LANG", None)
    else:
        os.environ["FLASHDOJO_LANG"] = before
