"""The one folder a worker may write to: made before it starts, emptied after it ended, however it left it."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterator

ENDLESS = 1 << 62


def make(parent: str, name: str, user: int | None) -> str:
    path = os.path.join(parent, name)
    os.mkdir(path, 0o700)
    if user is not None:
        os.chown(path, user, user)
    return path


def remove(path: str) -> None:
    """Remove a folder. Follows no links and does not recurse: folders inside are moved up, then emptied."""
    if not os.path.isdir(path) or os.path.islink(path):
        return
    os.chmod(path, 0o700)
    top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    fresh = (f".moved-{n}" for n in itertools.count())
    try:
        pending = _empty(top, top, fresh)
        while pending:
            name = pending.pop()
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
            try:
                pending += _empty(inner, top, fresh)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(path)


def _empty(folder: int, top: int, fresh: Iterator[str]) -> list[str]:
    """Unlink the files of ``folder``; its folders come to lie in ``top``, under the names returned."""
    moved = []
    for name in os.listdir(folder):
        if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
            new = next(fresh)
            os.chmod(name, 0o700, dir_fd=folder)
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=top)
            moved.append(new)
        else:
            os.unlink(name, dir_fd=folder)
    return moved


def usage(path: str, most: int) -> int:
    """Bytes in the folder; more than ``most`` entries, or paths too long to follow, count as endless."""
    total, count, folders = 0, 0, [path]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    count += 1
                    if count > most:
                        return ENDLESS
                    total += entry.stat(follow_symlinks=False).st_size
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except FileNotFoundError:
            continue
        except OSError:
            return ENDLESS
    return total
