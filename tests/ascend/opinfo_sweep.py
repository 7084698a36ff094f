"""Every operator of torch's own test samples, on the CPU and on the emulated device, forward and backward.

    python opinfo_sweep.py [DTYPE]

Prints one line of JSON: how many operators there were, what differed, and what even the CPU does not take:
{"operators": n, "different": {name: why}, "beyond": {name: why}}.
Run as a process of its own, so that a crash shows; the operator in work is then the last line of standard error.
"""

from __future__ import annotations

import itertools
import json
import sys
import warnings
from typing import Any

import torch
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

import kernels.ascend

kernels.ascend.install()

SAMPLES = 3
UNINITIALISED = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}


def outcome(op: Any, sample: Any, device: str) -> list[Tensor | None]:
    """The tensors that come out, and the gradients of those that go in."""

    def moved(value: Any) -> Any:
        if isinstance(value, Tensor) and value.layout is not torch.strided:
            return value.detach().clone().to(device).requires_grad_(value.requires_grad)
        if isinstance(value, Tensor):
            storage = value.untyped_storage()  # all of it: a sample may be a view that reaches beyond itself
            geometry = value.storage_offset(), value.shape, value.stride()
            there = torch.empty(0, dtype=value.dtype, device=device)
            there.set_(storage.clone() if device == "cpu" else storage.npu(), *geometry)
            return there.requires_grad_(value.requires_grad)
        if isinstance(value, torch.device):
            return torch.device(device)
        return device if value == "cpu" else value

    torch.manual_seed(0)
    this, args, kwargs = tree_map(moved, (sample.input, sample.args, sample.kwargs))
    results = tree_leaves(sample.output_process_fn_grad(op(this, *args, **kwargs)))
    out = [value for value in results if isinstance(value, Tensor)]
    leaves = [x for x in tree_leaves((this, args, kwargs)) if isinstance(x, Tensor) and x.requires_grad]
    ends = [value for value in out if value.requires_grad and value.layout is torch.strided]
    if not (leaves and ends):
        return [*out]
    ones = [torch.ones_like(value) for value in ends]
    return [*out, *torch.autograd.grad(ends, leaves, ones, allow_unused=True)]


def difference(op: Any, sample: Any, expected: list[Tensor | None]) -> str | None:
    """Why the device's outcome is not the CPU's to the last bit, None if it is."""
    try:
        found = outcome(op, sample, "npu")
    except Exception as error:
        return first_line(error)
    for one, other in zip(expected, found, strict=True):
        if one is None or other is None:
            if one is not other:
                return "a gradient is there on one device only"
            continue
        if other.device.type != "npu" and op.name != "to":
            return f"a result is on {other.device}"
        if (one.dtype, one.shape, one.stride()) != (other.dtype, other.shape, other.stride()):
            return f"{one.dtype} {one.shape} {one.stride()}, not {other.dtype} {other.shape} {other.stride()}"
        if op.name not in UNINITIALISED and not same_bits(one.detach(), other.detach().cpu()):
            return "other values"
    return None


def first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"


def same_bits(one: Tensor, other: Tensor) -> bool:
    plain = [torch.zeros_like(x) if x._is_zerotensor() else x.resolve_conj().resolve_neg() for x in (one, other)]
    if one.is_complex():
        plain = [torch.view_as_real(x) for x in plain]
    return torch.equal(*(torch.nan_to_num(x) if x.is_floating_point() else x for x in plain))


def main(dtype: torch.dtype) -> None:
    warnings.simplefilter("ignore")
    different: dict[str, str] = {}
    beyond: dict[str, str] = {}
    count = 0
    for op in op_db:
        if not op.supports_dtype(dtype, "cpu"):
            continue
        name = f"{op.name}.{op.variant_test_name}".removesuffix(".")
        print(name, file=sys.stderr, flush=True)
        backward = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
        torch.manual_seed(0)
        compared = 0
        for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=backward), SAMPLES):
            try:
                expected = outcome(op, sample, "cpu")
            except Exception as error:
                beyond[name] = first_line(error)
                continue
            compared += 1
            why = difference(op, sample, expected)
            if why:
                different[name] = why
                break
        count += compared > 0
    print(json.dumps({"operators": count, "different": different, "beyond": beyond}))


if __name__ == "__main__":
    main(getattr(torch, sys.argv[1] if sys.argv[1:] else "float32"))
