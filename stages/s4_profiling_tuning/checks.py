"""The checks of stage 4, collected from one module per exercise."""

from .checks_dataflow import *  # noqa: F403
from .checks_diagnose import *  # noqa: F403
from .checks_evidence import *  # noqa: F403
from .checks_fast import *  # noqa: F403
from .checks_key import *  # noqa: F403
from .checks_plan import *  # noqa: F403
from .checks_read import *  # noqa: F403
from .checks_schedule import *  # noqa: F403
from .checks_tiles import *  # noqa: F403
from .checks_tune import *  # noqa: F403
from .checks_utilisation import *  # noqa: F403
