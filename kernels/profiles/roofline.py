"""Times of the kernels that are not attention: a roofline, which is a bound and not a prediction.

time = START_UP_US + max(arithmetic / what the units can do, bytes / what the memory can do). Nothing is fitted and no
measurement is behind START_UP_US; a real kernel takes this or longer. What it is good for: the proportions of a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import Any

from .kernel import AIC_PIPES, AIV_PIPES, Device, Kernel
from .runs import DTYPES, cycles, kernel_name, occupancy

START_UP_US = 2.0  # assumed: the order of what an empty kernel takes on the device
BLOCK_M = BLOCK_N = 128  # of a matmul: one block of the result for a core
VECTOR_BLOCK = 32 * 1024  # bytes that make it worth to wake one more vector core
FP32_LANES = 64  # elements of one vector instruction in one cycle; 128 of 16 bits
# multiply-adds per cycle and cube core by element size: 16x16x16 of 16 bits; of 32 bits 16x16x4 and 16x16x1
MACS = {("2201", 2): 4096, ("2201", 4): 1024, ("3510", 2): 4096, ("3510", 4): 256}
SIZES = {"float16": 2, "bfloat16": 2, "float32": 4, "int64": 8, "bool": 1}


@dataclass(frozen=True)
class Tensor:
    """Shape and element type, which is a key of SIZES."""

    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def bytes(self) -> int:
        return prod(self.shape) * SIZES[self.dtype]


def matmul(soc: Any, api: str, m: int, n: int, k: int, *, dtype: str = "float32", bias: bool = False) -> Kernel:
    """[m, k] x [k, n] on the cube cores, HF32 off."""
    left, right, out = Tensor((m, k), dtype), Tensor((k, n), dtype), Tensor((m, n), dtype)
    inputs = (left, right, Tensor((n,), dtype)) if bias else (left, right)
    blocks = min(soc.cores, ceil(m / BLOCK_M) * ceil(n / BLOCK_N))
    compute = m * n * k / (MACS[soc.arch, SIZES[dtype]] * blocks * soc.mhz)
    load = sum(tensor.bytes for tensor in inputs) / _bandwidth(soc, blocks)
    store = out.bytes / _bandwidth(soc, blocks)
    busy = max(compute, load + store)
    ratios = dict.fromkeys(AIC_PIPES) | {"mac": compute / busy, "mte2": load / busy, "fixpipe": store / busy}
    device = Device.of(soc)
    return Kernel(
        name=kernel_name(api, "MatMulV3"),
        type="MatMulV3",
        core="AI_CORE",
        duration_us=START_UP_US + busy,
        state="dynamic",
        block_num=blocks,
        **described(inputs, (out,)),
        aicore_us=busy,
        aic_cycles=cycles(busy, blocks, device),
        ratios=ratios,
        cube_utilization=occupancy(busy, blocks, START_UP_US + busy, device),
        device=device,
    )


def vector(
    soc: Any, api: str, type: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], *, passes: float
) -> Kernel:
    """An elementwise kernel or a reduction: ``passes`` vector instructions over its largest tensor.

    ``api``: the operator API that calls it, ``type``: what runs; the name of a kernel joins the two.
    """
    load_bytes, store_bytes = (sum(tensor.bytes for tensor in tensors) for tensors in (inputs, outputs))
    largest = max((*inputs, *outputs), key=lambda tensor: tensor.bytes)
    blocks = max(1, min(2 * soc.cores, ceil((load_bytes + store_bytes) / VECTOR_BLOCK)))
    lanes = FP32_LANES * 4 / SIZES[largest.dtype]
    compute = passes * prod(largest.shape) / (lanes * blocks * soc.mhz)
    load, store = load_bytes / _bandwidth(soc, blocks / 2), store_bytes / _bandwidth(soc, blocks / 2)
    busy = max(compute, load + store)
    device = Device.of(soc)
    return Kernel(
        name=kernel_name(api, type),
        type=type,
        core="AI_VECTOR_CORE",
        duration_us=START_UP_US + busy,
        state="dynamic",
        block_num=blocks,
        **described(inputs, outputs),
        aiv_us=busy,
        aiv_cycles=cycles(busy, blocks, device),
        aiv_ratios=dict.fromkeys(AIV_PIPES) | {"vec": compute / busy, "mte2": load / busy, "mte3": store / busy},
        device=device,
    )


def described(inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> dict[str, Any]:
    """The tensor columns."""
    result: dict[str, Any] = {}
    for end, tensors in (("input", inputs), ("output", outputs)):
        result[f"{end}_shapes"] = tuple(tensor.shape for tensor in tensors)
        result[f"{end}_dtypes"] = tuple(DTYPES[tensor.dtype] for tensor in tensors)
        result[f"{end}_formats"] = ("ND",) * len(tensors)
    return result


def _bandwidth(soc: Any, cores: float) -> float:
    """Bytes per microsecond of global memory for ``cores`` cores: what the HBM gives, no more than each can take."""
    return min(soc.hbm_bytes_per_cycle * soc.cores, soc.l2_bytes_per_cycle * cores) * soc.mhz
