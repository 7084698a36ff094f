"""Is a returned tensor right, and what is said when it is not?"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from grader.checking.cases import Shape, draw
from grader.checking.compare import (
    Expected,
    describe,
    distance,
    evidence_of,
    require_like,
    require_tensors,
    right,
    tolerance,
)
from grader.live.subject import LiveSubject
from grader.vocabulary import CheckFailed, Context

WANT = Expected(
    "attn_out", torch.tensor([[1.0, 2.0], [3.0, math.inf]], dtype=torch.float64), 1e-6, torch.float32, rows=1
)


def got(*values: float) -> torch.Tensor:
    return torch.tensor(values).reshape(2, 2)


@pytest.fixture
def ctx() -> Context:
    return Context(LiveSubject({}), "s2-forward.values")


def test_equal_values_and_equal_infinities_are_right() -> None:
    assert right(got(1, 2, 3, math.inf), WANT)


@pytest.mark.parametrize("bad", [math.nan, -math.inf, 1e30, 3.0])
def test_nothing_else_stands_for_an_infinity(bad: float) -> None:
    assert not right(got(1, 2, 3, bad), WANT)


def test_nan_never_passes() -> None:
    assert not right(got(1, math.nan, 3, math.inf), WANT)


def test_another_dtype_or_shape_never_passes() -> None:
    assert not right(got(1, 2, 3, math.inf).double(), WANT)
    assert not right(got(1, 2, 3, math.inf)[None], WANT)
    assert distance(torch.zeros(2), torch.zeros(3)) == math.inf


def test_evidence_is_json_and_points_to_the_largest_error() -> None:
    evidence = evidence_of(got(1, 2, math.nan, math.inf), WANT)
    assert json.loads(json.dumps(evidence, allow_nan=False))["index"] == [1, 0]
    assert evidence["tile_errors"]["errors"] == [[0.0], ["inf"]]


def test_the_message_says_how_much_and_where() -> None:
    text = describe(got(1, 2.5, 3, math.inf), WANT)
    assert "25%" in text.en
    assert "[0, 1]" in text.en
    assert "[0, 1]" in text.zh


def test_shape_and_dtype_have_messages_of_their_own(ctx: Context) -> None:
    with pytest.raises(CheckFailed, match=r"must have shape \[2, 2\]") as failure:
        require_like(ctx, torch.zeros(2, 1), WANT, shapes={(2, 1): "tail-dropped"})
    assert failure.value.misconception == "tail-dropped"
    with pytest.raises(CheckFailed, match="must be float32, it is float16"):
        require_like(ctx, torch.zeros(2, 2).half(), WANT)


def test_what_is_not_a_tensor_is_refused(ctx: Context) -> None:
    with pytest.raises(CheckFailed, match="returned None"):
        require_tensors(ctx, None, ("attn_out",))
    with pytest.raises(CheckFailed, match="tuple"):
        require_tensors(ctx, (torch.zeros(1),), ("attn_out", "softmax_lse"))


def test_the_tolerance_grows_with_plain_errors_and_has_a_floor() -> None:
    oracle = torch.zeros(3, dtype=torch.float64)
    floor = tolerance(oracle, [oracle], dtype=torch.float32, logits=10.0, magnitude=1.0)
    assert 1e-6 < floor < 1e-5
    assert tolerance(oracle, [oracle + 1e-3], dtype=torch.float32, logits=10.0, magnitude=1.0) == pytest.approx(2e-3)
    assert tolerance(oracle, [oracle], dtype=torch.bfloat16, logits=10.0, magnitude=1.0) > 1e-2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_plain_pytorch_is_within_its_own_tolerance(dtype: torch.dtype) -> None:
    for seed in range(20):
        case = draw(
            np.random.default_rng(seed), Shape(1, 2, 1, seq_q=9, seq_kv=14, value_dim=5), dtype=dtype, mask_mode=3
        )
        for first in (True, False):
            out, lse = case.plain(scaled_first=first)
            assert right(out, case.expected)
            assert right(lse.float(), case.expected_lse)
