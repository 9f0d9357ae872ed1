"""gputune finds out why a GPU is not busy, and what the fix is worth.

`watch` records a block or a function of this process, `load` reads a run, and `%load_ext gputune` gives notebooks a
`%%gputune`: docs/api.md. Each is imported when it is first asked for; `import gputune` itself takes no time.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # as `typing` has it, which would take longer to import than all of this
if TYPE_CHECKING:
    from gputune.errors import BadUsage as BadUsage
    from gputune.errors import GputuneError as GputuneError
    from gputune.inside.blocks import Watch as Watch
    from gputune.inside.blocks import watch as watch
    from gputune.inside.cells import load_ipython_extension as load_ipython_extension
    from gputune.inside.loaded import Run as Run
    from gputune.inside.loaded import Table as Table
    from gputune.inside.loaded import load as load
    from gputune.recording.about import Damaged as Damaged
    from gputune.recording.about import NewerRun as NewerRun
    from gputune.recording.about import NotARun as NotARun

PUBLIC = {
    "watch": "inside.blocks",
    "Watch": "inside.blocks",
    "load": "inside.loaded",
    "Run": "inside.loaded",
    "Table": "inside.loaded",
    "load_ipython_extension": "inside.cells",
    "BadUsage": "errors",
    "GputuneError": "errors",
    "Damaged": "recording.about",
    "NewerRun": "recording.about",
    "NotARun": "recording.about",
}


def __getattr__(name: str) -> object:
    """Import what is public when it is first asked for."""
    room = PUBLIC.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - as above

    found = globals()[name] = getattr(import_module(f"{__name__}.{room}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC})
