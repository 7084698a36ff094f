"""Mixed precision: which operators compute in 16 bits under autocast, and the scaler that goes with float16."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import kernels.ascend

kernels.ascend.install()

LOW, FULL = "low", "float32"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("precision", "compute"),
    [
        (LOW, lambda x: x @ x),
        (LOW, lambda x: F.linear(x, x, x[0])),
        (LOW, lambda x: torch.bmm(x[None], x[None])),
        (LOW, lambda x: torch.einsum("ij,jk->ik", x, x)),
        (LOW, lambda x: F.conv1d(x[None], x[:, :, None])),
        (LOW, lambda x: F.scaled_dot_product_attention(*[x[None, None]] * 3)),
        (FULL, lambda x: (x @ x).softmax(-1)),
        (FULL, lambda x: (x @ x).exp()),
        (FULL, lambda x: F.layer_norm(x @ x, x.shape)),
        (FULL, lambda x: F.cross_entropy(x @ x, torch.zeros(4, dtype=torch.int64, device="npu"))),
        (FULL, lambda x: (x @ x).sum()),
        (FULL, lambda x: torch.cat([x @ x, x])),
        (LOW, lambda x: torch.cat([x @ x, x @ x])),
        (LOW, lambda x: (x @ x) + 1),
        (FULL, lambda x: x + 1),
    ],
)
def test_precisions_under_autocast(dtype, precision, compute):
    x = torch.randn(4, 4, device="npu")
    with torch.autocast("npu", dtype=dtype):
        assert compute(x).dtype == (dtype if precision == LOW else torch.float32)
    assert (x @ x).dtype == torch.float32


def test_autocast_computes_what_it_computes_on_the_cpu():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    x = torch.randn(5, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = model(x)
    with torch.autocast("npu", dtype=torch.bfloat16):
        found = model.npu()(x.npu())
    assert torch.equal(found.cpu(), expected)


def test_autocast_can_be_left_and_refuses_what_is_unsafe():
    x = torch.rand(4, 4, device="npu")
    with torch.autocast("npu"):
        assert (x @ x).dtype == torch.float16
        with torch.autocast("npu", enabled=False):
            assert (x @ x).dtype == torch.float32
        with pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
            F.binary_cross_entropy(x, x)
    with torch.npu.amp.autocast():
        assert (x @ x).dtype == torch.float16


def test_a_scaler_skips_steps_that_overflow():
    weight = nn.Parameter(torch.ones(3, device="npu"))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    scaler = torch.amp.GradScaler("npu", init_scale=4.0, growth_interval=1)
    for loss in (lambda: weight.sum(), lambda: weight.sum() / 0.0, lambda: weight.sum()):
        optimizer.zero_grad()
        scaler.scale(loss()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert weight.tolist() == [0.0, 0.0, 0.0]
    assert scaler.get_scale() == 4.0 * 2 / 2 * 2
    assert type(torch.npu.amp.GradScaler(init_scale=2.0).scale(torch.ones(1, device="npu"))) is torch.Tensor


def test_training_in_float16_converges():
    torch.manual_seed(0)
    model = nn.Linear(4, 1).npu()
    x = torch.randn(64, 4, device="npu")
    target = x @ torch.tensor([[1.0], [-2.0], [0.5], [0.0]], device="npu")
    optimizer, scaler = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.0), torch.amp.GradScaler("npu")
    for _ in range(100):
        optimizer.zero_grad()
        with torch.autocast("npu", dtype=torch.float16):
            loss = F.mse_loss(model(x), target)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        scaler.step(optimizer)
        scaler.update()
    assert loss.item() < 1e-3
