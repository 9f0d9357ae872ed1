"""Several jobs from a file: what to run, how often, with what need and in which environment.

[[jobs]]
command = "python train.py --fold 1"   # or a list of words
name = "fold1"
count = 2
memory = "6GB"          # of the device, for one process, as nvidia-smi shows it
host-memory = "4GB"
weight = 2.0            # its part of the card under MPS
index-args = true       # by default where count is above 1
cwd = "fold1"
env = { SEED = "1" }
"""

import re
import shlex
import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

from gputune.core.errors import BadUsage
from gputune.core.hygiene import clean
from gputune.sharing.spec import TaskSpec

KEYS = ("command", "name", "count", "memory", "host-memory", "weight", "index-args", "cwd", "env")
HINT = "docs/share.md shows a jobs file"
OWN_NAME = "give each a `name` of its own: it names its log"
HEAD = re.compile(r"\s*\[\[\s*jobs\s*\]\]")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")
SIZE = re.compile(r"(?P<count>\d+(?:\.\d+)?)\s*(?P<unit>[KMGT]?)(?P<binary>i?)B?", re.IGNORECASE)
UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


class BadJob(BadUsage):
    """A jobs file says what cannot be."""

    def __init__(self, file: Path, line: int, says: str, hint: str = HINT) -> None:
        super().__init__(f"`{file}`, line {line}: {says}", hint=hint)


def memory(text: str) -> int | None:
    """Return a size in B: `6GB`, `512 MiB`, `1.5G`; None where it is none."""
    match = SIZE.fullmatch(text.strip())
    if match is None:
        return None
    size = float(match["count"]) * (1024 if match["binary"] else 1000) ** UNITS[match["unit"].upper()]
    return int(size) if size >= 1 else None


def read(file: Path) -> tuple[TaskSpec, ...]:
    """Return the jobs in a file. Raises BadUsage, with the line, for what cannot be meant."""
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")  # late: most runs have no file
    try:
        text = file.read_text(encoding="utf-8")
        settings = toml.loads(text)
    except OSError as error:
        raise BadUsage(f"`{clean(str(file))}` cannot be read: {error.strerror}", hint=HINT) from None
    except ValueError as error:
        raise BadUsage(f"`{clean(str(file))}` is no TOML: {clean(str(error))}", hint=HINT) from None
    lines = text.splitlines()
    for key in settings:
        if key != "jobs":
            raise BadJob(file, _line(lines, key, -1), f"there is no `{clean(key, 40)}`", _nearest(key, ("jobs",)))
    found = settings.get("jobs")
    if not isinstance(found, list) or not found or not all(isinstance(job, dict) for job in found):
        raise BadJob(file, 1, "it has no `[[jobs]]`")
    jobs = tuple(_job(file, lines, number, job) for number, job in enumerate(found))
    names = [job.name for job in jobs]
    for number, name in enumerate(names):
        alone = jobs[number].count == 1
        if name in names[:number] or (alone and any(_numbered(name, job) for job in jobs)):
            line = _line(lines, "name", number)
            raise BadJob(file, line, f"two jobs would have the log `{name}.log`", OWN_NAME)
    return jobs


def _numbered(name: str, job: TaskSpec) -> bool:
    """Return whether a name is that of one of a job's processes: `a-1` is the second of `a`."""
    number = name.removeprefix(f"{job.name}-")
    return job.count > 1 and number != name and number.isdecimal() and int(number) < job.count


def _job(file: Path, lines: list[str], number: int, told: Mapping[str, object]) -> TaskSpec:
    for key in told:
        if key not in KEYS:
            raise BadJob(file, _line(lines, key, number), f"a job has no `{clean(key, 40)}`", _nearest(key, KEYS))
    for key, (fits, what) in RULES.items():
        if key in told and not fits(told[key]):
            raise BadJob(file, _line(lines, key, number), f"`{key}` is {what}")
    if "command" not in told:
        raise BadJob(file, _line(lines, "command", number), "the job has no `command`")
    return _made(file, number, _Told(told))


def _words(value: object) -> tuple[str, ...]:
    """Return a command in words, none where it is no command."""
    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError:  # a quote that does not end
        return ()
    return tuple(words) if isinstance(words, list) and all(isinstance(word, str) for word in words) else ()


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_weight(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _is_size(value: object) -> bool:
    return isinstance(value, str) and memory(value) is not None


def _is_env(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) and "\0" not in text for text in value.values())


# What each key may hold, and how it is called if it does not.
RULES: dict[str, tuple[Callable[[object], bool], str]] = {
    "command": (lambda value: bool(_words(value)), "no command: a text, or a list of words"),
    "name": (
        lambda value: isinstance(value, str) and NAME.fullmatch(value) is not None,
        "no name for a log: letters, digits, `-`, `_` and `.`, at most 40, a letter first",
    ),
    "count": (_is_count, "no number of processes: 1 or more"),
    "memory": (_is_size, 'no size, like `"6GB"`'),
    "host-memory": (_is_size, 'no size, like `"6GB"`'),
    "weight": (_is_weight, "no weight: a number above 0"),
    "index-args": (lambda value: isinstance(value, bool), "neither true nor false"),
    "cwd": (lambda value: isinstance(value, str), "no folder"),
    "env": (_is_env, 'no table of texts: `env = { SEED = "1" }`'),
}


class _Told:
    """A job's table, of which all that is there is known to be right."""

    def __init__(self, told: Mapping[str, object]) -> None:
        self._told = told

    def text(self, key: str, default: str) -> str:
        return str(self._told.get(key, default))

    def number(self, key: str, default: float) -> float:
        return float(str(self._told.get(key, default)))

    def size(self, key: str) -> int | None:
        return memory(str(self._told[key])) if key in self._told else None

    def truth(self, key: str, *, default: bool) -> bool:
        return bool(self._told.get(key, default))

    def words(self) -> tuple[str, ...]:
        return _words(self._told["command"])

    def env(self) -> dict[str, str]:
        found = self._told.get("env", {})
        return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _made(file: Path, number: int, told: _Told) -> TaskSpec:
    cwd = told.text("cwd", "")
    count = int(told.number("count", 1))
    return TaskSpec(
        argv=told.words(),
        name=told.text("name", f"job{number}"),
        count=count,
        env=told.env(),
        cwd=str(file.parent.absolute() / cwd) if cwd else "",
        memory=told.size("memory"),
        host_memory=told.size("host-memory"),
        weight=told.number("weight", 1.0),
        index_args=told.truth("index-args", default=count > 1),
    )


def _line(lines: list[str], key: str, number: int) -> int:
    """Return the line, from 1, that a key of job `number` (-1: of none) stands in; else that where the job begins."""
    place, start = -1, 1
    for at, line in enumerate(lines, start=1):
        if HEAD.match(line):
            place += 1
            start = at if place == number else start
        if place == number and re.match(rf"\s*\[*\s*[\"']?{re.escape(key)}[\"']?\s*[=.\]]", line):
            return at
    return start


def _nearest(key: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(key.replace("_", "-"), known, 1)
    return f"did you mean `{near[0]}`?" if near else f"known are {', '.join(f'`{name}`' for name in known)}"
