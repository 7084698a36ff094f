"""An installed package has the files that its modules read."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_kind_of_file_beside_the_modules_is_packaged() -> None:
    packaged = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["package-data"]
    for package in ("grader", "kernels"):
        kept = {file for pattern in packaged[package] for file in (ROOT / package).glob(pattern)}
        files = {file for file in (ROOT / package).rglob("*") if file.is_file() and "__pycache__" not in file.parts}
        missing = {file for file in files - kept if file.suffix != ".py"}
        assert kept
        assert not missing
