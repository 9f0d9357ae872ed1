"""A recording judged again: by this gputune, on this machine, also while the run still goes on."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from gputune import recording
from gputune.core import opening
from gputune.core.errors import GputuneError
from gputune.core.figures import moment
from gputune.core.finding import Finding
from gputune.core.sample import Guest, Json, Reading, latest
from gputune.core.units import NS
from gputune.features import Features
from gputune.features.joined_ranks import WatchShare, joined
from gputune.features.windowing import alike, thin
from gputune.gathering import Gatherer
from gputune.launch.job import MARK, seats
from gputune.recording.about import Damaged, NotARun, offset, read
from gputune.recording.folder import FINDINGS, TABLES, Folder
from gputune.recording.gap import unread, unwritten
from gputune.verdict import judging
from gputune.verdict.building import Overhead, Verdict, build
from gputune.verdict.document import RECORDER, RECORDING, Sighted, Tuned, UnavailableRow, why_of

About: TypeAlias = dict[str, Json]
Beside: TypeAlias = Callable[[list[Reading]], None]
Lost: TypeAlias = dict[str, str] | None

EACH = frozenset({"samples", "events", "notes"})  # tables that each recording of a training has
# Tables without which what is left would say something false: that nothing waits, or that there is one CPU.
NEEDED = frozenset({"samples", "batches", "fetches", "events", "spans", "steps", "notes"})


class Way(NamedTuple):
    """How a recording is read. `until`: only what was read in the first so many s; `beside` is given each tick of it.

    Files that are damaged are left out and put down in `lost`, with the reason, unless nothing of the training is left
    then; without `lost` the first of them raises Damaged.
    """

    until: float | None = None
    beside: Beside | None = None
    lost: Lost = None


class _Known(msgspec.Struct):
    """The part of an earlier `findings.json` that its recording may not hold: no process where it ended at once."""

    overhead: Overhead = Overhead()
    sighted: Sighted | None = None
    batches: int = 0
    exit_code: int | None = None
    started: str = ""
    unavailable: list[UnavailableRow] = []


def rejudge(
    folder: Path,
    failed: dict[str, str] | None = None,
    *,
    price: float | None = None,
    way: Way = Way(),  # noqa: B008 - it never changes
) -> Verdict:
    """Return the verdict on what is in a run folder. Raises NotARun, NewerRun or Damaged.

    Of a run that goes on, everything until its last reading counts. Advisors that fail are named in `failed`. Without a
    `price` the one that it was watched with counts.
    """
    with _whatever(folder):
        return _rejudged(folder, failed, price, way)


def _rejudged(folder: Path, failed: dict[str, str] | None, price: float | None, way: Way) -> Verdict:
    features, guests = _relived(folder, way)
    if way.lost and not any(process.steps for process in features.processes):
        raise Damaged(*next(iter(way.lost.items())))  # that no training was seen would be false
    known, until = _known(folder), way.until
    if known.batches and until is None and not any(process.batches for process in features.processes):
        raise Damaged(
            folder.name, f"the verdict at the end of the run tells of {known.batches:,} batches, and none are here"
        )
    tuned = _tuned(folder, until)
    before = since = None
    if tuned is not None and tuned.since_s is not None:  # before that, its loader was as it is not any more
        since = thin(_relived(folder, Way(tuned.since_s, lost=way.lost))[0])
        if tuned.tried_from_s is not None:
            before = _relived(folder, Way(tuned.tried_from_s, lost=way.lost))[0]
    perhaps: list[Finding] = []
    failed = {} if failed is None else failed
    gone = _gone(way.lost or {})
    found = [] if gone else judging.judge(alike(before, since, features), failed, perhaps)
    findings, perhaps = judging.with_tried(found, perhaps, tuned)
    verdict = build(
        features,
        findings,
        perhaps=perhaps,
        overhead=known.overhead,
        guests=guests,
        price=_price(folder) if price is None else price,
        tuned=tuned,
        started=known.started or _began(folder),
        unjudged=failed,
    )
    if gone:
        why = f"{gone} of the recording cannot be read, on which predictions rest"
        verdict = msgspec.structs.replace(verdict, abstained=why)
    lost = why_of(RECORDER, known.unavailable)
    if lost and until is None:
        verdict = _broken_off(verdict, lost, known.exit_code)
    if guests or until is not None or known.sighted is None:
        return verdict
    return msgspec.structs.replace(verdict, sighted=known.sighted)


def _began(folder: Path) -> str:
    """Return when a run began (ISO 8601, UTC), of a job when its lowest rank did; empty where it does not say."""
    seat = next(iter(seats(str(folder))), folder) if opening.is_there(folder / MARK) else folder
    story = read(Path(seat))
    began = story.get("started")
    return moment(began + offset(story)) if isinstance(began, int) and began else ""


def _broken_off(verdict: Verdict, lost: str, exit_code: int | None) -> Verdict:
    """Return a verdict on what was recorded before the recorder was lost: the run went on without it."""
    why = f"{lost}: what was recorded ends after {verdict.wall_s:.3g} s"
    return msgspec.structs.replace(
        verdict,
        abstained=verdict.abstained and why,
        exit_code=exit_code if verdict.exit_code is None else verdict.exit_code,
        unavailable=[*verdict.unavailable, UnavailableRow(probe=RECORDER, why=why)],
    )


def _gone(lost: Mapping[str, str]) -> str:
    """Return which tables that predictions rest on cannot be read, in words; what is left of a run says too little."""
    gone = {file.partition("/")[0] for file in lost} & NEEDED
    return " and ".join(f"`{name}`" for name in sorted(gone))


def relive(folder: Path) -> tuple[Features, list[Guest]]:
    """Return what is known of a recorded run, and the processes that were sighted. Raises as `rejudge`."""
    with _whatever(folder):
        return _relived(folder, Way())


@contextmanager
def _whatever(folder: Path) -> Iterator[None]:
    """Make one Damaged of all that a recording can bring about in those who count it: it may be anybody's."""
    try:
        yield
    except (GputuneError, OSError):
        raise
    except Exception as error:
        raise Damaged(folder.name, f"what it says fits nothing ({type(error).__name__}: {error})") from error


