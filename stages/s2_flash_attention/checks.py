"""The checks of stage 2, in the order in which they run."""

from .checks_parts import *  # noqa: F403
from .checks_forward import *  # noqa: F403  isort: skip
from .checks_backward import *  # noqa: F403  isort: skip
from .checks_more import *  # noqa: F403  isort: skip
