"""The kernels of whole training steps of the course's small language model (stage 3's TinyLM), in the order of the NPU.

Attention forward comes from kernels.perf; attention backward is that time and its pipes' work x 2.5, the ratio of their
arithmetic (five matrix products for two): the two measured pairs, on 910B, have 1.9 and 2.6. Everything else is the
roofline of this package. Nothing is known about the host, so kernels follow each other after ``gap_us``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from kernels.perf import Shape, predict, schedule_for

from .kernel import AIC_PIPES, AIV_PIPES, Device, Kernel
from .roofline import Tensor, described, matmul, vector
from .runs import DTYPES, MASK_TEMPLATE, STATISTICS, cycles, kernel_name, kernel_run, occupancy

BACKWARD_WORK = 2.5
BACKWARD = "FlashAttentionScoreGrad"
SCHEDULES = {"2201": "cann", "3510": "example"}  # of the operator that a training program calls on that chip


@dataclass(frozen=True)
class Model:
    """TinyLM: two embeddings, layers of (norm, qkv, attention, projection, norm, two-layer perceptron), norm, head.

    The defaults are stage 3's: a model this small keeps no NPU busy, which its profile shows.
    """

    batch: int = 8
    context: int = 32
    width: int = 128
    heads: int = 2
    layers: int = 2
    vocab: int = 64
    widening: int = 2  # of the perceptron

    @property
    def rows(self) -> int:
        return self.batch * self.context

    @property
    def parameters(self) -> list[tuple[int, ...]]:
        """Shapes of all parameters, in the model's order."""
        width, wide = self.width, self.widening * self.width
        layer: list[tuple[int, ...]] = [(width,)] * 4 + [(3 * width, width), (3 * width,), (width, width), (width,)]
        layer += [(wide, width), (wide,), (width, wide), (width,)]
        ends: list[tuple[int, ...]] = [(width,), (width,), (self.vocab, width), (self.vocab,)]
        return [(self.vocab, width), (self.context, width), *(layer * self.layers), *ends]


def training_step(
    soc: Any,
    model: Model = Model(),
    *,
    steps: int = 1,
    dtype: str = "float16",
    schedule: Any = None,
    start: float = 0.0,
    gap_us: float = 0.0,
) -> list[Kernel]:
    """The kernels of ``steps`` steps on ``soc`` (a ``kernels.perf.Soc``), in order: forward, backward, AdamW.

    The model computes in float32, attention in ``dtype``. ``schedule``: of the attention kernel, by default that
    of the operator library. ``start`` and ``gap_us`` in microseconds. What kernels.perf refuses is refused here too.
    """
    once = list(_step(soc, model, dtype, schedule))
    kernels: list[Kernel] = []
    at = round(start * 1000)
    for step in range(steps):
        for kernel in once:
            kernels.append(replace(kernel, start_ns=at, step=step, task=len(kernels)))
            at += round(kernel.duration_us * 1000) + round(gap_us * 1000)
    return kernels


def _step(soc: Any, model: Model, dtype: str, schedule: Any) -> Iterator[Kernel]:
    rows, width, wide = model.rows, model.width, model.widening * model.width
    x, ids = Tensor((rows, width)), Tensor((rows,), "int64")
    hidden = Tensor((rows, wide))
    table, positions = Tensor((model.vocab, width)), Tensor((model.context, width))
    logits = Tensor((rows, model.vocab))
    attention = _attention(soc, model, dtype, schedule)

    # forward
    yield vector(soc, "Embedding", "GatherV2", (table, ids), (x,), passes=1)
    yield vector(soc, "Embedding", "GatherV2", (positions,), (x,), passes=1)
    yield _add(soc, x)
    for _ in range(model.layers):
        yield _norm(soc, x)
        yield _linear(soc, rows, 3 * width, width)
        yield from _casts(soc, model, "float32", dtype, 3)
        yield attention
        yield from _casts(soc, model, dtype, "float32", 1)
        yield _linear(soc, rows, width, width)
        yield _add(soc, x)
        yield _norm(soc, x)
        yield _linear(soc, rows, wide, width)
        yield vector(soc, "Gelu", "Gelu", (hidden,), (hidden,), passes=12)
        yield _linear(soc, rows, width, wide)
        yield _add(soc, x)
    yield _norm(soc, x)
    yield _linear(soc, rows, model.vocab, width)
    loss = Tensor((1,))
    yield vector(soc, "LogSoftmax", "LogSoftmaxV2", (logits,), (logits,), passes=6)
    yield vector(soc, "NLLLoss", "NLLLoss", (logits, ids), (loss, loss), passes=1)

    # backward, last layer first
    yield vector(soc, "NLLLossBackward", "NLLLossGrad", (logits, ids, loss), (logits,), passes=1)
    yield vector(soc, "LogSoftmaxBackward", "LogSoftmaxGrad", (logits, logits), (logits,), passes=5)
    yield from _linear_backward(soc, rows, model.vocab, width)
    yield _norm_backward(soc, x)
    for _ in range(model.layers):
        yield from _linear_backward(soc, rows, width, wide)
        yield vector(soc, "GeluBackward", "GeluGrad", (hidden, hidden, hidden), (hidden,), passes=20)
        yield from _linear_backward(soc, rows, wide, width)
        yield _norm_backward(soc, x)
        yield _add(soc, x)
        yield from _linear_backward(soc, rows, width, width)
        yield from _casts(soc, model, "float32", dtype, 1)
        yield _attention_backward(attention, soc, model, dtype)
        yield from _casts(soc, model, dtype, "float32", 3)
        yield from _linear_backward(soc, rows, 3 * width, width)
        yield _norm_backward(soc, x)
        yield _add(soc, x)
    for out in (positions, table):
        yield vector(soc, "EmbeddingDenseBackward", "EmbeddingDenseGradV2", (x, ids), (out,), passes=2)

    # AdamW, one fused kernel for a parameter: weight, two moments and the gradient in, three out
    for shape in model.parameters:
        one = Tensor(shape)
        yield vector(soc, "ApplyAdamWV2", "ApplyAdamWV2", (one,) * 4, (one,) * 3, passes=14)


