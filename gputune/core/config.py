"""Options from a file: `gputune.toml`, or `[tool.gputune]` of `pyproject.toml`, nearest to the current folder.

A key at the top is for every command that has such an option; one in a table named for a command is for that command:

    hz = 5
    [watch]
    max-size = "256MB"

A flag wins over the environment, the environment over the file. A key that no command knows is said, not refused: it
may be of a newer gputune.

A file above the current folder may be anybody's, as in /tmp: one that is not this user's or root's, or that others may
write, counts for nothing and is said. What starts programs or names places to write is taken of the project's own only.
"""

import errno
import grp
import os
import pwd
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import click

from gputune.core import opening
from gputune.core.errors import BadUsage

OWN = "gputune.toml"
SHARED = "pyproject.toml"
LOADERS = "loader"  # a list of tables for `gputune run`, no option of a command: `gputune/sweep/saved_settings.py`
FILE = "gputune.core.config"  # the key of click's `meta` under which the file's path is kept
UNKNOWN = "gputune.unknown"  # and what of it nobody knows, for a command that speaks later
PROJECT = (".git", ".hg", SHARED, "setup.py")  # what the top folder of a project has
# Options that start a program, say whom to trust or tell, or are written to: files in $HOME or / are not asked
OWN_ONLY = frozenset({
    "python", "remote", "hosts", "jobs", "ray", "credentials", "json", "json_file", "out", "write", "csv_file",
    "html", "log_dir", "keep", "announce", "state", "socket", "may_write", "export", "to", "metrics",
})  # fmt: skip
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
    ignored: list[str] = []
    found = _nearest(start, ignored)
    if found is None:
        return Given(unknown=tuple(ignored))
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
    strange = ignored
    for name in _far(options, file.parent, start):
        del options[name]
        strange.append(f"`{file}` sets `{_shown(name)}`, which counts only in the project's own folder")
    strange += [
        f"`{file}` sets `{key}`, which is {_near(key, known.keys())}" for key in mine if _name(key) not in known
    ]
    ours = {*known, _name(command), LOADERS}
    elsewhere = [key for key in settings if key not in mine and _name(key) not in ours]
    if elsewhere:
        strange += _unknown(file, settings, elsewhere, commands())
    return Given(file, options, tuple(strange))


def _unknown(file: Path, settings: Settings, keys: list[str], every: Mapping[str, Set[str]]) -> Iterator[str]:
    """Yield what of a file no command knows."""
    names = {_name(option) for options in every.values() for option in options}
    for key in keys:
        if isinstance(settings[key], dict):
            if _name(key) not in {_name(name) for name in every}:
                yield f"`{file}` has a table `{key}`, which is {_near(key, every.keys(), 'command')}"
        elif _name(key) not in names:
            yield f"`{file}` sets `{key}`, which is {_near(key, names)}"


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


def _nearest(start: Path, ignored: list[str]) -> tuple[Path, Settings] | None:
    """Return the nearest file that may be heeded, and its settings; put down the nearer ones that may not."""
    for folder in (start, *start.parents):
        for name in (OWN, SHARED):
            file = folder / name
            settings = _settings(file, ignored) if file.is_file() else None
            if settings is None and name == OWN and file.exists() and not file.is_file():
                ignored.append(f"`{file}` is ignored: it is no file")
            if settings is not None:
                return file, settings
    return None


def _settings(file: Path, ignored: list[str]) -> Settings | None:
    """Return what a file sets; None where it sets nothing, or is ignored. One that never names us is not checked."""
    try:
        text, why = _held(file)
    except OSError as error:
        if file.name == SHARED:
            return None
        none = error.strerror if error.errno == errno.EFBIG else ""  # no settings of anybody's
        if none or not opening.is_mine(file):
            ignored.append(f"`{file}` is ignored: {none or 'it cannot be read, and is not yours'}")
            return None
        raise BadUsage(f"`{file}` cannot be read: {error}", hint=HINT) from None
    if file.name == SHARED and b"gputune" not in text:
        return None
    if why:
        ignored.append(f"`{file}` is ignored: {why}")
        return None
    settings = _parsed(file, text)
    if file.name == OWN:
        return settings
    tool = settings.get("tool")
    own = tool.get("gputune") if isinstance(tool, dict) else None
    return own if isinstance(own, dict) else None


def _held(file: Path) -> tuple[bytes, str]:
    """Return what a file holds, and why it may not be heeded: both of the file that is open, not of its name."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    why = _distrust(os.fstat(descriptor)) or _distrust(file.lstat())
    try:
        return opening.content(descriptor, most=1 << 20), why  # B of such a file
    except OSError:
        if not why:
            raise
        return b"gputune", why  # whatever it says, it is not heeded


def _distrust(about: os.stat_result) -> str:
    """Return why somebody else may have said what is in a file; nothing where nobody can have."""
    if about.st_uid not in {0, os.geteuid()}:
        return f"it is {opening.name_of(about.st_uid)}'s"
    if stat.S_ISLNK(about.st_mode):  # whose mode says nothing
        return ""
    if about.st_mode & stat.S_IWOTH or (about.st_mode & stat.S_IWGRP and not _is_private(about.st_gid)):
        return "others may write it (`chmod go-w` makes it yours)"
    return ""


def _is_private(gid: int) -> bool:
    """Return whether a group is this user's or root's alone: where each has one, files are often writable by it."""
    try:
        me, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return gid in {0, me.pw_gid} and group.gr_name in {me.pw_name, "root"} and set(group.gr_mem) <= {me.pw_name, "root"}


def _far(options: Mapping[str, object], folder: Path, start: Path) -> list[str]:
    """Return which of the options are not to be heeded, as they stand in a folder that is not the project's own."""
    named = [name for name, value in options.items() if name in OWN_ONLY and isinstance(value, str)]
    return named if named and not _is_own(folder, start) else []


def _is_own(folder: Path, start: Path) -> bool:
    """Return whether a folder is that of the project: the current one, or the nearest top of one at or above it."""
    for each in (start, *start.parents):
        is_top = any((each / name).exists() for name in PROJECT)
        if each == folder:
            return is_top or each == start
        if is_top:
            return False
    return False


def _parsed(file: Path, text: bytes) -> Settings:
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")  # late: most runs have no file
    try:
        settings: Settings = toml.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadUsage(f"`{file}` cannot be read: {error}", hint=HINT) from None
    return settings


def _name(key: str) -> str:
    return key.replace("-", "_")
