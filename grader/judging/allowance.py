"""An end to the time one submission may take, however it spends it: sleeping costs no CPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

from grader.subject import Subject, TimedOut

WALL_LIMIT = 120.0  # seconds inside learner code, over all calls of one submission; honest work takes well under one


class Allowance:
    """Counts the time spent in learner code and refuses further calls when it is used up."""

    def __init__(self, limit: float = WALL_LIMIT):
        self.limit, self.used = limit, 0.0

    def around(self, subject: Subject) -> Subject:
        """The same subject with every method timed; anything else it has is passed on."""
        return cast(Subject, _Timed(subject, self))


class _Timed:
    def __init__(self, subject: Subject, allowance: Allowance):
        self._subject, self._allowance = subject, allowance

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._subject, name)
        return self._timed(found) if callable(found) else found

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._allowance.used > self._allowance.limit:
                raise TimedOut(self._allowance.limit)
            start = time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                self._allowance.used += time.perf_counter() - start

        return timed
