"""What ``import torch`` runs in an environment that has FlashDojo (entry point ``torch.backends``).

FLASHDOJO_NPU=emulated makes every program of the environment find the emulated NPU, without a line of its own, and in
the place of an installed torch_npu; if torch has loaded that one first, the error says what to do. This file is outside
the packages: programs that did not ask import nothing else of the course.
"""

from __future__ import annotations

import os


def autoload() -> None:
    """Give the process its NPU if FLASHDOJO_NPU asks for it. Raises as kernels.ascend.install does."""
    if os.environ.get("FLASHDOJO_NPU"):
        import kernels.ascend

        kernels.ascend.install()
