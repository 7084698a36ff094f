"""Every rule of the three operators' argument checks, its message, and which of two broken rules is told."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import pytest
import torch
from argument_changes import Change, half, i32
from arguments_forward import BSND, FORWARD
from arguments_grad import G_BSND, GRAD
from arguments_metadata import M_BSND, METADATA

from kernels.ascend import ops
from kernels.ascend.device import soc

OPERATORS = {
    "flash_attn": (ops.check_flash_attn_arguments, FORWARD),
    "flash_attn_grad": (ops.check_flash_attn_grad_arguments, GRAD),
    "flash_attn_metadata": (ops.check_flash_attn_metadata_arguments, METADATA),
}
ROWS = [
    pytest.param(operator, base, change, id=f"{operator} {name}: {change.id}")
    for operator, (_, table) in OPERATORS.items()
    for name, (base, changes) in table.items()
    for change in changes
]
BASES = [(operator, name) for operator, (_, table) in OPERATORS.items() for name in table]


def refusal(operator: str, arguments: dict[str, Any]) -> str:
    with pytest.raises(RuntimeError) as caught:
        OPERATORS[operator][0](**arguments)
    return str(caught.value)


@pytest.mark.parametrize(("operator", "base", "change"), ROWS)
def test_one_change(operator, base, change):
    if not change.names:
        OPERATORS[operator][0](**base | change.arguments)
        return
    first = refusal(operator, base | change.arguments).partition("\n")[0]
    assert first.startswith(f"{operator}: {change.names} "), first


@pytest.mark.parametrize(("operator", "name"), BASES)
def test_unchanged_calls_are_fine(operator, name):
    check, table = OPERATORS[operator]
    check(**table[name][0])


SHAPED = {"q", "k", "v", "dout", "attn_out", "softmax_lse"}
DEPEND_ON_MASK = {"attn_mask", "win_left", "win_right"}
DEPEND_ON_LAYOUT = SHAPED | {"cu_seqlens_q", "cu_seqlens_kv", "seqused_q", "seqused_kv", "block_table", "max_seqlen_q",
                             "max_seqlen_kv", "head_dim"}  # fmt: skip


def fits_together(one: Change, other: Change) -> bool:
    """Whether neither of two faults repairs the other or replaces it."""
    for a, b in ((one.arguments, other.arguments), (other.arguments, one.arguments)):
        if set(a) & set(b) or (set(a) & SHAPED and set(b) & SHAPED):
            return False
        if a.get("mask_mode") in set(ops.MaskMode) and set(b) & DEPEND_ON_MASK:
            return False
        if any(name.startswith("layout") for name in a) and set(b) & DEPEND_ON_LAYOUT:
            return False
        if "seqused_kv" in a and "max_seqlen_kv" in b:  # either of the two is enough
            return False
    return True


def test_the_earlier_rule_is_told_first():
    tried = 0
    for operator, (_, table) in OPERATORS.items():
        for base, changes in table.values():
            for one, other in itertools.combinations([change for change in changes if change.names], 2):
                if not fits_together(one, other):
                    continue
                tried += 1
                first = refusal(operator, base | one.arguments | other.arguments).partition("\n")[0]
                assert first.startswith(f"{operator}: {one.names} "), f"{one.id}, {other.id}: {first}"
    assert tried > 2500
    assert len(ROWS) >= 200


def test_whatever_is_wrong_it_is_said_in_words():
    """Any two changes, at odds with each other or not: the checks never stumble themselves."""
    for check, table in OPERATORS.values():
        for base, changes in table.values():
            for one, other in itertools.permutations(changes, 2):
                with contextlib.suppress(RuntimeError):
                    check(**base | one.arguments | other.arguments)


@pytest.mark.parametrize(("operator", "base"), [("flash_attn", BSND), ("flash_attn_grad", G_BSND)])
def test_later_faults_are_listed(operator, base):
    text = refusal(operator, base | {"mask_mode": 7, "win_left": -3, "metadata": None})
    first, *later = text.split("\n  also: ")
    assert first.startswith(f"{operator}: mask_mode is 7")
    assert [line.split()[0] for line in later] == ["win_left", "metadata"]


def test_messages_teach():
    mask = refusal("flash_attn", BSND | {"mask_mode": 3})
    assert "torch.triu(torch.ones(2048, 2048, dtype=torch.int8), diagonal=1)" in mask
    text = refusal("flash_attn", BSND | {"q": BSND["q"].float()})
    assert "float32 [2, 64, 8, 128]" in text
    assert "float16 or bfloat16" in text
    assert ".half()" in text
    assert "call flash_attn_metadata first" in refusal("flash_attn", BSND | {"metadata": None})


def test_how_many_sequences():
    for given in ({"batch_size": None}, {"batch_size": -1}):
        with pytest.raises(ValueError, match="batch_size"):
            ops.check_flash_attn_metadata_arguments(**M_BSND | given)


def test_tensors_on_two_devices():
    arguments = BSND | {"k": torch.empty(2, 96, 2, 128, dtype=torch.float16)}
    assert refusal("flash_attn", arguments).startswith("flash_attn: k is on cpu: all tensors must be on meta")


def test_other_chips_have_no_such_operator():
    before = soc.current_soc()
    try:
        soc.use_soc("Ascend910B3")
        for operator, arguments in (("flash_attn", BSND), ("flash_attn_grad", G_BSND), ("flash_attn_metadata", M_BSND)):
            assert "Ascend910B3 has no such operator" in refusal(operator, arguments)
    finally:
        soc.use_soc(before.name)


def test_deterministic_algorithms_are_refused_by_the_gradient_only():
    torch.use_deterministic_algorithms(True)
    try:
        ops.check_flash_attn_arguments(**BSND)
        assert refusal("flash_attn_grad", G_BSND).startswith("flash_attn_grad: deterministic algorithms")
    finally:
        torch.use_deterministic_algorithms(False)


def test_positional_order_is_the_schemas():
    table, cu = i32(2, 4), i32(3)
    text = refusal("flash_attn", dict(zip("qkv", (BSND["q"], BSND["k"], BSND["v"]))) | {"block_table": table})
    with pytest.raises(RuntimeError) as caught:
        ops.check_flash_attn_arguments(BSND["q"], BSND["k"], BSND["v"], table)
    assert str(caught.value) == text
    with pytest.raises(RuntimeError, match="cu_seqlens_q"):
        ops.check_flash_attn_arguments(BSND["q"], BSND["k"], BSND["v"], None, cu)


def test_q_may_be_strided():
    ops.check_flash_attn_arguments(**BSND | {"q": half(2, 8, 64, 128).transpose(1, 2)})
