"""Tests that share a course in nbgrader share a worker: to live it takes a minute."""

from __future__ import annotations

from typing import Any

SHARE_A_WORKER = "tests/classroom/"


def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """As ``--dist load``, but for the folder above. (Groups by mark are lost in pytest 9.2 with xdist 3.8.)"""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return SHARE_A_WORKER if nodeid.startswith(SHARE_A_WORKER) else nodeid

    return Together(config, log)
