"""Results that are kept: one small file each, written whole or not at all, found again by what they follow from."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs

from grader.batch.plan import Job, Plan, Record
from grader.files import write_whole
from grader.reading.submission import shown

KEPT = 30 * 86400  # seconds after its last use that a result stays
VARIABLE = "FLASHDOJO_CACHE"
IN_OUT = ".cache"  # the folder inside ``--out``


def default_folder() -> Path:
    """Where results go without ``--out``: ``FLASHDOJO_CACHE``, else the user's own cache folder."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen) if chosen else platformdirs.user_cache_path("flashdojo") / "results"


class Cache:
    """The results under ``folder`` that were made as ``plan`` says. ``trouble`` is why results are not kept, if so.

    Two runs may share a folder. What cannot be read, or does not bear the mark of the secret (somebody put it there),
    is graded again; a result that the grader failed over is not kept.
    """

    def __init__(self, folder: Path, plan: Plan):
        self.folder = folder
        self.trouble: OSError | None = None
        self._require, self._key = set(plan.require), plan.secret.key
        self._identity = json.dumps(plan.identity(), sort_keys=True)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            self.trouble = error

    def find(self, job: Job) -> Record | None:
        """The result of this submission, made behind the walls that the plan requires; None when there is none."""
        file = self._file(job.path, job.student, hashlib.sha256(job.data).hexdigest(), job.artifacts.digests())
        try:
            signed = json.loads(file.read_bytes())
            if not hmac.compare_digest(signed["mac"], self._mac(signed["record"])):
                return None
            found = json.loads(signed["record"])
            record = Record(dict(found["row"]), tuple(found["isolation"]))
            if found["key"] != file.stem or not self._require <= set(record.isolation):
                return None
            _put_at(record.row, shown(job.path))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        with contextlib.suppress(OSError):
            os.utime(file)
        return record

    def keep(self, path: Path, record: Record) -> None:
        """Whatever the file holds by now: the row says of which content it is the result."""
        row = record.row
        if row["status"] != "graded" or self.trouble is not None:
            return
        file = self._file(path, row["student"], row["sha256"], row.get("artifacts", {}))
        text = json.dumps({"key": file.stem, "isolation": record.isolation, "row": row}, ensure_ascii=False)
        text = json.dumps({"mac": self._mac(text), "record": text}, ensure_ascii=False)
        try:
            file.parent.mkdir(exist_ok=True)
            write_whole(file, text)
        except OSError as error:
            self.trouble = error

    def tidy(self) -> None:
        """Remove what nobody used for a month, and what a killed run left half written."""
        with contextlib.suppress(OSError):
            for file in self.folder.glob("??/*"):
                if time.time() - file.stat().st_mtime > KEPT:
                    file.unlink()

    def _mac(self, text: str) -> str:
        return hmac.new(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

    def _file(self, path: Path, student: str, sha256: str, artifacts: Mapping[str, str]) -> Path:
        """A message may hold the file's name, so that counts; not where it lies."""
        parts = [self._identity, student, shown(path.name), sha256, sorted(artifacts.items())]
        key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        return self.folder / key[:2] / f"{key}.json"


def _put_at(row: dict[str, Any], path: str) -> None:
    """The file lies elsewhere now; the message of the row begins with its path."""
    message: Mapping[str, str] | None = row["message"]
    if message is not None:
        row["message"] = {lang: text.replace(row["path"], path, 1) for lang, text in message.items()}
    row["path"] = path
