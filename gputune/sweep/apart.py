"""What trials keep apart of what the script writes, what they cannot, and whether that broke the script.

The guest keeps it apart (`gputune_guest/hush.py`) and leaves word of what it saw go astray (`gputune_guest/astray.py`).
What C code and other programs do with files nobody tells, so the words say that these are not kept apart.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from gputune.errors import GputuneError
from gputune.hygiene import clean
from gputune.launch.output import tail

WRITES = "writes"  # the folder in the sweep's own for what trials write
ASTRAY = ".astray"  # ends the name of a file with what one trial could not keep apart
KINDS = {
    "program": "it started",
    "database": "it opened as a database",
    "large": "too large to be copied, and so written in place:",
    "opened": "it opened for writing",
}
SHOWN = 3  # names of a kind
TAIL = 1 << 20  # B of the end of such a file
LAST = 8192  # B of the end of a log
LINES = 5  # of a log that may tell why the script failed
BY = "what the script writes in its trials through Python, torch's savers and profiler, safetensors and TensorBoard"
BUT = "but for temporary files and caches"
NOT = "what other C code (HDF5, OpenCV, SQLite, Arrow) and other programs write is not kept apart"
NOBODYS = ("its dataset cannot be handed", "DataLoader worker", "no batch came", "it was stuck")  # no error of its own
INSIDE = "inside"  # of a line: a folder of the trial's that the script went into
NOT_FOUND = re.compile(r"no such file|errno ?=? ?2\b", re.IGNORECASE)  # as C says it; h5py says `errno = 2`
WORD = re.compile(r"'([^'\n]+)'|\"([^\"\n]+)\"|`([^`\n]+)`|([^\s'\"`,;()\[\]{}]+)")


class Broken(GputuneError):  # noqa: N818 - named for what happened
    """The script fails in a trial whatever the settings of its loader are: none of them is to blame."""

    def __init__(self, says: str, log: Path | str) -> None:
        super().__init__(
            says,
            hint=f"its output is in `{log}`; if it does not fail without gputune, it does so by what a trial keeps "
            "apart (docs/trials.md)",
        )


def told(folder: Path) -> str:
    """Return in a sentence what of the trials' writing lies in this folder, and what does not."""
    if not folder.is_dir():
        return "nothing that the script writes in its trials was kept apart: the guest was not there from the beginning"
    found = _astray(folder)
    seen = {kind: found[kind] for kind in KINDS if kind in found}
    where = (
        f"is in `{clean(os.path.relpath(folder))}`, {BUT}"
        if _holds(folder)
        else f"is kept apart, {BUT}: it was no file"
    )
    words = [f"{KINDS[kind]} {_names(names)}" for kind, names in seen.items()]
    return f"{BY} {where}; {NOT}" + (f" ({'; '.join(words)})" if words else "")


def _holds(folder: Path) -> bool:
    """Return whether a trial has left a file there."""
    return any(files for trial in folder.iterdir() if trial.is_dir() for _, _, files in os.walk(trial))


def _astray(folder: Path) -> dict[str, list[str]]:
    """Return what was seen to go astray: kind to names, each once."""
    found: dict[str, list[str]] = {}
    for file in sorted(folder.glob(f"*{ASTRAY}")):
        for line in tail(file, TAIL).splitlines():
            kind, name = _entry(line)
            names = found.setdefault(kind, [])
            if name not in names:
                names.append(name)
    return found


def _entry(line: bytes) -> tuple[str, str]:
    """Return (kind, name) of a line; a kind that nobody knows where it is none, for the script can write there."""
    try:
        told = json.loads(line)
    except ValueError:
        return "", ""
    return (str(told.get("kind")), str(told.get("name"))) if isinstance(told, dict) else ("", "")


def _names(names: list[str]) -> str:
    here = f"{Path.cwd()}/"
    shown = ", ".join(f"`{clean(name.removeprefix(here), 80)}`" for name in names[:SHOWN])
    more = len(names) - SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def own_error(why: str) -> bool:
    """Return whether a start that failed for this reason did so by an error of the script's own."""
    return not why.startswith(NOBODYS)


def reason(log: Path, folder: Path, cwd: str) -> str:
    """Return in words what a script that failed has missed because a trial keeps it apart, "" where that is not so."""
    if name := missed(log, folder, cwd):
        why = "and a trial keeps that where C code and other programs do not find it"
        return f"it wrote `{clean(name, 80)}` itself, {why}"
    if name := mislaid(log, folder):
        why = "and a trial keeps that where C code and other programs do not find what lies beside it"
        return f"it looked for `{clean(name, 80)}` from a folder that it made itself, {why}"
    return ""


def missed(log: Path, folder: Path, cwd: str) -> str:
    """Return what the last words of a script name that lies apart in a trial and nowhere else, "" where nothing does.

    Who looked for it did not ask by Python: it was there. `cwd`: the folder that the script was started in.
    """
    if not folder.is_dir():
        return ""
    trials = [trial for trial in folder.iterdir() if trial.is_dir()]
    for word in (word for line in _last(log) for word in _words(line)):
        path = os.path.normpath(Path(cwd, word))
        if path == os.path.normpath(cwd) or os.path.lexists(path):
            continue
        if any(os.path.lexists(f"{trial}{path}") for trial in trials):
            return word
    return ""


def mislaid(log: Path, folder: Path) -> str:
    """Return what a script says not to be there that is, seen from a folder that it made in a trial and went into."""
    inside = [at for at in _astray(folder).get(INSIDE, ()) if not os.path.lexists(at)]
    for line in _last(log) if inside else ():
        names = [word for word in _words(line) if word.startswith("../")] if NOT_FOUND.search(line) else []
        for name in names:
            if any(os.path.lexists(os.path.normpath(Path(at, name))) for at in inside):
                return name
    return ""


def _last(log: Path) -> list[str]:
    """Return the last lines of a log, the last one first."""
    return tail(log, LAST).decode("utf-8", "replace").strip().splitlines()[: -LINES - 1 : -1]


def _words(line: str) -> Iterator[str]:
    """Yield what may be a name of a file in a line."""
    for match in WORD.finditer(line):
        word = next(group for group in match.groups() if group).rstrip(".:!?")
        if word and "\0" not in word:
            yield word


def gone() -> str:
    """Return the sentence for trials whose writing is not brought back from where they ran."""
    return f"{BY} is thrown away with them, {BUT}; {NOT}"
