"""A result document from a file: checked before anything is made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grader import results
from grader.text import Text, say


class Unusable(Exception):
    """This is no result document that this version can read; ``message`` says why and what to do."""

    def __init__(self, message: Text):
        super().__init__(message.en)
        self.message = message


def read_document(file: Path) -> dict[str, Any]:
    """The document in ``file``, or those of a folder as one; raises :class:`Unusable`, or OSError when there is none to
    read. nbgrader's courses keep a document for each learner."""
    if not file.is_dir():
        return _read(file)
    documents = [_read(part) for part in sorted(file.glob("*.json"))]
    if not documents:
        raise Unusable(
            say(
                "{file}：文件夹里没有结果文档（.json）。",
                "{file}: no result document (.json) in this folder.",
                file=file,
            )
        )
    return _joined(documents)


def _joined(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One document; what it says of all its grades holds for each: the walls that stood around every one of them, and a
    notice that any of them carries."""
    first = documents[0]
    layers = [set(document["device"]["isolation"]) for document in documents]
    common = [layer for layer in first["device"]["isolation"] if all(layer in each for each in layers)]
    secrets = {document["secret"] for document in documents}
    return {
        **first,
        "secret": "public" if "public" in secrets else first["secret"],
        "device": {**first["device"], "isolation": common},
        "notice": next((document["notice"] for document in documents if document.get("notice")), None),
        "submissions": [submission for document in documents for submission in document["submissions"]],
    }


def _read(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise Unusable(
            say(
                "{file}：不是 JSON。请给出 ./dojo grade --json 或 --out 写下的结果文档。",
                "{file}: not JSON. Give the result document that ./dojo grade --json or --out wrote.",
                file=file,
            )
        ) from None
    check(document, str(file))
    return document


def check(document: Any, name: str) -> None:
    """Raises :class:`Unusable` unless ``document`` is a result document of this version's schema."""
    import jsonschema

    version = document.get("schema_version") if isinstance(document, Mapping) else None
    if version is None:
        raise Unusable(
            say(
                "{name}：不是结果文档（没有 schema_version）。请给出 ./dojo grade --json 或 --out 写下的文件。",
                "{name}: not a result document (no schema_version). Give the file that ./dojo grade --json or --out "
                "wrote.",
                name=name,
            )
        )
    if version != results.SCHEMA_VERSION:
        raise Unusable(
            say(
                "{name}：结果文档的版本是 {version}，本程序读的是 {own}。请用本版本的 ./dojo grade 重新评分。",
                "{name}: the document has schema version {version}, this program reads {own}. Grade again with "
                "this version's ./dojo grade.",
                name=name,
                version=results.clean(version),
                own=results.SCHEMA_VERSION,
            )
        )
    try:
        results.validate(document)
    except jsonschema.ValidationError as error:
        raise _damaged(name, "/".join(map(str, error.absolute_path)) or "/", error.message) from None
    except ValueError as error:
        raise _damaged(name, "score", str(error)) from None


def _damaged(name: str, place: str, why: str) -> Unusable:
    return Unusable(
        say(
            "{name}：结果文档已损坏，在 {place}：{why}。请重新评分。",
            "{name}: the result document is damaged at {place}: {why}. Grade again.",
            name=name,
            place=place,
            why=results.clean(why)[:160],
        )
    )
