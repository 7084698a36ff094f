"""What a learner hands in beside the program: a schedule as JSON, a folder with a profile.

Read once, whole and with limits, into plain bytes: these travel to whoever grades, and what graded them is known by
their digest. They lie in a folder named as the file (``alice/`` of ``alice.ipynb``), or beside the file when no other
submission of the stage lies there, which could own them as well.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath

from grader.artifact import Artifact
from grader.course import catalog
from grader.text import Text, say

COPY = re.compile(r"-Copy\d+$")
MAX_FILES = 400  # of one artefact
MAX_BYTES = 8 << 20  # of one artefact; a profile of a training step has about 1 MB


@dataclass(frozen=True)
class Artifacts:
    """``files``: the bytes by path, ``"schedules.json"``, ``"profiles/before/..."``. ``refused``: those that lie there
    and do not count, by name, and why. ``notes``: that, and single files that were left out."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    notes: tuple[Text, ...] = ()
    refused: Mapping[str, Text] = field(default_factory=dict)

    def digests(self) -> dict[str, str]:
        """SHA-256 of each declared artefact: of a file's bytes; of a folder, its paths and their bytes."""
        names = sorted({PurePosixPath(path).parts[0] for path in self.files})
        found = (Artifact.among(self.files, name) for name in names)
        return {artifact.name: _digest(artifact.files) for artifact in found if artifact is not None}


def _digest(files: Mapping[str, bytes]) -> str:
    if set(files) == {""}:
        return hashlib.sha256(files[""]).hexdigest()
    whole = hashlib.sha256()
    for path, data in sorted(files.items()):
        whole.update(f"{path}\0{len(data)}\0".encode("utf-8", "surrogateescape"))
        whole.update(data)
    return whole.hexdigest()


def declared() -> frozenset[str]:
    """The names of all files and folders that exercises ask for."""
    return frozenset(
        exercise.name
        for stage in catalog.load(strict=False, checks=False).stages
        for exercise in stage.exercises
        if exercise.is_artifact
    )


def beside(path: Path, *, shared_folder: bool = True) -> Artifacts:
    """Those of the submission ``path``. Nothing that lies there raises. ``shared_folder``: other people's submissions
    may lie in the same folder, which a learner's own work folder rules out."""
    own = path.with_suffix("")
    if own.is_dir() and any((own / name).exists() for name in declared()):
        return within(own)
    there = [name for name in declared() if (path.parent / name).exists()]
    if not there:
        return Artifacts()
    others = _rivals(path) if shared_folder else []
    if others:
        return shared(path, there, others)
    return within(path.parent)


def within(folder: Path) -> Artifacts:
    """Those in ``folder``."""
    notes: list[Text] = []
    return limited({name: _read(folder, name, notes) for name in sorted(declared())}, notes)


def limited(found: Mapping[str, Iterator[tuple[str, bytes]]], notes: list[Text]) -> Artifacts:
    """Each artefact's paths and bytes, as many as one may have; ``notes`` may grow while they come."""
    files: dict[str, bytes] = {}
    refused: dict[str, Text] = {}
    for name, parts in found.items():
        own: dict[str, bytes] = {}
        for path, data in parts:
            own[path] = data
            if len(own) > MAX_FILES or sum(map(len, own.values())) > MAX_BYTES:
                refused[name] = say(
                    "{name} 太大，没有计入（上限 {files} 个文件、{size} MB）。请只留下要交的内容。",
                    "{name} is too large and does not count (at most {files} files and {size} MB). Keep only what is "
                    "asked for.",
                    name=name,
                    files=MAX_FILES,
                    size=MAX_BYTES >> 20,
                )
                break
        else:
            files |= own
    return Artifacts(files, (*notes, *refused.values()), refused)


def _read(folder: Path, name: str, notes: list[Text]) -> Iterator[tuple[str, bytes]]:
    for file in _files(folder / name, notes):
        data = _contents(file)
        if data is None:
            notes.append(
                say(
                    "{file} 读不了，没有计入。",
                    "{file} cannot be read and does not count.",
                    file=file.relative_to(folder).as_posix(),
                )
            )
        else:
            yield file.relative_to(folder).as_posix(), data


def _files(path: Path, notes: list[Text]) -> Iterator[Path]:
    """Plain files at or below ``path``. Links could lead to what others handed in, or to the course's own."""
    if path.is_symlink():
        notes.append(
            say(
                "{file} 是符号链接，没有计入，请交上文件本身。",
                "{file} is a symbolic link and does not count; hand in the file itself.",
                file=path.name,
            )
        )
    elif path.is_dir():
        with os.scandir(path) as entries:
            below = sorted(entry.name for entry in entries)
        for name in below:
            if not skipped(name):
                yield from _files(path / name, notes)
    elif path.is_file():
        yield path


def skipped(name: str) -> bool:
    """Whether a file or folder of this name is left out: systems and Jupyter put it there."""
    return name.startswith(".") or name == "__pycache__"


def _contents(file: Path) -> bytes | None:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as stream:
            return stream.read(MAX_BYTES + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    except OSError:
        return None


def _rivals(path: Path) -> list[str]:
    """Other submissions in the same folder that could be of the same stage: any program, and notebooks that do not say
    another stage. What Jupyter made of "Duplicate" is its original's owner's."""
    own = _stage(path)
    return sorted(
        other.name
        for other in path.parent.iterdir()
        if COPY.sub("", other.stem) != COPY.sub("", path.stem)
        and other.suffix.lower() == path.suffix.lower()
        and not other.name.startswith(".")
        and _stage(other) in (own, None)
    )


def _stage(path: Path) -> str | None:
    if path.suffix.lower() != ".ipynb":
        return None
    try:
        return str(json.loads(path.read_bytes())["metadata"]["flashdojo"]["stage"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def shared(path: PurePath, names: Collection[str], others: list[str]) -> Artifacts:
    """When it cannot be told whose ``names`` are."""
    refused = {
        name: say(
            "旁边的 {name} 没有计入：同一文件夹里还有 {other}，分不清是谁的。请放进 {own}/。",
            "{name} beside it does not count: {other} lies there too, so it could be anybody's. Put it into {own}/.",
            name=name,
            other=others[0],
            own=path.stem,
        )
        for name in sorted(names)
    }
    return Artifacts(notes=tuple(refused.values()), refused=refused)
