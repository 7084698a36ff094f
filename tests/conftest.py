"""What holds for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from grader.batch.cache import VARIABLE


@pytest.fixture(autouse=True, scope="session")
def results_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test finds what another run of the grader has kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(tmp_path_factory.mktemp("results")))
        yield
