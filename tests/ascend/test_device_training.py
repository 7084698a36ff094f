"""A small language model trained on the device: the same numbers as on the CPU, and no warning on the way."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import kernels.ascend

kernels.ascend.install()

VOCABULARY, WIDTH, HEADS, LENGTH = 50, 32, 4, 16


class Model(nn.Module):
    """Embedding, one block, and an output head that shares the embedding's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.block = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.block(self.embedding(tokens), src_mask=self.mask, is_causal=True)
        return self.head(self.norm(hidden))


def train(model: Model, tokens: Tensor, steps: int) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    criterion = nn.CrossEntropyLoss()
    losses = []
    for step in range(steps):
        batch = tokens[torch.arange(4, device=tokens.device) * 7 + step]
        loss = criterion(model(batch[:, :-1]).reshape(-1, VOCABULARY), batch[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


@pytest.mark.filterwarnings("error")
def test_a_language_model_learns_the_same_as_on_the_cpu():
    torch.manual_seed(0)
    model = Model()
    twin = copy.deepcopy(model).npu()
    assert twin.head.weight is twin.embedding.weight
    tokens = torch.randint(0, VOCABULARY, (64, LENGTH + 1)).sort(dim=1).values
    losses = train(model, tokens, 20)
    assert losses[-1] < 0.8 * losses[0]
    assert train(twin, tokens.npu(), 20) == pytest.approx(losses, rel=1e-4)
    model.eval()
    twin.eval()
    with torch.inference_mode():
        assert torch.allclose(twin(tokens[:2, :-1].npu()).cpu(), model(tokens[:2, :-1]), rtol=1e-2, atol=1e-2)


@pytest.mark.filterwarnings("error")
def test_images_convolve_and_normalise_the_same():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 3)
    )
    twin = copy.deepcopy(model).npu()
    x = torch.randn(5, 1, 8, 8)
    for one, images in ((model, x), (twin, x.npu())):
        one(images).square().mean().backward()
    for ours, theirs in zip(twin.parameters(), model.parameters(), strict=True):
        assert torch.allclose(ours.grad.cpu(), theirs.grad, atol=1e-6)
    assert torch.allclose(twin[1].running_var.cpu(), model[1].running_var)
