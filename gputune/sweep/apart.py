"""What trials keep apart of what the script writes, what they cannot, and whether that broke the script.

The guest keeps it apart (`gputune_guest/write_sandbox.py`), and leaves word of what escaped it
(`gputune_guest/escapes.py`).
What C code and other programs do with files nobody tells: where the system refuses it (`writable.py`), the logs of the
trials say of what; where it does not, the words say that it is not kept apart.
"""

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from gputune.core.errors import GputuneError
from gputune.core.hygiene import clean
from gputune.experiment.writable import Writable
from gputune.launch.output import tail

WRITES = "writes"  # the folder in the sweep's own for what trials write
ESCAPES = ".astray"  # ends the name of a file with what one trial could not keep apart
KINDS = {
    "program": "it started",
    "database": "it opened as a database",
    "large": "too large to be copied, and so to be written in place:",
    "opened": "it opened for writing",
}
SHOWN = 3  # names of a kind
LOG_END_B = 8192  # B of the end of a log
LINES = 5  # of a log that may tell why the script failed
BY = "what the script writes in its trials through Python, torch's savers and profiler, safetensors and TensorBoard"
BUT = "but for temporary files and caches"
OTHER = "what other C code (HDF5, OpenCV, SQLite, Arrow) and other programs"
NOT = f"{OTHER} write is not kept apart"
REFUSED = f"{OTHER} would change beside these is refused"
DATABASE = "database"  # of a line: what SQLite opened, which does not say what it was refused
INSIDE = "inside"  # of a line: a folder of the trial's that the script went into
NOT_FOUND = re.compile(r"no such file|errno ?=? ?2\b", re.IGNORECASE)  # as C says it; h5py says `errno = 2`
DENIED = re.compile(r"permission denied|errno ?=? ?13\b", re.IGNORECASE)
DENIED_SQL = re.compile(r"readonly database|unable to open database file", re.IGNORECASE)
WORD = re.compile(r"'([^'\n]+)'|\"([^\"\n]+)\"|`([^`\n]+)`|([^\s'\"`,;()\[\]{}]+)")


class Broken(GputuneError):  # noqa: N818 - named for what happened
    """The script fails in a trial whatever the settings of its loader are: none of them is to blame."""

    def __init__(self, says: str, log: Path | str) -> None:
        super().__init__(
            says,
            hint=f"its output is in `{log}`; if it does not fail without gputune, it does so by what a trial keeps "
            "apart (docs/trials.md)",
        )


def told(writable: Writable) -> str:
    """Return one sentence: which files the trials wrote into their own folder, and which elsewhere."""
    folder = writable.folder
    if not _trials(folder):
        return "nothing that the script writes in its trials was kept apart: the guest was not there from the beginning"
    found = _escapes(folder)
    seen = {kind: found[kind] for kind in KINDS if kind in found}
    where = (
        f"is in `{clean(os.path.relpath(folder))}`, {BUT}"
        if _holds(folder)
        else f"is kept apart, {BUT}: it was no file"
    )
    words = [f"{KINDS[kind]} {_names(names)}" for kind, names in seen.items()]
    names = list(dict.fromkeys(name for log in sorted(folder.parent.glob("*.log")) for name in refused(log, writable)))
    if names:
        words.insert(0, f"it was refused {_names(names)} ({_allowed(names[0])})")
    rest = NOT if writable.why or writable.allows(writable.cwd) else REFUSED
    return f"{BY} {where}; {rest}" + (f" ({'; '.join(words)})" if words else "")


def _trials(folder: Path) -> list[Path]:
    """Return the folders of trials in which there was a guest."""
    return [trial for trial in folder.iterdir() if trial.is_dir()] if folder.is_dir() else []


def _holds(folder: Path) -> bool:
    """Return whether a trial has left a file there."""
    return any(files for trial in _trials(folder) for _, _, files in os.walk(trial))


def _escapes(folder: Path) -> dict[str, list[str]]:
    """Return what escaped the sandbox: kind to names, each once."""
    found: dict[str, list[str]] = {}
    for file in sorted(folder.glob(f"*{ESCAPES}")):
        for line in tail(file, 1 << 20).splitlines():  # B of the end of such a file
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


