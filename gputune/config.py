"""Options from a file: `gputune.toml`, or `[tool.gputune]` of `pyproject.toml`, nearest to the current folder.

A key at the top is for every command that has such an option; one in a table named for a command is for that command:

    hz = 5
    [watch]
    max-size = "256MB"

A flag wins over the environment, the environment over the file.
"""

import sys
from collections.abc import Mapping, Set
from importlib import import_module
from pathlib import Path

from gputune.errors import BadUsage

OWN = "gputune.toml"
SHARED = "pyproject.toml"
HINT = "mend that line, or move the file away"

Settings = Mapping[str, object]  # a TOML table


def defaults(command: str, known: Set[str], start: Path) -> dict[str, object]:
    """Return the options that the nearest file sets for `command`, by the option's name with underscores.

    `known` are the options that the command has. Raises BadUsage for a file that cannot be read as TOML, and for a
    key in the command's own table that it does not know.
    """
    found = _nearest(start)
    if found is None:
        return {}
    file, settings = found
    options = {_name(k): v for k, v in settings.items() if not isinstance(v, dict)}
    options = {name: value for name, value in options.items() if name in known}
    own = settings.get(command, settings.get(_name(command)))
    if isinstance(own, Mapping):
        for key, value in own.items():
            if _name(key) not in known:
                offer = ", ".join(f"`{name.replace('_', '-')}`" for name in sorted(known))
                raise BadUsage(
                    f"`{file}` sets `{key}`, which `gputune {command}` does not have", hint=f"it has {offer}"
                )
            options[_name(key)] = value
    for name, value in options.items():
        if not isinstance(value, str | int | float):
            raise BadUsage(f"`{file}` sets `{name.replace('_', '-')}` to what is no text, number or truth", hint=HINT)
    return options


def _nearest(start: Path) -> tuple[Path, Settings] | None:
    for folder in (start, *start.parents):
        if (folder / OWN).is_file():
            return folder / OWN, _read(folder / OWN)
        if (folder / SHARED).is_file():
            tool = _tool(folder / SHARED)
            if tool is not None:
                return folder / SHARED, tool
    return None


def _tool(file: Path) -> Settings | None:
    """Return `[tool.gputune]`; None without one. A file that never names it is not parsed: it is not ours to check."""
    try:
        if b"gputune" not in file.read_bytes():
            return None
    except OSError:
        return None
    tool = _read(file).get("tool")
    own = tool.get("gputune") if isinstance(tool, dict) else None
    return own if isinstance(own, dict) else None


def _read(file: Path) -> Settings:
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")  # late: most runs have no file
    try:
        settings: Settings = toml.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadUsage(f"`{file}` cannot be read: {error}", hint=HINT) from None
    return settings


def _name(key: str) -> str:
    return key.replace("-", "_")
