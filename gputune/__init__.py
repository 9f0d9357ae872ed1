"""gputune finds out why a GPU is not busy, and what the fix is worth.

`watch` records a block or a function of this process, `load` reads a run, and `%load_ext gputune` gives notebooks a
`%%gputune`: docs/api.md. Each is imported when it is first asked for: `import gputune` itself takes no time, and
`__init__.pyi` tells type checkers.
"""

__version__ = "0.1.0"

PUBLIC = {
    "watch": "inside.blocks",
    "Watch": "inside.blocks",
    "load": "inside.loaded",
    "Run": "inside.loaded",
    "Table": "inside.loaded",
    "NoTable": "inside.loaded",
    "load_ipython_extension": "inside.cells",
    "unload_ipython_extension": "inside.cells",
    "BadUsage": "core.errors",
    "GputuneError": "core.errors",
    "Damaged": "recording.about",
    "NewerRun": "recording.about",
    "NotARun": "recording.about",
}  # name to the module that has it


def __getattr__(name: str) -> object:
    """Import what is public when it is first asked for."""
    room = PUBLIC.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - most who import this ask for nothing of it

    found = globals()[name] = getattr(import_module(f"{__name__}.{room}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC})
