from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("nbgrader")
sys.path.insert(0, os.path.dirname(__file__))

from course_run import Run, live_a_course


@pytest.fixture(scope="session")
def course(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder: Path = tmp_path_factory.mktemp("classroom")
    return live_a_course(folder)
