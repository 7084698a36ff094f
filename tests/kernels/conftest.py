"""Several test processes share the machine: one thread each, and no deadline for a single example."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")
