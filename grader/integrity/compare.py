"""How much of one program stands in another: stretches of tokens that both hold, wherever they stand.

The stretches are those of winnowing (Schleimer, Wilkerson, Aiken: Winnowing, SIGMOD 2003) without its sampling:
submissions are small, so every stretch is kept and the answer is the same in every run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from grader.integrity.shape import Token

STRETCH = 16  # tokens, some two lines of code; shorter ones are the idioms of the language
# Measured by benchmarks/similarity.py; docs/*/integrity.md quotes it.
ALIKE = 0.40  # of a whole submission
LEAST = 150  # tokens that have to agree
PART_ALIKE = 0.70  # of one exercise
PART_LEAST = 150  # tokens of the learner's own in it; in shorter ones there is little choice

Stretch = int  # the hash of its texts; two that differ share one with a chance of 1 in 2 ** 61


@dataclass
class Print:
    """The stretches of one program that are its own. ``given``: what everybody was handed (the skeleton, say)."""

    tokens: Sequence[Token]
    given: Set[Stretch] = frozenset()
    places: dict[Stretch, list[int]] = field(init=False)
    own: frozenset[int] = field(init=False)  # positions of tokens in no given stretch
    sizes: Counter[str] = field(init=False)  # own tokens by exercise

    def __post_init__(self) -> None:
        places = stretches(self.tokens)
        handed = places.keys() & self.given
        self.own = frozenset(range(len(self.tokens))) - covered(places, handed)
        self.sizes = self.by_part(self.own)
        self.places = {stretch: found for stretch, found in places.items() if stretch not in handed}

    def by_part(self, positions: Iterable[int]) -> Counter[str]:
        """How many of these tokens stand in each exercise."""
        parts = (self.tokens[at].part for at in positions)
        return Counter(part for part in parts if part is not None)


def stretches(tokens: Sequence[Token]) -> dict[Stretch, list[int]]:
    texts = [token.text for token in tokens]
    found: dict[Stretch, list[int]] = defaultdict(list)
    for start in range(len(texts) - STRETCH + 1):
        found[hash(tuple(texts[start : start + STRETCH]))].append(start)
    return dict(found)


def covered(places: Mapping[Stretch, Iterable[int]], which: Iterable[Stretch]) -> set[int]:
    return {at for stretch in which for start in places[stretch] for at in range(start, start + STRETCH)}


@dataclass(frozen=True)
class Share:
    """What of one program stands in another."""

    tokens: frozenset[int]  # positions, in the first program
    whole: float  # of its own tokens, 0 to 1
    parts: Mapping[str, tuple[float, int]]  # by exercise: the same, and how many own tokens it has

    @property
    def parts_alike(self) -> list[str]:
        return [name for name, (share, size) in self.parts.items() if size >= PART_LEAST and share >= PART_ALIKE]

    @property
    def worth_a_look(self) -> bool:
        return (len(self.tokens) >= LEAST and self.whole >= ALIKE) or bool(self.parts_alike)

    @property
    def degree(self) -> float:
        """For an order: the largest share, of the whole or of an exercise that counts."""
        return max(self.whole, *(self.parts[name][0] for name in self.parts_alike), 0.0)


def share(one: Print, other: Print) -> Share:
    """What of ``one`` stands in ``other``."""
    same = frozenset(covered(one.places, one.places.keys() & other.places.keys()) & one.own)
    shared = one.by_part(same)
    parts = {name: (shared[name] / size, size) for name, size in one.sizes.items()}
    return Share(same, len(same) / len(one.own) if one.own else 0.0, parts)


def can_be_alike(one: Print, other: Print) -> bool:
    """A quick look: False when :func:`share` would find too little either way."""
    return len(one.places.keys() & other.places.keys()) * STRETCH >= min(LEAST, int(PART_LEAST * PART_ALIKE))
