"""The checks of stage 2, collected from one module per exercise."""

from .checks_backward import *  # noqa: F403
from .checks_forward import *  # noqa: F403
from .checks_forward_masks import *  # noqa: F403
from .checks_function import *  # noqa: F403
from .checks_module import *  # noqa: F403
from .checks_tiles import *  # noqa: F403
from .checks_traffic import *  # noqa: F403
from .checks_update import *  # noqa: F403
from .checks_varlen import *  # noqa: F403
