"""A zip as Canvas and Moodle make them: read in place, so nothing in it can land anywhere or fill a disk."""

from __future__ import annotations

import re
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from grader.reading.artifacts import MAX_BYTES, Artifacts, declared, limited, shared, skipped
from grader.reading.submission import MAX_FILE, Unreadable, fitting, shown
from grader.text import Text, say

MAX_MEMBERS = 20_000
MAX_TOTAL = 2 << 30  # bytes, unpacked
MAX_RATIO = 200  # of a member's size to its packed size; notebooks come to 10, pictures to 1, a bomb to 1000
SMALL = 1 << 20  # bytes that no ratio makes a bomb
UTF8 = 0x800  # the flag of a name that is UTF-8
IDEOGRAPHS = re.compile(r"[\x00-\x7f\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]+")
FAULTS = (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError)


@dataclass(frozen=True)
class Member:
    """One file in an archive, under the name that a person gave it, or what is wrong with it."""

    name: PurePosixPath
    problem: Text | None = None


def members(archive: Path) -> list[Member]:
    """Every file in it, in the archive's order; raises :class:`Unreadable` when it is no zip, or a bomb."""
    try:
        with zipfile.ZipFile(archive) as file:
            infos = [info for info in file.infolist() if not info.is_dir()]
    except FAULTS as error:
        raise _refuse(
            archive,
            "打不开这个 zip（{why}），请重新下载。",
            "cannot be opened as a zip ({why}); download it again.",
            why=str(error)[:100] or type(error).__name__,
        ) from None
    if len(infos) > MAX_MEMBERS or sum(info.file_size for info in infos) > MAX_TOTAL:
        raise _refuse(
            archive,
            "像是压缩炸弹（超过 {members} 个文件，或解开后超过 {size} GB），没有解开。",
            "looks like a zip bomb (more than {members} files or {size} GB unpacked); it was not opened.",
            members=MAX_MEMBERS,
            size=MAX_TOTAL >> 30,
        )
    return [Member(PurePosixPath(name_of(info)), _problem(archive, info)) for info in infos]


def contents(archive: Path, name: PurePosixPath) -> bytes:
    """The bytes of one member; raises :class:`Unreadable`."""
    path = archive / name
    try:
        with zipfile.ZipFile(archive) as file:
            info = next(_called(file, name), None)
            if info is None:
                raise _refuse(path, "没有这个文件，请检查路径。", "no such file; check the path.")
            with file.open(info) as stream:
                return fitting(path, stream.read(MAX_FILE + 1))
    except FAULTS as error:
        if "encrypted" in str(error):
            raise _refuse(path, "有密码，请交上没有加密的文件。", "needs a password; hand it in unencrypted.") from None
        raise _refuse(
            path,
            "在压缩包里已损坏（{why}），请重新下载。",
            "is damaged in the archive ({why}); download it again.",
            why=str(error)[:100] or type(error).__name__,
        ) from None
    except Unreadable:
        raise
    except Exception as error:  # zlib's own, and whatever a decoder of hostile bytes may raise
        raise _refuse(path, "在压缩包里已损坏（{why}）。", "is damaged in the archive ({why}).", why=error) from None


def artifacts(archive: Path, name: PurePosixPath) -> Artifacts:
    """What lies beside the member ``name``, or in a folder called as it is; the rules are those for files on disk, but
    that every other program beside it counts as a rival."""
    try:
        with zipfile.ZipFile(archive) as file:
            infos = {
                PurePosixPath(name_of(info)): info
                for info in file.infolist()
                if not info.is_dir() and _problem(archive, info) is None
            }
            asked = declared()
            inside = _below(infos, name.with_suffix(""), asked)
            if inside:
                return limited(_unpacked(file, inside), [])
            inside = _below(infos, name.parent, asked)
            rivals = [
                other.name
                for other in infos
                if other.parent == name.parent and other != name and other.suffix.lower() == name.suffix.lower()
            ]
            if inside and rivals:
                return shared(name, {path.split("/")[0] for path in inside}, rivals)
            return limited(_unpacked(file, inside), [])
    except FAULTS:
        return Artifacts()  # the program itself cannot be read either, and says why


def _below(
    infos: dict[PurePosixPath, zipfile.ZipInfo], folder: PurePosixPath, names: frozenset[str]
) -> dict[str, zipfile.ZipInfo]:
    """Members of the folder that belong to one of these artefacts, by their path in it."""
    inside = {path.relative_to(folder): info for path, info in infos.items() if path.is_relative_to(folder)}
    return {
        path.as_posix(): info
        for path, info in sorted(inside.items())
        if path.parts and path.parts[0] in names and not any(skipped(part) for part in path.parts)
    }


def _unpacked(
    file: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]
) -> dict[str, Iterator[tuple[str, bytes]]]:
    """By artefact; a member is read when its turn comes."""

    def read(name: str) -> Iterator[tuple[str, bytes]]:
        for path, info in members.items():
            if path.split("/")[0] == name:
                with file.open(info) as stream:
                    yield path, stream.read(MAX_BYTES + 1)

    return {name: read(name) for name in sorted({path.split("/")[0] for path in members})}


def name_of(info: zipfile.ZipInfo) -> str:
    """The member's name. Without the flag for UTF-8 the bytes are what the system that packed them used: UTF-8 all the
    same (Moodle, macOS), or GBK (Chinese Windows), or the code page 437 that zipfile reads them as."""
    if info.flag_bits & UTF8:
        return info.filename
    raw = info.filename.encode("cp437", "replace")
    for encoding in ("utf-8", "gbk"):
        try:
            name = raw.decode(encoding)
        except UnicodeDecodeError:
            continue
        if encoding == "utf-8" or IDEOGRAPHS.fullmatch(name):
            return name
    return info.filename


def _called(file: zipfile.ZipFile, name: PurePosixPath) -> Iterator[zipfile.ZipInfo]:
    """The latest of that name: an archive may hold a file twice, and the later replaces the earlier."""
    return (info for info in reversed(file.infolist()) if PurePosixPath(name_of(info)) == name and not info.is_dir())


def _problem(archive: Path, info: zipfile.ZipInfo) -> Text | None:
    name = name_of(info)
    path = shown(archive / name)
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or "\\" in name or name[1:2] == ":":
        return say(
            "{path}：文件名指向压缩包之外，没有读取。",
            "{path}: its name leads out of the archive; it was not read.",
            path=path,
        )
    if stat.S_ISLNK(info.external_attr >> 16):
        return say(
            "{path}：是符号链接，请交上文件本身。", "{path}: a symbolic link; hand in the file itself.", path=path
        )
    if info.file_size > SMALL and info.file_size > MAX_RATIO * max(info.compress_size, 1):
        return say(
            "{path}：像是压缩炸弹（解开后是原来的 {ratio} 倍），没有解开。",
            "{path}: looks like a zip bomb ({ratio} times its packed size); it was not unpacked.",
            path=path,
            ratio=info.file_size // max(info.compress_size, 1),
        )
    return None


def _refuse(path: Path, zh: str, en: str, **values: object) -> Unreadable:
    return Unreadable(say("{path}：" + zh, "{path}: " + en, path=shown(path), **values))
