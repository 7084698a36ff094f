"""A file or folder that was handed in, as a check sees it: bytes that somebody else wrote."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any


class BadArtifact(ValueError):
    """It is not what it should be; the text says why, in English, for a message in both languages to quote."""


@dataclass(frozen=True)
class Artifact:
    """``files`` by their paths in the folder; of a file, itself as ``""``."""

    name: str
    files: Mapping[str, bytes]

    @classmethod
    def among(cls, files: Mapping[str, bytes], name: str) -> Artifact | None:
        """The one called ``name`` among everything that was handed in; None when it was not."""
        start = name + "/"
        inside = {path.removeprefix(start): data for path, data in files.items() if path.startswith(start)}
        if name in files:
            inside = {"": files[name]}
        return cls(name, inside) if inside else None

    def text(self, path: str = "") -> str:
        """Raises :class:`BadArtifact` when there is no such file, or when it is no UTF-8."""
        if path not in self.files:
            raise BadArtifact(f"{self._called(path)}: no such file")
        try:
            return self.files[path].decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise BadArtifact(f"{self._called(path)}: not UTF-8 (byte {error.start})") from None

    def json(self, path: str = "") -> Any:
        """As :meth:`text`; also raises when it is no JSON, or says a key twice."""
        try:
            return json.loads(self.text(path), parse_constant=_no_number, object_pairs_hook=_each_once)
        except (ValueError, RecursionError) as error:
            if isinstance(error, BadArtifact):
                raise
            raise BadArtifact(f"{self._called(path)}: not JSON ({error})") from None

    @contextlib.contextmanager
    def folder(self) -> Iterator[Path]:
        """A folder with these files, of this name, while the block lasts."""
        with tempfile.TemporaryDirectory(prefix="flashdojo-artifact-") as place:
            top = Path(place) / PurePosixPath(self.name).name
            for path, data in self.files.items():
                file = top / path if path else top
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
            yield top

    def _called(self, path: str) -> str:
        return f"{self.name}/{path}" if path else self.name


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for index, (key, _) in enumerate(pairs) if key in dict(pairs[:index]))
        raise ValueError(f"the key {twice[:60]!r} twice")
    return found


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number that JSON knows")
