"""A training step of the small language model as kernels: it is that model, and nothing is faster than the chip."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import prod
from pathlib import Path

import pytest
import torch

from kernels.perf import BadShape, Shape, find_soc, predict, schedule_for
from kernels.profiles import Model, read, shares, tensor_bytes, training_step, write_pytorch

TRAIN = Path(__file__).parents[2] / "solutions" / "s3_npu_deployment" / "train.py"
SOC = find_soc("910B3")


def test_the_model_is_stage_threes() -> None:
    names: dict[str, object] = {}
    exec(compile(TRAIN.read_text("utf-8"), str(TRAIN), "exec"), names)
    defaults = Model()
    assert [names[name] for name in ("BATCH", "CONTEXT", "WIDTH", "HEADS", "LAYERS")] == [
        defaults.batch, defaults.context, defaults.width, defaults.heads, defaults.layers
    ]  # fmt: skip
    model = names["TinyLM"](defaults.vocab, None)
    assert isinstance(model, torch.nn.Module)
    assert Counter(defaults.parameters) == Counter(tuple(weight.shape) for weight in model.parameters())

    layers, kernels = defaults.layers, training_step(SOC)
    counts = Counter(kernel.type for kernel in kernels)
    linears = sum(isinstance(part, torch.nn.Linear) for part in model.modules())
    norms = sum(isinstance(part, torch.nn.LayerNorm) for part in model.modules())
    assert counts["MatMulV3"] == 3 * linears  # forward, gradient of the input, gradient of the weight
    assert counts["LayerNormV4"] == counts["LayerNormGradV3"] == norms
    assert counts["FlashAttentionScore"] == counts["FlashAttentionScoreGrad"] == counts["Gelu"] == layers
    assert counts["ApplyAdamWV2"] == len(defaults.parameters)
    assert counts["ReduceSum"] == linears  # gradients of the biases
    work = sum(prod(left) * right[1] for left, right in (k.input_shapes[:2] for k in kernels if k.type == "MatMulV3"))
    weights = sum(prod(part.weight.shape) for part in model.modules() if isinstance(part, torch.nn.Linear))
    assert work == 3 * defaults.rows * weights


@pytest.mark.parametrize("name", ["910B3", "950DT"])
def test_no_kernel_is_faster_than_the_chip(name: str) -> None:
    soc = find_soc(name)
    model = Model(batch=4, context=1024, width=1024, heads=8, vocab=8192)
    kernels = training_step(soc, model, steps=2, gap_us=3.0)
    per_step = len(kernels) // 2
    assert [kernel.step for kernel in kernels] == [0] * per_step + [1] * per_step
    for before, after in pairwise(kernels):
        assert after.start_ns == (before.end_ns or 0) + 3000
    for kernel in kernels[:per_step]:
        told = shares(kernel)
        assert kernel.block_num is not None
        assert 1 <= kernel.block_num <= (2 if kernel.core == "AI_VECTOR_CORE" else 1) * soc.cores
        for ratio in (*kernel.ratios.values(), *kernel.aiv_ratios.values()):
            assert ratio is None or 0 <= ratio <= 1 + 1e-9
        assert all(share is None or 0 <= share <= 1 + 1e-9 for share in told.values()), (kernel.type, told)
        assert tensor_bytes(kernel)
    products = [kernel for kernel in kernels if kernel.type == "MatMulV3"]
    assert max(shares(kernel)["cube"] or 0 for kernel in products) > 0.9  # large enough to be limited by the cube


def test_attention_is_the_prediction_and_backward_its_work() -> None:
    model = Model(batch=2, context=2048, width=1024, heads=8)
    kernels = training_step(SOC, model, dtype="bfloat16")
    shape = Shape(2, 8, 8, 2048, 2048, 128, "bfloat16", 3)
    predicted = predict(SOC, shape, schedule_for("cann", SOC, shape))
    forward = next(kernel for kernel in kernels if kernel.type == "FlashAttentionScore")
    backward = next(kernel for kernel in kernels if kernel.type == "FlashAttentionScoreGrad")
    assert forward.duration_us == predicted.microseconds
    assert forward.ratios["mac"] == predicted.busy["CUBE"]
    assert forward.input_dtypes is not None
    assert forward.input_dtypes[0] == "DT_BF16"
    assert backward.aicore_us == pytest.approx(2.5 * (forward.aicore_us or 0))
    assert backward.duration_us < 2.5 * forward.duration_us  # the launch is paid once
    assert backward.ratios["mte2"] is None  # nothing is known of it
    assert backward.input_shapes is not None
    assert backward.input_shapes[3] == forward.input_shapes[0]
    with pytest.raises(BadShape, match="head_dim"):
        training_step(SOC, Model(width=100))


def test_what_is_written_is_not_suspected_when_it_is_read(tmp_path: Path) -> None:
    """Times of three decimals and ratios of three decimals may differ by more than a ratio does."""
    for soc in ("910B3", "950PR"):
        folder = write_pytorch(tmp_path / soc, training_step(find_soc(soc)))
        assert read(folder).notes == []
