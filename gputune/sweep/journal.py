"""What was measured so far, a line each, so that a sweep that was killed at any moment can go on: `sweep.jsonl`.

The first line says of which command it is, without naming it: its arguments may hold secrets. A line that was cut off
by the kill is no line; what it would have told is measured again.
"""

import contextlib
import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from gputune.core import opening
from gputune.core.errors import BadUsage
from gputune.core.hygiene import clean
from gputune.core.sample import Json
from gputune.experiment.living import ProcessMemory
from gputune.experiment.script import Script
from gputune.experiment.starting import Cause, Start, State
from gputune.features import Features
from gputune.features.concurrent_loaders import ALONE, Company
from gputune.features.joined_ranks import WatchShare, decode, encode
from gputune.launch.folders import RUNS
from gputune.sweep.search import Bench, CutOff, Outcome
from gputune.sweep.settings import LoaderSetting

FILE = "sweep.jsonl"


class NothingToResume(BadUsage):
    """There is no sweep of this script to go on with."""

    def __init__(self, script: str, place: Path) -> None:
        super().__init__(
            f"there is no sweep of `{script}` in `{place}` to go on with",
            hint="begin one: the same without `--resume`",
        )


class Edited(BadUsage):
    """What was measured is of a script that is another one by now."""

    def __init__(self, file: str) -> None:
        super().__init__(
            f"`{clean(os.path.relpath(file), 200)}` has changed since that sweep, which measured another script",
            hint="sweep anew: the same without `--resume`",
        )


class Entry(NamedTuple):
    """One start, or one visit to a setting."""

    kind: str
    fields: Mapping[str, Json]


def identity(script: Script, *wishes: Json) -> str:
    """Return what tells a sweep from all others: the same command in the same folder, and what else was wished."""
    text = json.dumps([script.cwd, script.command, *wishes])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Journal:
    """The journal of one sweep, in its folder."""

    def __init__(self, folder: Path, told: list[Entry] | None = None) -> None:
        self.folder = folder
        self._told: dict[str, deque[Mapping[str, Json]]] = {}
        for entry in told or ():
            self._told.setdefault(entry.kind, deque()).append(entry.fields)
        self.spent = sum(float(str(entry.fields.get("seconds", 0.0))) for entry in told or ())  # s, of starts

    def knows(self, kind: str) -> bool:
        """Return whether something is remembered under a name that was not taken yet: to take it takes no time."""
        return bool(self._told.get(kind))

    def take(self, kind: str) -> Mapping[str, Json] | None:
        """Return what is remembered under a name and was not taken yet, None where nothing is."""
        left = self._told.get(kind)
        return left.popleft() if left else None

    def keep(self, kind: str, fields: Mapping[str, Json]) -> None:
        """Append one line; what cannot be written is not kept, and the sweep goes on."""
        line = json.dumps({"kind": kind, **fields}).encode() + b"\n"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            file = os.open(self.folder / FILE, flags, 0o600)
        except OSError:
            return
        try:
            os.write(file, line if self._whole() else b"\n" + line)
        except OSError:
            return
        finally:
            os.close(file)

    def rest_on(self, files: Iterable[str]) -> None:
        """Remember files as they are now: what is measured is of them, and of no later ones."""
        digests = {str(Path(file).absolute()): _digest(file) for file in files}
        known: dict[str, Json] = {name: digest for name, digest in digests.items() if digest}
        if known:
            self.keep("files", {"files": known})

    def _whole(self) -> bool:
        """Return whether the file ends with a whole line."""
        with (self.folder / FILE).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            return file.read() in {b"", b"\n"}

    def start(self, kind: str, make: Callable[[], Start]) -> Start:
        """Return the start that is remembered under this name, else make it and remember it."""
        told = self.take(kind)
        kept = _start(self.folder, told) if told is not None else None
        if kept is not None:
            return kept
        found = make()
        if found.state is State.FAILED:  # to be tried again, should it be resumed
            return found
        name = f"{kind.partition('=')[0].replace(' ', '-')}-{os.urandom(4).hex()}.features"
        with contextlib.suppress(OSError):
            if found.run is not None:
                _write(self.folder / name, encode(WatchShare(host="", features=found.run)))
        self.keep(kind, {**msgspec.to_builtins(remembered(found)), "features": name})
        return found

    def number(self, kind: str, make: Callable[[], float | None]) -> float | None:
        """Return the number that is remembered under this name, else make it and remember it, unless it was cut off."""
        told = self.take(kind)
        try:
            found = told.get("value") if told is not None else make()
        except CutOff:  # to be measured, should it be resumed
            return None
        if told is None:
            self.keep(kind, {"value": found})
        return float(found) if isinstance(found, int | float) else None


def _digest(file: str) -> str:
    """Return what tells a file's contents from others, "" where it cannot be read."""
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return ""


def _write(file: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(file, flags, 0o600), "wb") as opened:
        opened.write(data)


def _start(folder: Path, told: Mapping[str, Json]) -> Start | None:
    """Return a start as it is remembered, None where its features are lost."""
    try:
        run = decode(opening.read(folder / Path(str(told["features"])).name)).features
        return msgspec.convert(told, Remembered).start(run)
    except (OSError, KeyError, msgspec.DecodeError):
        return None


