"""`gputune.toml`: the settings that a sweep found, as `gputune run` applies them to a script that is not edited.

    [[loader]]
    where = "train.py:41"
    num_workers = 6
    prefetch_factor = 4

The file may hold options of gputune as well (`gputune/core/config.py`): a sweep replaces what stands between its two
marks, and leaves the rest as it is.
"""

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from gputune.core.config import LOADERS
from gputune.core.errors import BadUsage
from gputune.core.finding import WITHOUT_EDIT
from gputune.core.hygiene import clean
from gputune.core.sample import Json
from gputune.sweep import drafts

BEGIN = "# >>> gputune sweep-loader: what stands until `<<<` is replaced by the next sweep"
END = "# <<< gputune sweep-loader"
PLACE, SHARED = "where", "shared_out"
EXAMPLE = '`[[loader]]`, then lines like `where = "train.py:41"` and `num_workers = 6`'


class NoSettings(BadUsage):
    """The file sets nothing of a loader."""

    def __init__(self, file: Path, why: str) -> None:
        super().__init__(f"`{file}` {why}", hint=f"`gputune sweep-loader` writes it; it holds {EXAMPLE}")


class Unmarked(BadUsage):
    """Which lines of the file are those of a sweep cannot be told."""

    def __init__(self, file: Path) -> None:
        super().__init__(
            f"`{file}` has the mark where a sweep's lines begin, and none where they end",
            hint=f"put `{END}` behind them, or delete the line `{BEGIN[:27]}…`",
        )


def rules(file: Path) -> list[Mapping[str, Json]]:
    """Return the rules in a file as the guest takes them (`override.py`). Raises NoSettings."""
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")  # late: as in config.py
    try:
        tables = toml.loads(file.read_text(encoding="utf-8")).get(LOADERS)
    except OSError as error:
        raise NoSettings(file, f"cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise NoSettings(file, f"is no TOML: {clean(str(error))}") from None
    if not isinstance(tables, list) or not tables:
        raise NoSettings(file, "sets nothing of a loader")
    return [_rule(file, table) for table in tables]


def _rule(file: Path, table: object) -> Mapping[str, Json]:
    if not isinstance(table, dict):
        raise NoSettings(file, f"has a `{LOADERS}` that is no table")
    wanted = {name: value for name, value in table.items() if name not in {PLACE, SHARED}}
    for name, value in wanted.items():
        if name not in WITHOUT_EDIT:
            raise NoSettings(file, f"sets `{clean(str(name), 60)}`, which is no setting of a loader that can be set")
        if not isinstance(value, int):
            raise NoSettings(file, f"sets `{name}` to `{clean(str(value), 60)}`, which is no number and no truth")
    where = table.get(PLACE)
    if where is not None and (not isinstance(where, str) or not where):
        raise NoSettings(file, f"has a `{PLACE}` that is no `FILE:LINE`")
    if not wanted:
        raise NoSettings(file, f"has a `{LOADERS}` that sets nothing")
    rule: dict[str, Json] = {"set": wanted, "duplicates": table.get(SHARED) is True}
    return {**rule, "where": where} if where else rule


def text(where: str, settings: Mapping[str, Json], *, shared_out: bool = False, says: str = "") -> str:
    """Return the lines that set a loader, between their marks."""
    lines = [BEGIN, *([f"# {clean(says)}"] if says else []), f"[[{LOADERS}]]", f"{PLACE} = {_toml(where)}"]
    lines += [f"{name} = {_toml(value)}" for name, value in settings.items()]
    if shared_out:
        lines.append(f"{SHARED} = true  # the stream gives each worker a part of its own")
    return "\n".join([*lines, END]) + "\n"


def _toml(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        quoted = "".join(f"\\u{ord(c):04x}" if ord(c) < 32 or c in '"\\' or ord(c) == 127 else c for c in value)
        return f'"{quoted}"'
    return str(value)


def check(file: Path) -> None:
    """Raise BadUsage where a sweep could not write the file at its end, or not keep the rest of it."""
    writable(file)
    if file.exists() and not file.is_file():
        raise BadUsage(f"`{file}` is a device or a pipe, not a file", hint="`--write -` for none, or `--write FILE`")
    try:
        _rest(file, _held(file))
    except (OSError, UnicodeDecodeError) as error:
        why = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else "is no text in UTF-8"
        raise BadUsage(
            f"`{file}` {why}, and what it holds is to stay",
            hint="mend it, or name another file: `--write FILE`, or `--write -` for none",
        ) from None


def writable(file: Path, option: str = "--write") -> None:
    """Raise BadUsage where the file that an option names cannot be written."""
    folder = file.parent
    if file.is_dir() or not folder.is_dir():
        what = "is a folder" if file.is_dir() else f"lies in `{folder}`, which does not exist"
        raise BadUsage(f"`{file}` {what}", hint=f"name a file: `{option} FILE`")
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise BadUsage(
            f"`{file}` cannot be written: the {'file' if file.exists() else 'folder'} is read-only",
            hint=f"name a file that can: `{option} FILE`"
            + (", or `--write -` for none" if option == "--write" else ""),
        )


def _held(file: Path) -> str:
    return file.read_bytes().decode("utf-8") if file.exists() else ""


def _rest(file: Path, old: str) -> str:
    """Return what a file holds beside the lines of an earlier sweep. Raises Unmarked."""
    head, begin, rest = old.partition(BEGIN)
    mine, end, tail = rest.partition(END)
    if begin and (not end or BEGIN in mine):
        raise Unmarked(file)
    return head.rstrip("\r\n") + tail if begin else old


def write(file: Path, lines: str, *, ours: bool = False) -> None:
    """Put the lines into the file in the place of those of an earlier sweep, with the line ends that it has.

    Raises OSError where it cannot, UnicodeDecodeError where the rest of the file is no text, Unmarked where its marks
    do not tell which lines are those of a sweep.
    """
    old = _held(file)
    end = "\r\n" if "\r\n" in old else "\n"
    old = _rest(file, old).strip("\r\n")
    lines = lines.replace("\n", end)
    drafts.write(file, f"{old}{end * 2}{lines}" if old else lines, ours=ours)
