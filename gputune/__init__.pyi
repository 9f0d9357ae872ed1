from gputune.core.errors import BadUsage as BadUsage
from gputune.core.errors import GputuneError as GputuneError
from gputune.inside.blocks import Watch as Watch
from gputune.inside.blocks import watch as watch
from gputune.inside.cells import load_ipython_extension as load_ipython_extension
from gputune.inside.cells import unload_ipython_extension as unload_ipython_extension
from gputune.inside.loaded import NoTable as NoTable
from gputune.inside.loaded import Run as Run
from gputune.inside.loaded import Table as Table
from gputune.inside.loaded import load as load
from gputune.recording.about import Damaged as Damaged
from gputune.recording.about import NewerRun as NewerRun
from gputune.recording.about import NotARun as NotARun

PUBLIC: dict[str, str]
__version__: str