def _attention(soc: Any, model: Model, dtype: str, schedule: Any) -> Kernel:
    head_dim = model.width // model.heads
    shape = Shape(model.batch, model.heads, model.heads, model.context, model.context, head_dim, dtype, 3)
    return kernel_run(predict(soc, shape, schedule or schedule_for(SCHEDULES[soc.arch], soc, shape)), shape, soc)


def _attention_backward(forward: Kernel, soc: Any, model: Model, dtype: str) -> Kernel:
    query = (model.batch, model.heads, model.context, model.width // model.heads)
    statistics, one = Tensor((*query[:3], STATISTICS)), Tensor(query, dtype)
    device, forward_us, blocks = Device.of(soc), forward.aicore_us or 0.0, forward.block_num or 1
    start_up = forward.duration_us - forward_us  # paid once, however much there is to compute
    core_us = BACKWARD_WORK * forward_us
    duration = start_up + core_us
    tensors = described((one, one, one, one), (one, one, one))
    # slots: q k v dy pse drop_mask padding_mask atten_mask softmax_max softmax_sum softmax_in attention_in
    tensors["input_shapes"] += (None, None, None, MASK_TEMPLATE, statistics.shape, statistics.shape, None, query)
    types = ("", "", "", "BOOL", "FLOAT", "FLOAT", "", DTYPES[dtype])
    tensors["input_dtypes"] += types
    tensors["input_formats"] += tuple("ND" if name else "" for name in types)
    return replace(
        forward,
        name=kernel_name(BACKWARD, BACKWARD),
        type=BACKWARD,
        duration_us=duration,
        **tensors,
        aicore_us=core_us,
        aic_cycles=cycles(core_us, blocks, device),
        ratios=dict.fromkeys(AIC_PIPES) | {"mac": forward.ratios["mac"]},
        aiv_us=core_us,
        aiv_cycles=cycles(core_us, 2 * blocks, device),
        aiv_ratios=dict.fromkeys(AIV_PIPES),
        cube_utilization=occupancy(core_us, blocks, duration, device),
    )


def _linear(soc: Any, rows: int, out: int, into: int) -> Kernel:
    return matmul(soc, "Addmm", rows, out, into, bias=True)


def _linear_backward(soc: Any, rows: int, out: int, into: int) -> Iterator[Kernel]:
    """Gradients of the input, of the weight and of the bias."""
    grad = Tensor((rows, out))
    yield matmul(soc, "Mm", rows, into, out)
    yield matmul(soc, "Mm", out, into, rows)
    yield vector(soc, "ReduceSum", "ReduceSum", (grad,), (Tensor((out,)),), passes=1)


def _add(soc: Any, x: Tensor) -> Kernel:
    return vector(soc, "Add", "Add", (x, x), (x,), passes=1)


def _norm(soc: Any, x: Tensor) -> Kernel:
    weight, moment = Tensor(x.shape[-1:]), Tensor((*x.shape[:-1], 1))
    return vector(soc, "LayerNorm", "LayerNormV4", (x, weight, weight), (x, moment, moment), passes=7)


def _norm_backward(soc: Any, x: Tensor) -> Kernel:
    weight, moment = Tensor(x.shape[-1:]), Tensor((*x.shape[:-1], 1))
    return vector(
        soc, "LayerNormBackward", "LayerNormGradV3", (x, x, moment, moment, weight), (x, weight, weight), passes=12
    )


def _casts(soc: Any, model: Model, before: str, after: str, count: int) -> Iterator[Kernel]:
    shape = (model.batch, model.context, model.heads, model.width // model.heads)
    for _ in range(count):
        yield vector(soc, "Cast", "Cast", (Tensor(shape, before),), (Tensor(shape, after),), passes=1)
