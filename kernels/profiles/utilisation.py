"""How busy the units of the chip were, from the columns of a profile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from .kernel import Device, Kernel, Profile, Shapes

MEANINGS = {
    "cube": "time in which the cube multiplies, over all cube cores' time",
    "cube_scalar": "time in which the scalar unit of the cube cores works, over all cube cores' time",
    "mte1": "time in which L1 is copied to L0A/L0B, over all cube cores' time",
    "mte2": "time in which global memory is copied to L1, over all cube cores' time",
    "fixpipe": "time in which L0C is copied out, over all cube cores' time",
    "vector": "time in which the vector unit computes, over all vector cores' time",
    "vector_scalar": "time in which the scalar unit of the vector cores works, over all vector cores' time",
    "vector_mte2": "time in which global memory is copied to UB, over all vector cores' time",
    "mte3": "time in which UB is copied out, over all vector cores' time",
    "cube_occupancy": "time in which a cube core has a kernel at all, over all cube cores' time",
    "hbm": "inputs and outputs, each moved once, over what the HBM could move in that time; the true traffic is this or"
    " more, unless the L2 cache holds the tensors",
}
AIC = {"cube": "mac", "cube_scalar": "scalar", "mte1": "mte1", "mte2": "mte2", "fixpipe": "fixpipe"}
AIV = {"vector": "vec", "vector_scalar": "scalar", "vector_mte2": "mte2", "mte3": "mte3"}
BYTES = {
    "FLOAT16": 2, "DT_BF16": 2, "BF16": 2, "FP16": 2, "BFLOAT16": 2, "FLOAT": 4, "FLOAT32": 4, "FP32": 4, "INT32": 4,
    "UINT32": 4, "INT64": 8, "UINT64": 8, "DOUBLE": 8, "INT16": 2, "INT8": 1, "UINT8": 1, "BOOL": 1, "DT_HIFLOAT8": 1,
    "HIFLOAT8": 1, "FLOAT8_E4M3FN": 1, "FLOAT8_E5M2": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Share:
    """``value``: 0..1, or None when no kernel says it. ``measured_us``: time of the kernels it stands on."""

    value: float | None
    meaning: str
    measured_us: float = 0.0
    unit: str = "share of time"


def utilisation(kernels: Profile | Kernel | Iterable[Kernel], device: Device | None = None) -> dict[str, Share]:
    """Busy shares of the whole chip over the time of the kernels (not of the gaps between them), weighted by duration.

    A ratio of the file counts within the cores at work: a kernel on 4 of 24 cores with mac ratio 0.9 keeps 15 % of the
    cubes busy. So each ratio is multiplied by the occupancy of its core kind. Kernels that do not say a column are
    left out of that column's average; ``measured_us`` tells how much is left. ``device``: facts that the profile lacks.
    """
    if isinstance(kernels, Profile):
        device, kernels = device or kernels.device, kernels.kernels
    elif isinstance(kernels, Kernel):
        kernels = [kernels]
    busy, time = dict.fromkeys(MEANINGS, 0.0), dict.fromkeys(MEANINGS, 0.0)
    silent: set[str] = set()  # columns that a kernel with such cores does not say
    spoken: set[str] = set()  # and those that one does; zeros of kernels without such cores alone say nothing
    for kernel in kernels:
        for name, share in shares(kernel, device or kernel.device).items():
            if share is None:
                silent.add(name)
            else:
                busy[name] += share * kernel.duration_us
                time[name] += kernel.duration_us
                if share > 0:
                    spoken.add(name)
    return {
        name: Share(
            busy[name] / time[name] if time[name] and (name in spoken or name not in silent) else None,
            meaning,
            time[name],
            "share of bandwidth" if name == "hbm" else "share of time",
        )
        for name, meaning in MEANINGS.items()
    }


def shares(kernel: Kernel, device: Device | None = None) -> dict[str, float | None]:
    """The same for one kernel. Units that its kind of core does not have are idle: 0, not None."""
    device = device or kernel.device
    kinds = core_kinds(kernel.core)
    on_cube, on_vector = _cube_occupancy(kernel, device, kinds), _vector_occupancy(kernel, device, kinds)
    result: dict[str, float | None] = {}
    for names, ratios, occupancy in ((AIC, kernel.ratios, on_cube), (AIV, kernel.aiv_ratios, on_vector)):
        for name, pipe in names.items():
            ratio = ratios.get(pipe)
            if occupancy == 0:
                result[name] = 0.0
            else:
                result[name] = None if ratio is None or occupancy is None else ratio * occupancy
    return result | {"cube_occupancy": on_cube, "hbm": _bandwidth(kernel, device)}


def core_kinds(core: str | None) -> frozenset[str]:
    """ "cube", "vector": which cores a task type runs on. AI_CPU, communication and the like run on neither."""
    text = (core or "MIX").upper()
    if "MIX" in text:
        return frozenset({"cube", "vector"})
    if "VEC" in text or "AIV" in text:
        return frozenset({"vector"})
    return frozenset({"cube"} if text.endswith(("AI_CORE", "AICORE", "AIC")) else ())


def _cube_occupancy(kernel: Kernel, device: Device | None, kinds: frozenset[str]) -> float | None:
    """Share of the cores' time in which a core of this kind had the kernel; None when it cannot be told."""
    if "cube" not in kinds:
        return 0.0
    if kernel.cube_utilization is not None:
        return kernel.cube_utilization / 100
    blocks = kernel.mix_block_num if kernel.core == "MIX_AIV" else kernel.block_num
    return _occupancy(kernel, kernel.aicore_us, kernel.aic_cycles, blocks, device, device.cores if device else None)


