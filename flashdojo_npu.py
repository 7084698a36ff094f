"""What ``import torch`` runs in an environment that has FlashDojo (entry point ``torch.backends``).

FLASHDOJO_NPU=emulated makes every program of the environment find the emulated NPU, without a line of its own. This
file is outside the packages: programs that did not ask import nothing else of the course.
"""

from __future__ import annotations

import os


def autoload() -> None:
    """Give the process its NPU if FLASHDOJO_NPU asks for it. Raises ValueError for a value that is unknown."""
    wanted = os.environ.get("FLASHDOJO_NPU", "")
    if not wanted:
        return
    if wanted != "emulated":
        raise ValueError(f'FLASHDOJO_NPU is {wanted!r}: set it to "emulated" for the emulated NPU, or unset it.')
    import kernels.ascend  # noqa: F401
