"""What holds for every test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from grader.batch.cache import VARIABLE


@pytest.fixture(autouse=True, scope="session")
def results_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test finds what another run of the grader has kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(tmp_path_factory.mktemp("results")))
        yield


@pytest.fixture(autouse=True)
def language_of_its_own() -> Iterator[None]:
    """What a test says with ``--lang`` ends with it."""
    before = os.environ.get("FLASHDOJO_LANG")
    yield
    if before is None:
        os.environ.pop("FLASHDOJO_LANG", None)
    else:
        os.environ["FLASHDOJO_LANG"] = before
