"""Finds probes, advisors and commands by their folder: a new one is a file, and there is no list to edit."""

from importlib import import_module
from pathlib import Path
from types import ModuleType


def names(package: str) -> tuple[str, ...]:
    """Return the names of the modules in `package` (`gputune.probes`), sorted; nothing but the package is imported.

    Files that begin with `_` are helpers of the room, not members of it.
    """
    folders = map(Path, import_module(package).__path__)
    return tuple(sorted(file.stem for folder in folders for file in folder.glob("*.py") if file.name[0] != "_"))


def load(package: str, name: str) -> ModuleType:
    """Import one member of a room. Raises what its import raises: isolating it is the caller's part."""
    return import_module(f"{package}.{name}")


def identity(name: str) -> str:
    """Return the id that users see and type: the file name with dashes."""
    return name.replace("_", "-")
