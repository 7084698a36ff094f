"""Folders that a check hands to learner code, such as a profile to read."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from grader.subject import Provided


def folder(name: str, files: Mapping[str, str | bytes]) -> Provided:
    """Among the arguments of a call: becomes the path (str) of a folder ``name`` with these files, by their paths in
    it, where learner code runs. Text is written as UTF-8, its line ends as they are."""
    encoded = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    # as tensors: strings on the wire are short, and cleaned
    tensors = {
        path: torch.frombuffer(bytearray(data or b"\0"), dtype=torch.uint8)[: len(data)]
        for path, data in encoded.items()
    }
    return Provided("folder", {"name": name, "files": tensors})
