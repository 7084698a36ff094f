"""One thread per test process: several of them share the machine, and results must not depend on the split."""

import torch

torch.set_num_threads(1)
