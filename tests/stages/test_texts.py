"""Every idea that can be named has a text, and every text belongs to an idea that can be named."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType

import pytest

from grader import paths
from grader.checking.diagnose import Suspect
from grader.course import catalog

MODULES = {
    "s1": ("mistakes", "cost_mistakes"),
    "s2": (
        "mistakes", "lse_mistakes", "state_mistakes", "tile_mistakes", "backward_mistakes", "varlen_mistakes",
        "module_mistakes", "checks_traffic",
    ),
    "s3": ("npu_mistakes", "npu_calls", "checks_build", "checks_environment", "checks_varlen", "train_mistakes"),
    "s4": ("utilisation_mistakes", "diagnose_mistakes", "fitting_mistakes", "key_rules", "plan_rules"),
}  # fmt: skip
# tables, and where their rows hold the idea; None where a row is one
NAMED_AT = {
    "REFUSALS": -1, "MISTAKES": 0, "PAIRS": -1, "RULES": -1, "IDEAS": 0, "ENCODE_IDEAS": 0, "DECODE_IDEAS": 0,
    "EXCLUDED": 0, "ROUTE_IDEAS": None, "WRITE_IDEAS": None, "SHARES": 0, "OCCUPANCY": 0, "RATE": 0,
}  # fmt: skip
KEBAB = re.compile(r'"([a-z0-9_]+(?:-[a-z0-9]+)+)"')


def modules(stage: str) -> Iterator[ModuleType]:
    folder = catalog.load().stage(stage).folder
    yield from (import_module(f"flashdojo_stages.{folder}.{name}") for name in MODULES[stage])
    yield import_module("grader.checking.modules")


def ids(stage: str) -> set[str]:
    """All ids that the suspects and formulas of a stage can give."""
    found: set[str] = set()
    for module in modules(stage):
        for name, value in vars(module).items():
            if name.endswith("_suspects") and isinstance(value, Callable):  # type: ignore[arg-type]
                found |= {suspect.id for suspect in value() if isinstance(suspect, Suspect)}
            elif name.startswith("WRONG_"):
                found |= {id for id, _ in value}
            elif name == "wrong_tiles":
                found |= {id for id, _ in value()}
            elif name in NAMED_AT:
                rows, at = value.items() if isinstance(value, dict) else value, NAMED_AT[name]
                found |= {row if at is None else row[at] for row in rows}
    return found


@pytest.mark.parametrize("stage", ["s1", "s2", "s3", "s4"])
def test_every_suspect_has_a_text(stage: str) -> None:
    assert ids(stage) - set(catalog.load().stage(stage).misconceptions) == set()


def test_every_text_is_used() -> None:
    sources = [*paths.STAGES.glob("*/*.py"), *(paths.ROOT / "grader").rglob("*.py")]
    spoken = {word for file in sources for word in KEBAB.findall(file.read_text("utf-8"))} | {"missing"}
    for stage in catalog.load().stages:
        known = spoken | ids(stage.id)  # an id may be put together
        unused = {id for id in stage.misconceptions if id not in known and not id.startswith("forbidden-")}
        assert unused == set(), stage.id


def test_texts_are_complete_and_short() -> None:
    for stage in catalog.load().stages:
        for id, misconception in stage.misconceptions.items():
            for text in (*misconception.title, *misconception.explain):
                assert text, id
            assert len(misconception.explain.en) < 260, id


def test_there_are_many_ideas() -> None:
    assert len(ids("s1") | ids("s2")) >= 150
