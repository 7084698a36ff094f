"""The operators as PyTorch sees them: schemas, tracing, tensors without memory; and upstream's chain of three calls."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest
import torch
from operator_calls import metadata_of
from operator_inputs import OPTIONS, grad_metadata, qkv

from kernels.ascend import ops
from kernels.ascend.ops.calls import FlashAttnCall, FlashAttnGradCall, FlashAttnMetadataCall

OPERATORS = torch.ops.cann_ops_transformer
UTILS = ("test_schema", "test_faketensor", "test_aot_dispatch_static")


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("return_softmax_lse", [True, False])
def test_opcheck_flash_attn(requires_grad, return_softmax_lse):
    tensors = qkv(requires_grad and return_softmax_lse)
    options = OPTIONS | {"metadata": grad_metadata(tensors), "return_softmax_lse": return_softmax_lse}
    torch.library.opcheck(OPERATORS.flash_attn.default, tuple(tensors.values()), options, test_utils=UTILS)


def test_opcheck_flash_attn_causal_tnd_with_sinks():
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(20, heads, 64, generator=generator).half().npu().requires_grad_() for heads in (4, 2, 2))
    cu = torch.tensor([0, 4, 4, 20], dtype=torch.int32).npu()
    options = OPTIONS | {"layout_q": "TND", "layout_kv": "TND", "layout_out": "TND", "mask_mode": 3,
                         "cu_seqlens_q": cu, "cu_seqlens_kv": cu}  # fmt: skip
    metadata = metadata_of({"q": q, "k": k, "v": v} | options, is_grad_enabled=True)
    options |= {"metadata": metadata, "attn_mask": ops.causal_mask_tensor(), "return_softmax_lse": True,
                "sinks": torch.randn(4).npu()}  # fmt: skip
    torch.library.opcheck(OPERATORS.flash_attn.default, (q, k, v), options, test_utils=UTILS)


def test_opcheck_flash_attn_grad_and_metadata():
    tensors = qkv()
    metadata = grad_metadata(tensors)
    out, lse = ops.flash_attn(**tensors, **OPTIONS, metadata=metadata, return_softmax_lse=True)
    arguments = (*tensors.values(), torch.ones_like(out), out, lse)
    torch.library.opcheck(
        OPERATORS.flash_attn_grad.default, arguments, OPTIONS | {"metadata": metadata}, test_utils=UTILS
    )
    sizes = {"batch_size": 2, "max_seqlen_q": 33, "max_seqlen_kv": 47, "mask_mode": 0}
    torch.library.opcheck(OPERATORS.flash_attn_metadata.default, (4, 2, 64), sizes, test_utils=UTILS)


def test_signatures_are_the_schemas():
    """Names, order and defaults of the Python functions, the argument objects and the registered schemas agree."""
    for function, call, operator in (
        (ops.flash_attn, FlashAttnCall, OPERATORS.flash_attn),
        (ops.flash_attn_grad, FlashAttnGradCall, OPERATORS.flash_attn_grad),
        (ops.flash_attn_metadata, FlashAttnMetadataCall, OPERATORS.flash_attn_metadata),
    ):
        schema = operator.default._schema.arguments
        defaults = {x.name: x.default_value for x in schema if x.has_default_value()}
        parameters = inspect.signature(function).parameters
        assert list(parameters) == [x.name for x in schema]
        assert {n: p.default for n, p in parameters.items() if p.default is not p.empty} == defaults
        assert list(inspect.signature(call).parameters)[: len(schema)] == list(parameters)


def test_tensors_without_memory():
    tensors = {name: x.to("meta") for name, x in qkv().items()}
    metadata = torch.empty(8192, dtype=torch.int32, device="meta")
    out, lse = ops.flash_attn(**tensors, metadata=metadata, return_softmax_lse=True)
    assert (out.device.type, out.shape, out.dtype) == ("meta", tensors["q"].shape, torch.float16)
    assert (lse.device.type, lse.shape, lse.dtype) == ("meta", (2, 4, 33), torch.float32)
    gradients = ops.flash_attn_grad(**tensors, dout=out, attn_out=out, softmax_lse=lse, metadata=metadata)
    assert [x.shape for x in gradients] == [x.shape for x in tensors.values()]
    with pytest.raises(RuntimeError, match="flash_attn: metadata is missing"):
        ops.flash_attn(**tensors)


CHAIN = """
import math, torch, torch_npu, cann_ops_transformer as cot

torch_npu.npu.set_device(0)
batch, seq_q, seq_kv, heads_q, heads_kv, dim, dim_v = 2, 128, 128, 8, 2, 128, 128
q = torch.randn(batch, seq_q, heads_q, dim, dtype=torch.float16, device="npu")
k = torch.randn(batch, seq_kv, heads_kv, dim, dtype=torch.float16, device="npu")
v = torch.randn(batch, seq_kv, heads_kv, dim_v, dtype=torch.float16, device="npu")
layouts = {"layout_q": "BSND", "layout_kv": "BSND", "layout_out": "BSND"}
mask = {"mask_mode": 0, "win_left": -1, "win_right": -1}
longest = {"max_seqlen_q": seq_q, "max_seqlen_kv": seq_kv}
metadata = cot.flash_attn_metadata(heads_q, heads_kv, dim, batch_size=batch, is_grad_enabled=True,
                                   **longest, **mask, **layouts)
shared = dict(metadata=metadata, softmax_scale=1.0 / math.sqrt(dim), **mask, **longest, **layouts)
attn_out, softmax_lse = cot.flash_attn(q, k, v, return_softmax_lse=True, **shared)
dout = torch.randn_like(attn_out)
gradients = cot.flash_attn_grad(q, k, v, dout, attn_out, softmax_lse, **shared)
torch_npu.npu.synchronize()
for gradient, x in zip(gradients, (q, k, v)):
    assert gradient.shape == x.shape and gradient.is_npu and gradient.isfinite().all()
from cann_ops_transformer.ops import flash_attn_grad
assert flash_attn_grad is cot.flash_attn_grad and cot.__emulated__
print(tuple(attn_out.shape), tuple(softmax_lse.shape))
"""


def test_the_documented_chain_of_three_calls(tmp_path):
    """The joint example of flash_attn_grad's document, through `flashdojo run`."""
    program = tmp_path / "chain.py"
    program.write_text(CHAIN, encoding="utf-8")
    command = [sys.executable, "-c", "from grader.cli import main; main()", "run", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "(2, 128, 8, 128) (2, 8, 128)"
    assert not done.stderr