def _relived(folder: Path, way: Way) -> tuple[Features, list[Guest]]:
    if opening.is_there(folder / MARK):
        return _watches(folder, way)
    features, guests = _one(folder, read(folder), way)
    if way.lost is not None:
        _miss(folder, way.lost, of_processes=bool(read(folder).get("processes")))
    if not way.lost:
        return features, guests
    said = [features.unavailable.get(RECORDING, ""), *(f"{file} is damaged" for file in way.lost)]
    return replace(features, unavailable={**features.unavailable, RECORDING: ", ".join(filter(None, said))}), guests


def _miss(folder: Path, lost: dict[str, str], *, of_processes: bool = False) -> None:
    """Put down in `lost` the tables that any training has, where others of it are there; and links in their place.

    `of_processes`: run.json tells of some. Where no table is there at all then, the folder was not copied whole.
    """
    with Folder(folder) as opened:
        frames, parts = opened.frames(), opened.parts()
    whole = [parts[segment] for segment in parts.keys() - set(frames)]  # of the others the frames hold all there is
    if of_processes and not frames and not parts:
        lost.setdefault("samples", "neither it nor any other table is there")
    trained = (folder / "batches").is_dir() or (folder / "steps").is_dir()
    if frames:
        trained = any("batches" in tables or "steps" in tables for tables in whole)
    for name in TABLES:
        if (folder / name).is_symlink():
            lost.setdefault(name, "it is a link")
        elif name in EACH and trained and not (folder / name).is_dir():
            lost.setdefault(name, "it is not there")


def _watches(folder: Path, way: Way) -> tuple[Features, list[Guest]]:
    """Return what is known of a job that several watches have recorded, each into a seat of its own."""
    parts: list[WatchShare] = []
    guests: list[Guest] = []
    for seat in map(Path, seats(str(folder))):
        story = read(seat)
        features, sighted = _one(seat, story, way)
        parts.append(WatchShare(host=str(story.get("host", "")), features=features))
        guests += sighted
    if not parts:
        raise NotARun(folder, "no rank has recorded anything")
    return joined(parts), guests


def _one(folder: Path, story: About, way: Way) -> tuple[Features, list[Guest]]:
    until, beside, _ = way
    began = story.get("started")
    gatherer = Gatherer(_command(story), began if isinstance(began, int) else 0)
    end = None if until is None else gatherer.started + int(until * NS)
    guests: dict[int, Guest] = {}
    last = gatherer.started
    for readings in recording.readings(folder, way.lost):
        if end is not None and latest(readings) > end:
            break
        gatherer.take(readings)
        if beside is not None:
            beside(readings)
        guests.update({reading.process: reading for reading in readings if isinstance(reading, Guest)})
        last = max(last, latest(readings))
    ended = story.get("ended") if end is None else end
    exit_code = story.get("exit_code") if end is None else None
    features = gatherer.features(
        ended if isinstance(ended, int) and ended else last,
        exit_code=exit_code if isinstance(exit_code, int) else None,
        unavailable=_unavailable(story),
    )
    return features, list(guests.values())


def _command(story: About) -> tuple[str, ...]:
    command = story.get("command")
    return tuple(map(str, command)) if isinstance(command, list) else ()


def _unavailable(story: About) -> dict[str, str]:
    unavailable = story.get("unavailable")
    found = {k: str(v) for k, v in unavailable.items()} if isinstance(unavailable, dict) else {}
    missed = story.get("missed")
    if isinstance(missed, list) and (said := [each for each in (unread(missed), unwritten(missed)) if each]):
        found[RECORDING] = "; ".join(said)
    return found


def _price(folder: Path) -> float | None:
    try:
        price = read(folder).get("price")
    except NotARun:  # a job whose ranks still go on
        return None
    return float(price) if isinstance(price, int | float) else None


def _tuned(folder: Path, until: float | None) -> Tuned | None:
    """Return what became of its loader, as it was known when the run ended; None of the time before that was so."""
    try:
        tuned = msgspec.convert(read(folder).get("tuned"), Tuned | None)
    except (NotARun, msgspec.ValidationError):
        return None
    early = until is not None and tuned is not None and until <= (tuned.since_s or until)
    return None if early else tuned


def _known(folder: Path) -> _Known:
    """Return what recording cost and who was sighted, as it was known when the run ended; nothing is known before."""
    try:
        return opening.document(folder / FINDINGS, _Known)
    except (OSError, msgspec.DecodeError):
        return _Known()