class Remembered(msgspec.Struct, kw_only=True):
    """The fields of a start that a line of the journal holds, or that come back from another machine."""

    state: State
    log: str
    why: str
    seconds: float
    looped: float
    memory: int | None
    batches: int
    exit_code: int | None
    over: bool
    where: str
    rates: tuple[float, ...]
    notes: tuple[dict[str, object], ...]
    loaders: dict[str, dict[str, object]]
    shared: bool = False
    company: Company = ALONE
    apart: dict[str, int] = {}
    node: str = ""
    cause: Cause = Cause.UNKNOWN
    worker: ProcessMemory | None = None

    def start(self, run: Features) -> Start:
        """Return the start, with its features."""
        return Start(run=run, **msgspec.structs.asdict(self))


def remembered(start: Start) -> Remembered:
    """Return what is kept of a start beside its features."""
    fields = {field: getattr(start, field) for field in Remembered.__struct_fields__}
    return msgspec.convert(msgspec.to_builtins(fields), Remembered)


class Remembering:
    """A bench that asks the journal first, and tells it what was measured."""

    def __init__(self, bench: Bench, journal: Journal) -> None:
        self._bench = bench
        self._journal = journal
        self.noise = bench.noise
        self.kept = bench.kept

    def price(self, wanted: LoaderSetting) -> int:
        """Return what another visit costs."""
        return self._bench.price(wanted)

    def met(self, wanted: LoaderSetting) -> None:
        """Hand it on."""
        self._bench.met(wanted)

    def knows(self, wanted: LoaderSetting) -> bool:
        """Return whether another visit is remembered."""
        return self._journal.knows(self._kind(wanted))

    @staticmethod
    def _kind(wanted: LoaderSetting) -> str:
        return f"setting {wanted.words()}"

    def measure(self, wanted: LoaderSetting) -> Outcome:
        """Return the visit that is remembered, else measure and remember it."""
        kind = self._kind(wanted)
        told = self._journal.take(kind)
        if told is not None:
            self._bench.met(wanted)
            return _outcome(told)
        found = self._bench.measure(wanted)
        if found.cut_off:  # to be measured, should it be resumed
            return found
        self._journal.keep(
            kind,
            {
                "state": found.state.value,
                "rates": list(found.rates),
                "why": found.why,
                "memory": found.memory,
                "seconds": found.seconds,
                "company": list(found.company),
            },
        )
        return found


def _outcome(told: Mapping[str, Json]) -> Outcome:
    rates, memory, company = told.get("rates"), told.get("memory"), told.get("company")
    return Outcome(
        state=State(told.get("state")),
        rates=tuple(float(str(rate)) for rate in rates) if isinstance(rates, list) else (),
        why=str(told.get("why") or ""),
        memory=memory if isinstance(memory, int) else None,
        seconds=float(str(told.get("seconds", 0.0))),
        company=msgspec.convert(company, Company) if isinstance(company, list) else ALONE,
    )


def begun(folder: Path, key: str, files: Iterable[str] = ()) -> Journal:
    """Return the journal of a sweep that begins, of a script in these files."""
    journal = Journal(folder)
    journal.keep("sweep", {"version": 1, "key": key})
    journal.rest_on(files)
    return journal


def last(key: str, folder: Path | None) -> Path | None:
    """Return the folder of the last sweep with this key, in `folder` or right below it where one is named.

    Those of several at once lie one deeper than those of one. None where there is none.
    """
    named = [(folder if folder.is_dir() else folder.parent) / FILE] if folder else []
    below = folder.glob(f"*/{FILE}") if folder else [*Path(RUNS).glob(f"*/{FILE}"), *Path(RUNS).glob(f"*/*/{FILE}")]
    for file in (*named, *sorted(below, reverse=True)):
        entries = _entries(file)
        if entries and entries[0].kind == "sweep" and entries[0].fields.get("key") == key:
            return file.parent
    return None


def resumed(script: Script, key: str, folder: Path | None) -> Journal:
    """Return the journal of the last sweep with this key, or of the one in `folder` or right below it.

    Raises NothingToResume, or Edited where its script is not as it was.
    """
    here = last(key, folder)
    if here is None:
        raise NothingToResume(script.name, folder or Path(RUNS))
    entries = _entries(here / FILE)
    _check(entries)
    return Journal(here.resolve(), entries[1:])


def _check(entries: Iterable[Entry]) -> None:
    """Raise Edited where a file that a sweep rests on has changed."""
    for entry in entries:
        files = entry.fields.get("files") if entry.kind == "files" else None
        for file, digest in files.items() if isinstance(files, dict) else ():
            if _digest(file) != digest:
                raise Edited(file)


def _entries(file: Path) -> list[Entry]:
    try:
        lines = opening.read(file).splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):  # cut off by a kill, or somebody else's
            continue
        if isinstance(fields, dict) and isinstance(fields.get("kind"), str):
            found.append(Entry(fields["kind"], fields))
    return found
