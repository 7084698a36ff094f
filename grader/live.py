"""The instant answer in a notebook. ``LiveSubject`` lives in :mod:`grader.live_subject`."""

from __future__ import annotations

from grader.live_subject import LiveSubject

__all__ = ["LiveSubject"]
