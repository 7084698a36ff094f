"""The checks of stage 3, collected from one module per exercise."""

from .checks_build import *  # noqa: F403
from .checks_environment import *  # noqa: F403
from .checks_forward import *  # noqa: F403
from .checks_function import *  # noqa: F403
from .checks_fusion import *  # noqa: F403
from .checks_module import *  # noqa: F403
from .checks_speed import *  # noqa: F403
from .checks_train import *  # noqa: F403
from .checks_varlen import *  # noqa: F403
