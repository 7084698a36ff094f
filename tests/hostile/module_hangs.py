# flashdojo: exercise=s1-module stage=s1
"""A module whose construction, state and loading hang or lie."""
import torch
from torch import nn


class StandardAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads):
        super().__init__()
        self.q_proj = self.k_proj = self.v_proj = self.out_proj = nn.Linear(hidden_dim, hidden_dim)

    def state_dict(self, *args, **kwargs):
        return {str(n): torch.ones(1 << 20) for n in range(1000)}

    def load_state_dict(self, state, *args, **kwargs):
        while True:
            pass

    def forward(self, x):
        return x