def reason(log: Path, writable: Writable) -> str:
    """Return in words what a script that failed has missed because a trial keeps it apart, "" where that is not so."""
    folder, cwd = writable.folder, writable.cwd
    if name := next(refused(log, writable, LINES), ""):
        what = f"C code or another program was refused to change `{clean(name, 80)}`"
        return f"{what}, for a trial leaves your files as they are: {_allowed(name)}"
    if name := missed(log, folder, cwd):
        why = "and a trial keeps that where C code and other programs do not find it"
        return f"it wrote `{clean(name, 80)}` itself, {why}"
    if name := mislaid(log, folder):
        why = "and a trial keeps that where C code and other programs do not find what lies beside it"
        return f"it looked for `{clean(name, 80)}` from a folder that it made itself, {why}"
    return ""


def _allowed(name: str) -> str:
    """Return what lets a trial change a file: its folder, for what writes it may need another file beside it."""
    return f"`--may-write {clean(shlex.quote(str(Path(name).parent)), 80)}` allows it"


def refused(log: Path, writable: Writable, lines: int = LOG_END_B) -> Iterator[str]:
    """Yield what the last lines of a log say was not to be changed, where that was the system by our order."""
    for line in () if writable.why else _last(log, lines):
        names: Iterable[str] = _likely(line, writable.cwd) if DENIED.search(line) else ()
        if DENIED_SQL.search(line):
            here = f"{writable.cwd}/"
            names = [name.removeprefix(here) for name in _escapes(writable.folder).get(DATABASE, ())]
        yield from [name for name in names if writable.refuses(str(Path(writable.cwd, name)))][:1]


def _likely(line: str, cwd: str) -> list[str]:
    """Return the words of a line that may name a file: those in quotes, then the others from the last one on."""
    quoted: list[str] = []
    bare: list[str] = []
    for word in _words(line):
        in_quotes = any(f"{mark}{word}" in line for mark in "'\"`")
        if "/" in word or (in_quotes and "." in word) or os.path.lexists(Path(cwd, word)):
            (quoted if in_quotes else bare).append(word)
    return [*quoted, *reversed(bare)]


def missed(log: Path, folder: Path, cwd: str) -> str:
    """Return what the last words of a script name that lies apart in a trial and nowhere else, "" where nothing does.

    Who looked for it did not ask by Python: it was there. `cwd`: the folder that the script was started in.
    """
    trials = _trials(folder)
    for word in (word for line in _last(log) for word in _words(line)):
        path = os.path.normpath(Path(cwd, word))
        if path == os.path.normpath(cwd) or os.path.lexists(path):
            continue
        if any(os.path.lexists(f"{trial}{path}") for trial in trials):
            return word
    return ""


def mislaid(log: Path, folder: Path) -> str:
    """Return what a script says not to be there that is, seen from a folder that it made in a trial and went into."""
    inside = [at for at in _escapes(folder).get(INSIDE, ()) if not os.path.lexists(at)]
    for line in _last(log) if inside else ():
        names = [word for word in _words(line) if word.startswith("../")] if NOT_FOUND.search(line) else []
        for name in names:
            if any(os.path.lexists(os.path.normpath(Path(at, name))) for at in inside):
                return name
    return ""


def _last(log: Path, lines: int = LINES) -> list[str]:
    """Return the last lines of a log, the last one first."""
    return tail(log, LOG_END_B).decode("utf-8", "replace").strip().splitlines()[: -lines - 1 : -1]


def _words(line: str) -> Iterator[str]:
    """Yield what may be a name of a file in a line."""
    for match in WORD.finditer(line):
        word = next(group for group in match.groups() if group).rstrip(".:!?")
        if word and "\0" not in word:
            yield word


def gone(why: str) -> str:
    """Return the sentence for trials whose writing is not brought back from where they ran.

    `why`: the system did not refuse there what is not kept apart; "" where it did.
    """
    return f"{BY} is thrown away with them, {BUT}; {NOT if why else REFUSED}"
