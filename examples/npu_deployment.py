"""Attention on an NPU in one program: inference, training, speed. Run it with

    ./dojo run examples/npu_deployment.py

On a machine with an Ascend NPU it uses that one, elsewhere the emulated one. This is the stage 3 programme of the
article behind the course with its mistakes mended: torch.nn is imported, the embedding is trained too, a linear head
makes 30000 logits of the 768 features, training takes several steps, and the clock is read when the device is done.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
import torch_npu
from ops_transformer import FlashAttention
from torch import Tensor, nn

parser = argparse.ArgumentParser(description="FlashAttention on an NPU: inference, training, speed")
parser.add_argument("--hidden-dim", type=int, default=768)
parser.add_argument("--num-heads", type=int, default=12)
parser.add_argument("--block-size", type=int, default=256)
parser.add_argument("--vocabulary", type=int, default=30000)
parser.add_argument("--tokens", type=int, default=128)
parser.add_argument("--batch", type=int, default=2)
parser.add_argument("--steps", type=int, default=10, help="of training")
parser.add_argument("--iterations", type=int, default=100, help="that are timed")
args = parser.parse_args()

torch.manual_seed(0)
print(f"device: {torch_npu.npu.get_device_name(0)}")


class LanguageModel(nn.Module):
    """Token ids [B, N] -> logits [B, N, vocabulary]."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(args.vocabulary, args.hidden_dim)
        self.attention = FlashAttention(args.hidden_dim, args.num_heads, block_size=args.block_size)
        self.head = nn.Linear(args.hidden_dim, args.vocabulary)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        return self.head(x + self.attention(x))


model = LanguageModel().npu()
ids = torch.randint(0, args.vocabulary, (args.batch, args.tokens)).npu()
labels = torch.randint(0, args.vocabulary, (args.batch, args.tokens)).npu()

# inference
with torch.no_grad():
    features = model.attention(model.embedding(ids))
print(f"attention: {list(features.shape)} {features.dtype} on {features.device}")

# training: the labels are noise, so a falling loss only shows that gradients arrive
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
losses = []
for _ in range(args.steps):
    optimizer.zero_grad()
    loss = criterion(model(ids).view(-1, args.vocabulary), labels.view(-1))
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(f"loss: {losses[0]:.4f} -> {losses[-1]:.4f} in {args.steps} steps")

# speed of the attention: a call returns before the device is done, so wait for it before each look at the clock
model.eval()
seconds = []
with torch.no_grad():
    x = model.embedding(ids)
    for _ in range(3):
        model.attention(x)  # warm-up
    torch_npu.npu.synchronize()
    for _ in range(args.iterations):
        start = time.perf_counter()
        model.attention(x)
        torch_npu.npu.synchronize()
        seconds.append(time.perf_counter() - start)
emulated = " on this CPU, which says nothing about an NPU" if getattr(torch_npu, "__emulated__", False) else ""
print(f"speed: {1 / statistics.median(seconds):.2f} it/s (median of {args.iterations}){emulated}")
