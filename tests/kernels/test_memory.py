"""The memory that README promises, in fresh processes."""

import pytest

from benchmarks.memory import measure


@pytest.mark.slow
def test_forward_and_backward_grow_with_n_and_not_with_its_square():
    small, large = measure("tiled", 4096), measure("tiled", 8192)
    assert large <= 160
    assert large <= 2.1 * small
