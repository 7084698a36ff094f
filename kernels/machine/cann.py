"""Where CANN is and which version: what its installer leaves behind, and what its set_env.sh sets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")  # set_env.sh of the toolkit sets both
INSTALLED = (  # where the installer puts it: up to 8.3 ascend-toolkit/latest, from 8.5 on cann (quick_install.md)
    "/usr/local/Ascend/ascend-toolkit/latest",
    "/usr/local/Ascend/cann",
    "/usr/local/Ascend/latest",
    "~/Ascend/ascend-toolkit/latest",
    "~/Ascend/cann",
)
FILES = ("*/ascend_toolkit_install.info", "version.cfg", "version.info", "*/version.info")
# version=8.5.0, or runtime_running_version=[7.3.0.1.231:8.0.RC3]: the number of the release comes last
VERSION = re.compile(r"(?im)^\s*(?:runtime_running_|toolkit_running_)?version\s*=\s*\[?(?:[\w.]+:)?([0-9][\w.]*)")


@dataclass(frozen=True)
class Cann:
    """``sourced``: set_env.sh was sourced in this process's environment. ``version`` is None when no file says it."""

    home: str
    version: str | None
    sourced: bool


def find_cann(environment: Mapping[str, str] = os.environ, places: Iterable[str] = INSTALLED) -> Cann | None:
    """The CANN that the environment names, else one in the usual places."""
    named = [environment[name] for name in VARIABLES if environment.get(name)]
    for place in (*named, *places):
        home = Path(place).expanduser()
        if home.is_dir():
            return Cann(str(home), _version(home), sourced=place in named)
    return None


def _version(home: Path) -> str | None:
    for pattern in FILES:
        for file in sorted(home.glob(pattern)):
            found = VERSION.search(file.read_text("utf-8", "replace"))
            if found:
                return found.group(1)
    return None
