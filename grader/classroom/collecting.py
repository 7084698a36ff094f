"""``nbgrader collect`` that takes what was handed in, and nothing that it points to.

Everybody may write to an exchange's inbound folder. nbgrader copies from there with the instructor's rights and follows
symbolic links: one to ``secret.key`` or to another's work would come in as a file of the learner's.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Any

from nbgrader.exchange.default import ExchangeCollect


class CollectNoLinks(ExchangeCollect):
    """Leaves out links, pipes and devices, and says so."""

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:
        left_out: list[str] = []

        def unwanted(folder: str, names: list[str]) -> list[str]:
            found = [name for name in names if not _plain(os.path.join(folder, name))]
            left_out.extend(os.path.relpath(os.path.join(folder, name), src) for name in found)
            return found

        with tempfile.TemporaryDirectory(prefix="flashdojo-collect-") as scratch:
            clean = Path(scratch) / "submission"
            shutil.copytree(src, clean, symlinks=True, ignore=unwanted)
            super().do_copy(str(clean), dest, log)
        for name in left_out:
            self.log.warning("%s: %s is no regular file and was left out", os.path.basename(src), name)


def _plain(path: str) -> bool:
    mode = os.lstat(path).st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)
