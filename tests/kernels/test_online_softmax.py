"""However the keys are cut and in whatever order they come, the state ends up the same."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels import merge_states, online_softmax_update
from kernels.online_softmax import finish, start

EMPTY = start((2, 3), 4, dtype=torch.float64)


def draw(seed: int, hidden: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, 3, 12, generator=generator, dtype=torch.float64) * 30
    scores[torch.rand(scores.shape, generator=generator) < hidden] = -math.inf
    return scores, torch.randn(2, 12, 4, generator=generator, dtype=torch.float64)


def equal(a, b) -> None:
    for one, other in zip(a, b, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


cuts = st.lists(st.integers(1, 11), max_size=5, unique=True).map(lambda x: [0, *sorted(x), 12])


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 0.95, 1.0]), cuts)
def test_tiles_give_what_all_keys_give(seed, hidden, at):
    scores, values = draw(seed, hidden)
    state = EMPTY
    for a, b in pairwise(at):
        state = online_softmax_update(state, scores[..., a:b], values[:, a:b])
    equal(state, online_softmax_update(EMPTY, scores, values))

    output, lse = finish(state)
    seen = (scores > -math.inf).any(dim=-1)
    equal([output[seen]], [(torch.softmax(scores, dim=-1) @ values)[seen]])
    equal([lse[seen]], [scores.logsumexp(dim=-1)[seen]])
    assert not output[~seen].any()
    assert (lse[~seen] == math.inf).all()


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 1.0]))
def test_merging_is_associative_and_commutative_and_the_start_is_neutral(seed, hidden):
    scores, values = draw(seed, hidden)
    a, b, c = (
        online_softmax_update(EMPTY, scores[..., x], values[:, x]) for x in (slice(3), slice(3, 7), slice(7, 12))
    )
    equal(merge_states(merge_states(a, b), c), merge_states(a, merge_states(b, c)))
    equal(merge_states(a, b), merge_states(b, a))
    equal(merge_states(a, EMPTY), a)
    equal(merge_states(EMPTY, a), a)


def test_inputs_are_left_alone():
    scores, values = draw(0, 0.2)
    copies = [x.clone() for x in (*EMPTY, scores, values)]
    online_softmax_update(EMPTY, scores, values)
    equal((*EMPTY, scores, values), copies)
