"""The operators as PyTorch sees them: schemas, tracing, autograd, devices; and upstream's chain of three calls."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from typing import Any

import pytest
import torch
from operator_calls import metadata_of

from kernels.ascend import ops
from kernels.ascend.ops import autograd, backward, forward
from kernels.ascend.ops.calls import FlashAttnCall, FlashAttnGradCall, FlashAttnMetadataCall

OPERATORS = torch.ops.cann_ops_transformer
UTILS = ("test_schema", "test_faketensor", "test_aot_dispatch_static")
OPTIONS: dict[str, Any] = {
    "mask_mode": 0, "win_left": -1, "win_right": -1, "layout_q": "BSND", "layout_kv": "BSND", "layout_out": "BSND",
    "softmax_scale": 0.125,
}  # fmt: skip


def qkv(requires_grad: bool = False) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(2, length, heads, 64, generator=generator).half().npu().requires_grad_(requires_grad)
            for name, length, heads in (("q", 33, 4), ("k", 47, 2), ("v", 47, 2))}  # fmt: skip


def grad_metadata(tensors: dict[str, torch.Tensor], **changed: Any) -> torch.Tensor:
    return metadata_of(tensors | OPTIONS | changed, is_grad_enabled=True)


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


def test_autograd_is_flash_attn_grad():
    tensors = qkv(True)
    metadata = grad_metadata(tensors)
    out, lse = ops.flash_attn(**tensors, **OPTIONS, metadata=metadata, return_softmax_lse=True)
    assert out.requires_grad
    assert not lse.requires_grad
    out.sum().backward()  # its gradient is an expanded 1, with strides of 0
    detached = {name: x.detach() for name, x in tensors.items()}
    dout = torch.ones_like(out)
    gradients = ops.flash_attn_grad(
        **detached, dout=dout, attn_out=out.detach(), softmax_lse=lse, metadata=metadata, **OPTIONS
    )
    for x, gradient in zip(tensors.values(), gradients):
        assert torch.equal(x.grad.cpu(), gradient.cpu())


def test_only_some_inputs_need_a_gradient():
    tensors = qkv()
    tensors["k"].requires_grad_()
    out, _ = ops.flash_attn(**tensors, **OPTIONS, metadata=grad_metadata(tensors), return_softmax_lse=True)
    out.sum().backward()
    assert tensors["k"].grad.any()
    assert tensors["q"].grad is None


def backward_refusal(tensors: dict[str, torch.Tensor], **options: Any) -> str:
    out, _ = ops.flash_attn(**tensors, **OPTIONS | options)
    with pytest.raises(RuntimeError) as caught:
        out.sum().backward()
    return str(caught.value)


def test_what_has_no_backward_says_so():
    tensors = qkv(True)
    metadata, lse = grad_metadata(tensors), {"return_softmax_lse": True}
    assert "return_softmax_lse is False" in backward_refusal(tensors, metadata=metadata)
    forward_only = metadata_of(tensors | OPTIONS)
    assert "is_grad_enabled is False there" in backward_refusal(tensors, metadata=forward_only, **lse)
    assert "softmax_scale is 0.0" in backward_refusal(tensors, metadata=metadata, **lse, softmax_scale=0.0)
    in_heads = {name: x.detach().transpose(1, 2).contiguous().requires_grad_() for name, x in tensors.items()}
    mixed = {"layout_q": "BNSD", "layout_kv": "BNSD", "layout_out": "BSND"}
    text = backward_refusal(in_heads, metadata=grad_metadata(in_heads, **mixed), **lse, **mixed)
    assert "layout_out is BSND and layout_q is BNSD: all three must be equal" in text
    pages = {"layout_kv": "PA_BBND", "seqused_kv": torch.tensor([16, 3], dtype=torch.int32).npu()}
    pool = {"q": tensors["q"], "k": torch.zeros(2, 16, 2, 64, dtype=torch.float16, device="npu", requires_grad=True)}
    pool["v"] = pool["k"]
    table = torch.tensor([[0], [1]], dtype=torch.int32).npu()
    text = backward_refusal(pool, metadata=grad_metadata(pool, **pages), block_table=table, **lse, **pages)
    assert "no gradient goes through pages" in text
    band = {"mask_mode": 4, "win_left": 5, "attn_mask": ops.causal_mask_tensor()}
    text = backward_refusal(tensors, metadata=grad_metadata(tensors, mask_mode=4, win_left=5), **lse, **band)
    assert "win_right is -1: flash_attn_grad takes windows of 0 or more only" in text


def test_no_second_derivative():
    tensors = qkv(True)
    out, _ = ops.flash_attn(**tensors, **OPTIONS, metadata=grad_metadata(tensors), return_softmax_lse=True)
    (dq,) = torch.autograd.grad(out.float().square().sum(), tensors["q"], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dq.float().sum().backward()


@pytest.mark.parametrize("mask", [(0, -1, -1), (3, -1, -1), (4, 2, 1)])
@pytest.mark.parametrize("layout", ["BNSD", "BSND", "TND"])
def test_gradcheck_of_the_same_function_on_the_cpu(layout, mask):
    """The operators' autograd function with their arithmetic in place of the device's kernels, in float64."""
    generator = torch.Generator().manual_seed(0)
    heads_q, heads_kv, seq_q, seq_kv, dim = 4, 2, 3, 5, 4
    shapes = {"BNSD": lambda n, s: (1, n, s, dim), "BSND": lambda n, s: (1, s, n, dim), "TND": lambda n, s: (s, n, dim)}
    q, k, v = (torch.randn(shapes[layout](n, s), generator=generator, dtype=torch.float64, requires_grad=True)
               for n, s in ((heads_q, seq_q), (heads_kv, seq_kv), (heads_kv, seq_kv)))  # fmt: skip
    packed = layout == "TND"
    call = FlashAttnCall(
        q, k, v, softmax_scale=0.7, layout_q=layout, layout_kv=layout, layout_out=layout, return_softmax_lse=True,
        cu_seqlens_q=torch.tensor([0, 1, 3]) if packed else None,
        cu_seqlens_kv=torch.tensor([0, 4, 5]) if packed else None,
        **dict(zip(("mask_mode", "win_left", "win_right"), mask)),
    )  # fmt: skip
    kernels = autograd.Kernels(forward.compute, backward.compute)

    def attn_out(*tensors: torch.Tensor) -> torch.Tensor:
        return autograd.FlashAttnFunction.apply(kernels, *tensors, *call.operands()[3:])[0]

    assert torch.autograd.gradcheck(attn_out, (q, k, v), atol=2e-5, rtol=1e-3)


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


def test_optional_arguments_by_position():
    tensors = qkv()
    metadata = grad_metadata(tensors)
    nothing = [None] * 7
    by_position = ops.flash_attn(*tensors.values(), *nothing, metadata, 0.125, 0, -1, -1, 33, 47, *["BSND"] * 3, True)
    by_name = ops.flash_attn(**tensors, **OPTIONS, metadata=metadata, return_softmax_lse=True)
    for x, y in zip(by_position, by_name):
        assert torch.equal(x.cpu(), y.cpu())
    dout = torch.ones_like(by_name[0])
    got = ops.flash_attn_grad(*tensors.values(), dout, *by_name, *[None] * 6, metadata, 0.125)
    results = {"dout": dout, "attn_out": by_name[0], "softmax_lse": by_name[1]}
    named = ops.flash_attn_grad(**tensors, **results, metadata=metadata, softmax_scale=0.125)
    for x, y in zip(got, named):
        assert torch.equal(x.cpu(), y.cpu())


@pytest.mark.parametrize("mask", [3, "causal", "Causal", "CAUSAL", ops.MaskMode.CAUSAL])
def test_mask_modes_by_name(mask):
    tensors = qkv()
    sizes = {"batch_size": 2, "max_seqlen_q": 33, "max_seqlen_kv": 47}
    metadata = ops.flash_attn_metadata(4, 2, 64, **sizes, mask_mode=mask, is_grad_enabled=True)
    options = {"mask_mode": mask, "attn_mask": ops.causal_mask_tensor(), "metadata": metadata, "softmax_scale": 0.125}
    out, lse = ops.flash_attn(**tensors, **options, return_softmax_lse=True)
    assert ops.flash_attn_grad(**tensors, dout=out, attn_out=out, softmax_lse=lse, **options)[0].any()


def test_mask_modes():
    assert {mode.name: int(mode) for mode in ops.MaskMode} == {"NO_MASK": 0, "CAUSAL": 3, "SLIDING_WINDOW": 4}
    with pytest.raises(RuntimeError, match=r"mask_mode 'band' is no mask; known are NO_MASK \(0\), CAUSAL \(3\)"):
        ops.flash_attn(**qkv(), mask_mode="band")
    mask = ops.causal_mask_tensor("cpu")
    assert (mask.dtype, mask.shape) == (torch.int8, (2048, 2048))
    assert torch.equal(mask == 1, ~torch.ones(2048, 2048, dtype=torch.bool).tril())


def test_wrong_devices_are_refused():
    tensors = qkv()
    on_cpu = {name: x.cpu() for name, x in tensors.items()}
    with pytest.raises(RuntimeError, match=r"flash_attn: q, k and v are on the CPU.*\.npu\(\)"):
        ops.flash_attn(**on_cpu)
    with pytest.raises(RuntimeError, match="flash_attn: k is on cpu: all tensors must be on npu:0"):
        ops.flash_attn(**tensors | {"k": on_cpu["k"]}, metadata=grad_metadata(tensors))
    mask = ops.causal_mask_tensor("cpu")
    with pytest.raises(RuntimeError, match="flash_attn: attn_mask is on cpu"):
        ops.flash_attn(**tensors, metadata=grad_metadata(tensors, mask_mode=3), mask_mode=3, attn_mask=mask)
    with pytest.raises(RuntimeError, match="flash_attn: q is float32"):
        ops.flash_attn(**{name: x.float() for name, x in tensors.items()}, metadata=grad_metadata(tensors))


def test_q_is_made_contiguous_and_k_is_not():
    tensors = qkv()
    strided = {name: x.transpose(1, 2).contiguous().transpose(1, 2) for name, x in tensors.items()}
    metadata = grad_metadata(tensors)
    expected, _ = ops.flash_attn(**tensors, **OPTIONS, metadata=metadata)
    got, _ = ops.flash_attn(**tensors | {"q": strided["q"]}, **OPTIONS, metadata=metadata)
    assert torch.equal(got.cpu(), expected.cpu())
    assert got.is_contiguous()
    with pytest.raises(RuntimeError, match=r"flash_attn: k is .* needs it contiguous"):
        ops.flash_attn(**tensors | {"k": strided["k"]}, **OPTIONS, metadata=metadata)


def test_inputs_stay_as_they_are_and_calls_repeat():
    tensors = qkv()
    before = {name: x.cpu().clone() for name, x in tensors.items()}
    arguments = tensors | OPTIONS | {"metadata": grad_metadata(tensors), "return_softmax_lse": True}
    one, other = ops.flash_attn(**arguments), ops.flash_attn(**arguments)
    assert all(torch.equal(x.cpu(), y.cpu()) for x, y in zip(one, other))
    assert all(torch.equal(x.cpu(), before[name]) for name, x in tensors.items())


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


def test_scale_is_literal_in_the_forward():
    tensors = qkv()
    metadata = grad_metadata(tensors)
    _, default = ops.flash_attn(**tensors, metadata=metadata, return_softmax_lse=True)
    _, one = ops.flash_attn(**tensors, metadata=metadata, return_softmax_lse=True, softmax_scale=1.0)
    _, usual = ops.flash_attn(**tensors, metadata=metadata, return_softmax_lse=True, softmax_scale=1 / math.sqrt(64))
    assert torch.equal(default.cpu(), one.cpu())
    assert not torch.allclose(default.cpu(), usual.cpu(), atol=0.5)


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
