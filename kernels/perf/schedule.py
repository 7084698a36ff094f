"""How it is computed: the tile, what runs ahead of what, how many places each buffer has and which way data takes."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from reprlib import repr as short
from typing import Any

PATHS = ("chip", "gm")
CHOICES: dict[str, tuple[str, ...]] = {
    "s_path": PATHS,
    "p_path": PATHS,
    "o_path": PATHS,
    "v_load": ("c1", "c2", "p"),
    "vector_code": ("unfused", "fused", "lanes", "cann", "pto"),
    "split": ("rows", "even"),
}
RANGES: dict[str, tuple[int, int]] = {  # of the whole numbers; slots, which are not named here, take 1 to 16
    "block_q": (16, 512),
    "block_kv": (16, 4096),
    "base_n": (32, 512),
    "base_k": (32, 512),
    "preload": (0, 8),
    "group": (0, 16),
    "s_bytes": (2, 4),
    "o_bytes": (2, 4),
    "vector_chunk": (1024, 65536),
    "tail_columns": (0, 4096),
}
SLOTS = (1, 16)


class BadSchedule(ValueError):
    """``field`` has a ``value`` that no schedule can have; ``problem`` says why. Field "" is the whole."""

    def __init__(self, field: str, value: object, problem: str) -> None:
        self.field, self.value, self.problem = field, value, problem
        super().__init__(f"{field[:40]}: {problem}" if field else problem)


@dataclass(frozen=True)
class Schedule:
    """Every knob of the model; the defaults are the best known order for a 950 at D = 128. Raises BadSchedule."""

    block_q: int = 128  # rows of a tile
    block_kv: int = 128  # columns of a tile
    preload: int = 2  # tiles that C1 runs ahead of C2; 0 takes turns
    group: int = 0  # g > 0: C1 of g tiles, then C2 of the same g, and nothing runs ahead
    q_slots: int = 2  # places in L1
    k_slots: int = 2  # in L1, of base_n columns each
    v_slots: int = 2  # likewise; when V is loaded beside K, more than preload
    p_slots: int = 3  # in L1: weights on their way to C2
    s_slots: int = 2  # scores between C1 and V1: in UB, or in global memory
    o_slots: int = 2  # partial outputs between C2 and V2
    l0_slots: int = 2  # in L0A and L0B
    l0c_slots: int = 4  # in L0C
    ub_input_slots: int = 2  # scores coming through global memory, in chunks
    ub_p_slots: int = 2  # weights leaving UB
    shared_so: bool = False  # scores and partial outputs share one place in UB
    s_path: str = "chip"  # L0C -> UB, or "gm": through global memory
    p_path: str = "chip"  # UB -> L1
    o_path: str = "chip"  # L0C -> UB
    s_bytes: int = 4  # of a score on its way through global memory
    o_bytes: int = 4  # of a partial output on its way
    v_load: str = "c2"  # V is loaded "c1": beside K; "c2": when C2 is issued; "p": when the weights have arrived
    barrier: bool = False  # the cube core waits for Fixpipe after every stage
    vector_code: str = "fused"  # quality of the softmax code, one measured number each
    vector_chunk: int = 8192  # elements that V1 takes at a time when scores come through global memory
    tail_columns: int = 0  # what the last tile of a causal row is rounded to; 0: whole tiles
    split: str = "rows"  # row blocks go to the next free core; "even": tiles are dealt out evenly (stream-K)
    base_n: int = 128  # columns of one Mmad
    base_k: int = 128  # depth of one Mmad

    def __post_init__(self) -> None:
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if name in CHOICES:
                if value not in CHOICES[name]:
                    raise BadSchedule(name, value, f"{short(value)} is none of {', '.join(CHOICES[name])}")
            elif field.type == "bool":
                if not isinstance(value, bool):
                    raise BadSchedule(name, value, f"{short(value)} is neither true nor false")
            else:
                low, high = RANGES.get(name, SLOTS)
                if not isinstance(value, int) or isinstance(value, bool):
                    raise BadSchedule(name, value, f"{short(value)} is no whole number")
                if not low <= value <= high:
                    raise BadSchedule(name, value, f"{short(value)} is outside {low} to {high}")
        for name in ("block_q", "block_kv", "base_n", "base_k", "tail_columns"):
            if getattr(self, name) % 16:
                raise BadSchedule(name, getattr(self, name), f"{getattr(self, name)} is no multiple of 16, the Cube's")
        if self.group and self.preload:
            raise BadSchedule("group", self.group, "with group above 0 nothing runs ahead: preload must be 0")

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | str) -> Schedule:
        """From a JSON object or its text; fields that are left out keep their defaults. Raises BadSchedule."""
        if isinstance(data, str):
            try:
                data = json.loads(data)
            except json.JSONDecodeError as error:
                raise BadSchedule("", data, f"no JSON: {error.msg} in line {error.lineno}") from None
            except (ValueError, RecursionError) as error:  # numbers of thousands of digits, thousands of brackets
                raise BadSchedule("", data, f"no JSON that can be read: {error}") from None
        if not isinstance(data, Mapping):
            raise BadSchedule("", data, 'a schedule is a JSON object such as {"block_q": 128}')
        known = [field.name for field in fields(cls)]
        for name, value in data.items():
            if name not in known:
                near = difflib.get_close_matches(str(name), known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
                raise BadSchedule(str(name), value, f"no such field; {hint}")
        return cls(**data)

    def to_json(self) -> dict[str, int | str | bool]:
        """Plain values of every field."""
        return asdict(self)
