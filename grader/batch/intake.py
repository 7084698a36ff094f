"""What there is to grade: files, folders, nbgrader's ``submitted/`` tree, and what Canvas and Moodle let download."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from grader.batch import archive
from grader.batch.names import Owner, named_owner, owner_of
from grader.batch.plan import Job
from grader.reading import artifacts, submission
from grader.reading.artifacts import Artifacts
from grader.reading.submission import SUFFIXES, Unreadable, shown
from grader.text import Text, say

COURSE = "nbgrader_config.py"


@dataclass(frozen=True)
class Entry:
    """One submission, or what is wrong with the path that was named instead. ``path`` of a zip's member continues into
    the archive."""

    path: Path
    student: str
    problem: Text | None = None
    notes: tuple[Text, ...] = ()
    member: PurePosixPath | None = None  # in a zip

    def job(self) -> Job:
        """The bytes of it, read now."""
        try:
            if self.problem:
                raise Unreadable(self.problem)
            return Job(self.path, self.student, self._contents(), artifacts=self._artifacts())
        except Unreadable as error:
            return Job(self.path, self.student, problem=error.message)

    def _contents(self) -> bytes:
        if self.member is None:
            return submission.contents(self.path)
        return archive.contents(self.path.parents[len(self.member.parts) - 1], self.member)

    def _artifacts(self) -> Artifacts:
        if self.member is None:
            return artifacts.beside(self.path)
        return archive.artifacts(self.path.parents[len(self.member.parts) - 1], self.member)


def collect(targets: Sequence[Path | str], student: str | None = None) -> list[Entry]:
    """The submissions behind the targets, each once."""
    entries: dict[str, Entry] = {}
    for target in map(Path, targets):
        for entry in _behind(target):
            if student is not None:
                entry = Entry(entry.path, student, entry.problem, entry.notes, entry.member)
            entries.setdefault(os.path.abspath(entry.path), entry)
    return list(entries.values())


def again(path: str) -> bytes:
    """The file that a document's ``path`` names, in a zip or not; raises :class:`Unreadable`."""
    for outer in Path(path).parents:
        if outer.suffix.lower() == ".zip" and outer.is_file():
            return archive.contents(outer, PurePosixPath(Path(path).relative_to(outer)))
    return submission.contents(Path(path))


def _behind(target: Path) -> list[Entry]:
    if target.is_dir():
        return _in_folder(target)
    if target.suffix.lower() == ".zip" and target.exists():
        return _in_archive(target)
    owner = owner_of(target)
    return [Entry(target, owner.student, notes=owner.notes)]


def _in_folder(target: Path) -> list[Entry]:
    top = target / "submitted" if (target / COURSE).is_file() and (target / "submitted").is_dir() else target
    found = []
    for path in submission.collect(top):
        owner = owner_of(path, top)
        problem = None
        if submission.leads_outside(path, top) or _of_another(path, top, owner):
            problem = say(
                "{path}：符号链接指向自己的文件夹之外，请交上文件本身。",
                "{path}: a symbolic link out of its own folder; hand in the file itself.",
                path=shown(path),
            )
        found.append(Entry(path, owner.student, problem, owner.notes))
    for path in _packed(top):
        found += _in_archive(path, owner_of(path, top))
    found += _empty_handed(top, {entry.student for entry in found})
    return found or [_nothing(target, "文件夹里没有 .ipynb 或 .py 文件。", "a folder without any .ipynb or .py file.")]


def _of_another(path: Path, top: Path, owner: Owner) -> bool:
    """A link to what somebody else handed in."""
    real, real_top = Path(os.path.realpath(path)), Path(os.path.realpath(top))
    if real == real_top / path.relative_to(top):
        return False
    other = named_owner(real, real_top)
    return other is not None and other.student != owner.student


def _empty_handed(top: Path, seen: set[str]) -> Iterator[Entry]:
    """Students whose folder or files are there, with nothing among them that can be graded."""
    for here, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in files if not name.startswith(".")):
            path = Path(here, name)
            owner = named_owner(path, top)
            if owner is not None and owner.student not in seen:
                seen.add(owner.student)
                yield _no_answer(path, owner)


def _packed(top: Path) -> list[Path]:
    """Zips in a folder: what one learner handed in together, such as a notebook and the files beside it."""
    found = (path for path in top.rglob("*") if path.suffix.lower() == ".zip" and path.is_file())
    return sorted(path for path in found if not _ignored(PurePosixPath(path.relative_to(top).as_posix())))


def _in_archive(target: Path, whose: Owner | None = None) -> list[Entry]:
    """``whose``: the owner of all in it that names no other."""
    try:
        members = archive.members(target)
    except Unreadable as error:
        return [Entry(target, whose.student if whose else shown(target.stem), error.message)]
    members = [member for member in members if not _ignored(member.name)]
    latest = {member.name: member for member in members}
    found, others = [], []
    for name, member in sorted(latest.items(), key=lambda item: item[0].parts):
        if name.suffix.lower() in SUFFIXES or member.problem:
            owner = named_owner(name) or whose or owner_of(name)
            found.append(Entry(target / _within(name), owner.student, member.problem, owner.notes, name))
        else:
            others.append(name)
    seen = {entry.student for entry in found}
    for name in others:
        known = named_owner(name)
        if known is not None and known.student not in seen:
            seen.add(known.student)
            found.append(_no_answer(target / _within(name), known))
    if found or whose is None:
        return found or [_nothing(target, "压缩包里没有 .ipynb 或 .py 文件。", "a zip without any .ipynb or .py file.")]
    return []  # then its owner has handed in nothing, which is told once for all that is there


def _ignored(name: PurePosixPath) -> bool:
    """What systems add to archives and folders, and what Jupyter keeps for itself."""
    return any(part in ("__MACOSX", "__pycache__") or (part.startswith(".") and part != "..") for part in name.parts)


def _within(name: PurePosixPath) -> PurePosixPath:
    """Never a path that leads elsewhere, whatever the archive says: it is shown, and compared."""
    return PurePosixPath(*(part for part in name.parts if part not in ("..", "/")))


def _no_answer(path: Path, owner: Owner) -> Entry:
    problem = say(
        "{path}：没有交 .ipynb 或 .py 文件。请交上文件本身，不要再打包。",
        "{path}: no .ipynb or .py file was handed in; hand in the file itself, not packed again.",
        path=shown(path),
    )
    return Entry(path, owner.student, problem, owner.notes)


def _nothing(target: Path, zh: str, en: str) -> Entry:
    return Entry(target, owner_of(target).student, say("{path}：" + zh, "{path}: " + en, path=shown(target)))
