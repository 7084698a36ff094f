"""One class per kernel: on stand-ins with documented signatures and, the same code, on the emulated NPU."""

from __future__ import annotations

import itertools

import documented
import pytest
import torch
from torch import Tensor

import kernels.ascend
from kernels import oracle
from kernels.ascend.backend import Ascend910B, Ascend950, Backend, CpuReference, Emulated, backend_for
from kernels.ascend.device import soc
from kernels.ascend.tiling import tile_sizes
from kernels.machine import Situation, detect

kernels.ascend.install()

MASKS = [(0, -1, -1), (3, -1, -1), (4, 5, 7), (4, -1, 3), (4, 2, -1), (4, -1, -1)]
LENGTHS = [(9, 13), (13, 9), (70, 70)]
EPS = {torch.float16: 2**-10, torch.bfloat16: 2**-7, torch.float32: 2e-6}


@pytest.fixture(autouse=True)
def same_chip():
    before = soc.current_soc().name
    yield
    soc.use_soc(before)


def emulated(chip: str) -> Backend:
    soc.use_soc(chip)
    return backend_for(detect())


BACKENDS = {
    "CPU": CpuReference,
    "950 by its document": lambda: Ascend950(documented.cann_ops_transformer(), "cpu"),
    "910B by its document": lambda: Ascend910B(documented.torch_npu(), "cpu"),
    "950 emulated": lambda: emulated("950"),
    "910B emulated": lambda: emulated("Ascend910B3"),
    "A3 emulated": lambda: emulated("Ascend910_9392"),
}


def drawn(sq: int, skv: int, dtype: torch.dtype, d: int = 64) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(sq * 1000 + skv)
    shapes = ((2, 4, sq, d), (2, 2, skv, d), (2, 2, skv, d), (2, 4, sq, d))
    return tuple(torch.randn(shape, generator=generator).to(dtype) for shape in shapes)


def error(got: Tensor, wanted: Tensor) -> float:
    return (got.double() - wanted).abs().max().item() / max(1.0, wanted.abs().max().item())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("mask", "lengths"), [*itertools.product(MASKS, LENGTHS)])
@pytest.mark.parametrize("name", BACKENDS)
def test_forward_and_backward(name, mask, lengths, dtype):
    backend = BACKENDS[name]()
    q, k, v, dout = drawn(*lengths, dtype)
    how = {"scale": 0.2, **dict(zip(("mask_mode", "win_left", "win_right"), mask))}
    out, lse = backend.forward(q, k, v, **how)
    wanted, wanted_lse = oracle.forward(q, k, v, **how)
    assert out.dtype == dtype
    assert lse.dtype == torch.float32
    assert out.device == lse.device == q.device
    assert error(out, wanted) <= 2 * EPS[dtype]
    assert torch.allclose(lse.double(), wanted_lse, rtol=1e-5, atol=1e-5)
    gradients = backend.backward(q, k, v, dout, out, lse, **how)
    for got, want, like in zip(gradients, oracle.backward(q, k, v, dout, **how), (q, k, v)):
        assert got.dtype == dtype
        assert got.shape == like.shape
        assert got.device == like.device
        assert error(got, want) <= 4 * EPS[dtype]


def test_tensors_of_the_device_stay_there():
    q, k, v, dout = (x.npu() for x in drawn(9, 13, torch.float16))
    for name in ("CPU", "950 emulated", "910B emulated"):
        backend = BACKENDS[name]()
        out, lse = backend.forward(q, k, v, scale=0.2)
        results = (out, lse, *backend.backward(q, k, v, dout, out, lse, scale=0.2))
        assert {x.device.type for x in results} == {"npu"}


def test_views_may_be_handed_in():
    backend = BACKENDS["950 emulated"]()
    q, k, v, _ = drawn(9, 13, torch.float16)
    strided = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    assert torch.equal(backend.forward(*strided, scale=0.2)[0], backend.forward(q, k, v, scale=0.2)[0])


def test_every_call_of_the_950_is_documented():
    ops = documented.cann_ops_transformer()
    backend, (q, k, v, dout) = Ascend950(ops, "cpu"), drawn(9, 13, torch.float16)
    out, lse = backend.forward(q, k, v, scale=0.2, mask_mode=3)
    backend.backward(q, k, v, dout, out, lse, scale=0.2, mask_mode=3)
    assert [name for name, _ in ops.calls] == [
        "flash_attn_metadata",
        "flash_attn",
        "flash_attn_metadata",
        "flash_attn_grad",
    ]
    for _, told in ops.calls[1::2]:
        assert told["softmax_scale"] == 0.2


