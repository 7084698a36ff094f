"""How much of one program stands in another: stretches of tokens that both hold, wherever they stand.

The stretches are those of winnowing (Schleimer, Wilkerson, Aiken: Winnowing, SIGMOD 2003) without its sampling:
submissions are small, so every stretch is kept and the answer is the same in every run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grader.integrity.shape import Token

STRETCH = 16  # tokens, some two lines of code; shorter ones are the idioms of the language
# Measured by benchmarks/similarity.py; docs/*/integrity.md quotes it.
ALIKE = 0.40  # of a whole submission
LEAST = 150  # tokens that have to agree
PART_ALIKE = 0.70  # of one exercise
PART_LEAST = 150  # tokens of the learner's own in it; in shorter ones there is little choice

Mask = NDArray[np.bool_]  # one for each token
Stretch = int  # the hash of its texts; two that differ share one with a chance of 1 in 2 ** 61


class Print:
    """The stretches of one program that are its own. ``given``: what everybody was handed (the skeleton, say)."""

    def __init__(self, tokens: Sequence[Token], given: Set[Stretch] = frozenset()):
        self.tokens = tokens
        places = stretches(tokens)
        handed = places.keys() & given
        self.places = {stretch: found for stretch, found in places.items() if stretch not in handed}
        self.own = ~self._covered(start for stretch in handed for start in places[stretch])
        self.parts = sorted({token.part for token in tokens if token.part is not None})
        number = {part: index for index, part in enumerate(self.parts)}
        self._part = np.array([number.get(token.part or "", len(number)) for token in tokens], dtype=int)
        self.sizes = self.by_part(self.own)

    def same(self, stretches: Iterable[Stretch]) -> Mask:
        """Its own tokens in these stretches."""
        return self._covered(start for stretch in stretches for start in self.places[stretch]) & self.own

    def by_part(self, mask: Mask) -> list[int]:
        """How many of these tokens stand in each of ``parts``."""
        return np.bincount(self._part[mask], minlength=len(self.parts) + 1)[: len(self.parts)].tolist()

    def _covered(self, starts: Iterable[int]) -> Mask:
        edges = np.zeros(len(self.tokens) + 1, dtype=int)
        at = np.fromiter(starts, dtype=int)
        np.add.at(edges, at, 1)
        np.add.at(edges, at + STRETCH, -1)
        return edges.cumsum()[:-1] > 0


def stretches(tokens: Sequence[Token]) -> dict[Stretch, list[int]]:
    texts = [token.text for token in tokens]
    found: dict[Stretch, list[int]] = defaultdict(list)
    for start in range(len(texts) - STRETCH + 1):
        found[hash(tuple(texts[start : start + STRETCH]))].append(start)
    return dict(found)


@dataclass(frozen=True, eq=False)
class Share:
    """What of one program stands in another."""

    tokens: Mask  # in the first program
    whole: float  # of its own tokens, 0 to 1
    parts: Mapping[str, tuple[float, int]]  # by exercise: the same, and how many own tokens it has

    @property
    def parts_alike(self) -> list[str]:
        return [name for name, (share, size) in self.parts.items() if size >= PART_LEAST and share >= PART_ALIKE]

    @property
    def worth_a_look(self) -> bool:
        return (self.tokens.sum() >= LEAST and self.whole >= ALIKE) or bool(self.parts_alike)

    @property
    def degree(self) -> float:
        """For an order: the largest share, of the whole or of an exercise that counts."""
        return max(self.whole, *(self.parts[name][0] for name in self.parts_alike), 0.0)


def share(one: Print, other: Print) -> Share:
    """What of ``one`` stands in ``other``."""
    same = one.same(one.places.keys() & other.places.keys())
    shared = zip(one.parts, one.by_part(same), one.sizes)
    parts = {name: (count / size, size) for name, count, size in shared if size}
    return Share(same, float(same.sum() / max(one.own.sum(), 1)), parts)


def can_be_alike(one: Print, other: Print) -> bool:
    """A quick look: False when :func:`share` would find too little either way."""
    return len(one.places.keys() & other.places.keys()) * STRETCH >= min(LEAST, int(PART_LEAST * PART_ALIKE))
