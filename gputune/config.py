"""Options from a file: `gputune.toml`, or `[tool.gputune]` of `pyproject.toml`, nearest to the current folder.

A key at the top is for every command that has such an option; one in a table named for a command is for that command:

    hz = 5
    [watch]
    max-size = "256MB"

A flag wins over the environment, the environment over the file. A key that no command knows is said, not refused: it
may be of a newer gputune.
"""

import os
import sys
from collections.abc import Callable, Mapping, Set
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import click

from gputune.errors import BadUsage

OWN = "gputune.toml"
SHARED = "pyproject.toml"
LOADERS = "loader"  # a list of tables for `gputune run`, no option of a command: `gputune/sweep/kept.py`
FILE = "gputune.config"  # the key of click's `meta` under which the file's path is kept
UNKNOWN = "gputune.unknown"  # and what of it nobody knows, for a command that speaks later
HINT = "mend that line, or move the file away"

Settings = Mapping[str, object]  # a TOML table
Commands = Callable[[], Mapping[str, Set[str]]]  # command to its options; asked only where a key is not known


class Given(NamedTuple):
    """What the nearest file sets for one command: `options` by name with underscores, `unknown` in a sentence each."""

    file: Path | None = None
    options: Mapping[str, object] = MappingProxyType({})
    unknown: tuple[str, ...] = ()


def given(command: str, known: Mapping[str, bool], start: Path, commands: Commands) -> Given:
    """Return what the nearest file above `start` sets for `command`.

    `known` are its options, and whether each is a switch. Raises BadUsage for a file that cannot be read as TOML, and
    for a value that no option can have.
    """
    found = _nearest(start)
    if found is None:
        return Given()
    file, settings = found
    common = {key: value for key, value in settings.items() if not isinstance(value, dict)}
    own = settings.get(command, settings.get(_name(command)))
    mine = own if isinstance(own, dict) else {}
    fitting = {key: value for key, value in common.items() if not _is_misfit(known, key, value)}
    options = {_name(key): value for key, value in [*fitting.items(), *mine.items()] if _name(key) in known}
    for name, value in options.items():
        if not isinstance(value, str | int | float):
            raise BadUsage(f"`{file}` sets `{_shown(name)}` to what is no text, number or truth", hint=HINT)
        if _is_misfit(known, name, value):
            raise BadUsage(f"`{file}` sets `{_shown(name)}` to a truth, and it takes a value", hint=HINT)
    strange = [f"`{file}` sets `{key}`, which is {_near(key, known.keys())}" for key in mine if _name(key) not in known]
    ours = {*known, _name(command), LOADERS}
    elsewhere = [key for key in settings if key not in mine and _name(key) not in ours]
    if elsewhere:
        every = commands()
        names = {_name(option) for options_ in every.values() for option in options_}
        for key in elsewhere:
            if isinstance(settings[key], dict):
                if _name(key) not in {_name(name) for name in every}:
                    strange.append(f"`{file}` has a table `{key}`, which is {_near(key, every.keys(), 'command')}")
            elif _name(key) not in names:
                strange.append(f"`{file}` sets `{key}`, which is {_near(key, names)}")
    return Given(file, options, tuple(strange))


def _is_misfit(known: Mapping[str, bool], key: str, value: object) -> bool:
    """Return whether a truth is set for an option that takes a value: at the top of a file it is another command's."""
    return isinstance(value, bool) and not known.get(_name(key), True)


def origin(ctx: click.Context, option: click.Parameter, value: object) -> str:
    """Return an option's value as the user wrote it: `--hz 0`, `GPUTUNE_HZ=0`, or `hz = 0` and the file it is in."""
    name = str(option.name)
    source = ctx.get_parameter_source(name)
    if source is click.core.ParameterSource.ENVIRONMENT:
        variables = [option.envvar] if isinstance(option.envvar, str) else option.envvar or []
        set_ = next((variable for variable in variables if variable in os.environ), name)
        return f"`{set_}={os.environ.get(set_, value)}`"
    if source is click.core.ParameterSource.DEFAULT_MAP:
        return f"`{_shown(name)} = {value}` in `{ctx.meta.get(FILE)}`"
    return f"`{option.opts[-1]} {value}`"


def _near(key: str, known: Set[str], what: str = "option") -> str:
    """Return that there is nothing of this name, and the nearest that there is."""
    from difflib import get_close_matches  # noqa: PLC0415 - only where there is something to say

    near = get_close_matches(_name(key), {_name(name) for name in known}, 1)
    return f"no {what}{f'; did you mean `{_shown(near[0])}`?' if near else ''}"


def _shown(name: str) -> str:
    return name.replace("_", "-")


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