def test_the_mask_is_made_once_for_each_dtype_and_device():
    ops, torch_npu = documented.cann_ops_transformer(), documented.torch_npu()
    q, k, v, dout = drawn(9, 13, torch.float16)
    with torch.inference_mode():  # the first call may be here, and a later one under autograd
        Ascend950(ops, "cpu").forward(q, k, v, scale=0.2, mask_mode=3)
    for backend in (Ascend950(ops, "cpu"), Ascend910B(torch_npu, "cpu")):
        for mode in (3, 4):
            out, lse = backend.forward(q, k, v, scale=0.2, mask_mode=mode)
            backend.backward(q, k, v, dout, out, lse, scale=0.2, mask_mode=mode)
    for module, argument, count in ((ops, "attn_mask", 5), (torch_npu, "atten_mask", 4)):
        masks = [told[argument] for _, told in module.calls if argument in told]
        assert len(masks) == count
        assert len({id(mask) for mask in masks}) == 1
        assert not masks[0].is_inference()


def test_unequal_head_dimensions_reach_the_metadata():
    ops = documented.cann_ops_transformer()
    q, k, v = torch.zeros(1, 2, 5, 192).half(), torch.zeros(1, 2, 5, 192).half(), torch.zeros(1, 2, 5, 128).half()
    Ascend950(ops, "cpu").forward(q, k, v, scale=0.1)
    assert (ops.calls[0][1]["head_dim"], ops.calls[0][1]["head_dim_v"]) == (192, 128)


def test_a_call_that_no_document_has_would_be_noticed():
    ops = documented.cann_ops_transformer()
    q = torch.zeros(1, 1, 4, 64).half()
    with pytest.raises(TypeError, match="block_size"):
        ops.flash_attn(q, q, q, block_size=128)
    with pytest.raises(AssertionError, match="keyword"):
        ops.flash_attn(q, q, q, None)


@pytest.mark.parametrize(
    ("name", "good", "bad", "words"),
    [
        ("950 emulated", [(64, 64), (128, 128), (256, 256), (192, 128)], [(32, 32), (96, 96)], "64, 72, 128"),
        ("910B emulated", [(1, 1), (96, 96), (192, 128), (768, 768)], [(769, 769), (64, 128)], "1 to 768"),
        ("CPU", [(3, 5), (1000, 1)], [], ""),
    ],
)
def test_head_dimensions(name, good, bad, words):
    backend = BACKENDS[name]()
    for dims in good:
        backend.check_head_dims(*dims)
    for dims in bad:
        with pytest.raises(RuntimeError, match=words):
            backend.check_head_dims(*dims)


class Spy(Backend):
    """Notes the tile sizes that hold while the operator runs."""

    name, device = "spy", torch.device("cpu")

    def __init__(self):
        self.seen = []

    def check_head_dims(self, dim, dim_v):
        return

    def _forward(self, how, q, k, v):
        self.seen.append(tile_sizes())
        return q, q[..., 0]

    def _backward(self, how, q, k, v, dout, attn_out, softmax_lse):
        self.seen.append(tile_sizes())
        return q, k, v


def test_tile_sizes_reach_the_emulated_operator_and_no_other():
    spy, (q, k, v, dout) = Spy(), drawn(9, 9, torch.float16)
    backend = Emulated(spy).with_tiles(32, 48)
    out, lse = backend.forward(q, k, v, scale=1.0)
    backend.backward(q, k, v, dout, out, lse, scale=1.0)
    assert spy.seen == [(32, 48), (32, 48)]
    assert tile_sizes() == (128, 128)
    real = Ascend910B(documented.torch_npu(), "cpu")
    assert real.chooses_tiles
    assert real.with_tiles(32, 48) is real
    assert CpuReference().with_tiles(32, 48).tiles == {"block_q": 32, "block_kv": 48}
    assert not CpuReference().chooses_tiles
    assert not backend.chooses_tiles


def test_the_backend_of_a_situation():
    assert isinstance(backend_for(Situation("none", torch="2.12.0")), CpuReference)
    for chip, real in (("950", Ascend950), ("Ascend910B2", Ascend910B), ("Ascend910_9382", Ascend910B)):
        backend = emulated(chip)
        assert isinstance(backend, Emulated)
        assert isinstance(backend.real, real)
        assert "(emulated)" in backend.name
    with pytest.raises(RuntimeError, match=r"Ascend910A.* has no FlashAttention operator"):
        emulated("Ascend910A")
    with pytest.raises(RuntimeError, match="no pair"):
        backend_for(Situation("none", torch="2.9.0", torch_npu="2.8.0", fault="not-a-pair"))
    real = backend_for(Situation("910B", torch="2.12.0", soc="Ascend910B3", torch_npu="2.12.0"))
    assert type(real) is Ascend910B
