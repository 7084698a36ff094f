"""A profile folder from the command line: read, or refused in the learner's language."""

from __future__ import annotations

from pathlib import Path

from grader.profiling.errors import refuse
from kernels.profiles import BadProfile, Profile, read


def read_profile(folder: Path) -> Profile:
    """Raises :class:`grader.profiling.errors.CannotAnswer`."""
    try:
        return read(folder)
    except BadProfile as error:
        raise refuse(error) from error
