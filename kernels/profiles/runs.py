"""A prediction of kernels.perf as a kernel of a profile."""

from __future__ import annotations

from typing import Any

from .kernel import AIC_PIPES, AIV_PIPES, Device, Kernel, Shapes

# pipe of the model -> column; the model has no scalar unit, whose columns stay N/A
AIC_COLUMN = {"CUBE": "mac", "MTE1": "mte1", "MTE2": "mte2", "FIXPIPE": "fixpipe"}
AIV_COLUMN = {"VECTOR": "vec", "VMTE2": "mte2", "MTE3": "mte3"}
DTYPES = {"float16": "FLOAT16", "bfloat16": "DT_BF16", "float32": "FLOAT", "int64": "INT64", "bool": "BOOL"}
MASK_TEMPLATE = (2048, 2048)  # the compressed lower triangle that the operator takes for every length
CAUSAL = 3
STATISTICS = 8  # softmax_max and softmax_sum repeat each value to fill a 32-byte block


def kernel_run(
    prediction: Any,
    shape: Any,
    soc: Any,
    *,
    name: str | None = None,
    type: str = "FlashAttentionScore",
    start: float = 0.0,
    step: int | None = None,
) -> Kernel:
    """``prediction`` of ``kernels.perf.predict(soc, shape, schedule)`` as the row a profile would hold of it.

    ``start``: microseconds. Busy ratios are the model's, within the mean time of the cores at work; the scalar unit and
    the instruction cache are not modelled and stay None (N/A in the file).
    """
    device = Device.of(soc)
    core_us, active = prediction.core_microseconds, int(prediction.active_cores)
    busy = prediction.busy
    return Kernel(
        name=name or kernel_name(type, type),
        type=type,
        core="MIX_AIC",
        start_ns=round(start * 1000),
        duration_us=prediction.microseconds,
        step=step,
        state="dynamic",
        block_num=active,
        mix_block_num=2 * active,
        **forward_tensors(shape),
        aicore_us=core_us,
        aic_cycles=cycles(core_us, active, device),
        ratios=dict.fromkeys(AIC_PIPES) | {AIC_COLUMN[pipe]: busy[pipe] for pipe in AIC_COLUMN},
        aiv_us=core_us,
        aiv_cycles=cycles(core_us, 2 * active, device),
        aiv_ratios=dict.fromkeys(AIV_PIPES) | {AIV_COLUMN[pipe]: busy[pipe] for pipe in AIV_COLUMN},
        cube_utilization=occupancy(core_us, active, prediction.microseconds, device),
        device=device,
    )


def kernel_name(api: str, type: str) -> str:
    """As kernels are named in a profile: the operator API, what it runs, and that once more as the kernel."""
    return f"aclnn{api}_{type}_{type}"


def cycles(core_us: float, blocks: int, device: Device) -> float | None:
    """Sum over the blocks, as the counters give it (no more blocks than cores)."""
    return None if device.mhz is None else float(round(core_us * device.mhz * blocks))


def occupancy(core_us: float, blocks: int, duration_us: float, device: Device) -> float | None:
    """Per cent of all cube cores' time in which a core had the kernel, whatever its pipes did."""
    return 100 * core_us * blocks / (device.cores * duration_us) if device.cores else None


def forward_tensors(shape: Any) -> dict[str, Any]:
    """Tensors of FlashAttentionScore in the order of its slots, layout BNSD."""
    query = (shape.batch, shape.num_heads, shape.seq_q, shape.head_dim)
    key = (shape.batch, shape.num_kv_heads, shape.seq_kv, shape.head_dim)
    statistics = (*query[:3], STATISTICS)
    dtype = DTYPES[shape.dtype]
    mask: Shapes = (None, None, None, MASK_TEMPLATE) if shape.mask_mode == CAUSAL else ()
    mask_dtypes = ("", "", "", "BOOL") if mask else ()
    inputs: Shapes = (query, key, key, *mask)
    outputs: Shapes = (statistics, statistics, None, query)
    return {
        "input_shapes": inputs,
        "input_dtypes": (dtype,) * 3 + mask_dtypes,
        "input_formats": tuple("ND" if tensor else "" for tensor in inputs),
        "output_shapes": outputs,
        "output_dtypes": ("FLOAT", "FLOAT", "", dtype),
        "output_formats": tuple("ND" if tensor else "" for tensor in outputs),
    }