def _vector_occupancy(kernel: Kernel, device: Device | None, kinds: frozenset[str]) -> float | None:
    if "vector" not in kinds:
        fused = kernel.aiv_us is None and kernel.aiv_ratios.get("vec") is not None  # 910A: one core has both units
        return _cube_occupancy(kernel, device, kinds) if fused else 0.0
    blocks = kernel.mix_block_num if kernel.core == "MIX_AIC" else kernel.block_num
    return _occupancy(kernel, kernel.aiv_us, kernel.aiv_cycles, blocks, device, device.vector_cores if device else None)


def _occupancy(
    kernel: Kernel,
    core_us: float | None,
    cycles: float | None,
    blocks: int | None,
    device: Device | None,
    cores: int | None,
) -> float | None:
    if not kernel.duration_us:
        return None
    if cycles is not None and cores and device and device.mhz:
        return cycles / (device.mhz * cores * kernel.duration_us)
    if core_us is None:
        return None
    if blocks and cores:  # more blocks than cores run in waves, which the time already counts
        return core_us / kernel.duration_us * min(blocks, cores) / cores
    return core_us / kernel.duration_us


def _bandwidth(kernel: Kernel, device: Device | None) -> float | None:
    if device is None or not device.hbm_bytes_per_second or not kernel.duration_us:
        return None
    moved = tensor_bytes(kernel)
    return None if moved is None else moved / (kernel.duration_us * 1e-6 * device.hbm_bytes_per_second)


def tensor_bytes(kernel: Kernel) -> int | None:
    """Bytes of all inputs and outputs, None when a shape or a type is not known."""
    total = 0
    for shapes_, dtypes in (
        (kernel.input_shapes, kernel.input_dtypes),
        (kernel.output_shapes, kernel.output_dtypes),
    ):
        size = _bytes(shapes_, dtypes)
        if size is None:
            return None
        total += size
    return total


def _bytes(shapes_: Shapes | None, dtypes: tuple[str, ...] | None) -> int | None:
    if shapes_ is None or dtypes is None or len(dtypes) < len(shapes_):
        return None
    total = 0
    for shape, dtype in zip(shapes_, dtypes):
        if shape is not None:
            if dtype.upper() not in BYTES:
                return None
            total += prod(shape) * BYTES[dtype.upper()]
    return total
