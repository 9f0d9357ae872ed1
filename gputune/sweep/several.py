"""Several sweeps: other scripts, or other nodes of a cluster. Here one after the other, in a cluster side by side.

Each is a sweep of its own, in a folder of its own below the one of all; one that fails leaves the others alone.
"""

import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec

from gputune.core.errors import BadUsage, GputuneError
from gputune.core.hygiene import clean
from gputune.experiment.script import Script
from gputune.launch import folders
from gputune.report.words import aligned, number, times
from gputune.sweep import drafts
from gputune.sweep.result import FILE as DOCUMENT
from gputune.sweep.result import Outcomes, Sweep, document
from gputune.sweep.settings import NAMES
from gputune.sweep.starter import Starter
from gputune.sweep.sweeping import SweepOptions, despite, former, sweep
from gputune.sweep.table import FILE, Named, table
from gputune.verdict.document import to_json

SIDE_BY_SIDE = 64  # side by side: each has a thread that waits
UNMEASURED = "it was ended before anything was measured"
ALL = "sweeps"  # what the folder of several is called after


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepJob:
    """One sweep of several. `node`: of a cluster, "" for this machine."""

    script: Script
    node: str = ""
    starter: Callable[..., Starter] = Starter

    @property
    def name(self) -> str:
        """Return what people call it."""
        return f"{self.script.name} on {clean(self.node, 64)}" if self.node else self.script.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What came of one: outcomes, or an error."""

    job: SweepJob
    outcomes: Outcomes | None = None
    error: GputuneError | None = None

    @property
    def sweep(self) -> Sweep | None:
        """Return its document, None where it has none."""
        return msgspec.structs.replace(document(self.outcomes), node=self.job.node) if self.outcomes else None

    @property
    def failed(self) -> bool:
        """Return whether nothing is known of other settings than the script's own."""
        return self.error is not None or (self.outcomes is not None and not self.outcomes.measured)


class SweepRow(msgspec.Struct, frozen=True, kw_only=True):
    """One sweep of several: its document, null where it failed for the reason in `error`."""

    script: str
    node: str
    error: str
    sweep: Sweep | None


class Sweeps(msgspec.Struct, frozen=True, kw_only=True):
    """The document of several."""

    schema_version: int = 1
    sweeps: list[SweepRow]
    stopped: bool
    folder: str


@dataclass(slots=True, kw_only=True)
class Several:
    """Sweeps that are to be done. `leave` is called where somebody presses Ctrl-C: those that run are to end."""

    jobs: Sequence[SweepJob]
    wishes: SweepOptions  # of all of them; script, starter and places are each one's own
    side_by_side: bool = False
    leave: Callable[[], None] = lambda: None
    stopped: bool = False

    def run(self) -> list[Done]:
        """Do them all, and return what came of each. One alone raises its error, and has its folder to itself."""
        if len(self.jobs) == 1 and not self.side_by_side:
            try:
                found = self._sweep(self.jobs[0], None)
            except KeyboardInterrupt:
                self.wishes.tell(f"{UNMEASURED}: nothing was written")
                raise
            self.stopped = found.stopped
            return [Done(job=self.jobs[0], outcomes=found)]
        alone = len(self.jobs) == 1
        folder = None if alone else self._whole()
        if not self.side_by_side:
            return [self._done(job, folder) for job in self.jobs if not self.stopped]
        done = self._threads(folder)
        if alone and done[0].error is not None and not self.stopped:
            raise done[0].error
        return done

    def _whole(self) -> Path | None:
        """Return the folder below which each that begins has its own: where the others lie that are gone on with.

        None where all are gone on with, or none can be: each says so then. Raises BadUsage where it cannot be made.
        """
        out = self.wishes.out
        if not self.wishes.resume:
            return _folder(out)
        places = [former(self._wishes(job)) for job in self.jobs]
        known = next(filter(None, places), None)
        if known is None or all(places):
            return None
        folder = Path(out) if out and Path(out).is_dir() else known.parent
        return _folder(None) if folder.resolve() == Path(folders.RUNS).resolve() else folder

    def _threads(self, folder: Path | None) -> list[Done]:
        pool = ThreadPoolExecutor(min(SIDE_BY_SIDE, len(self.jobs)), thread_name_prefix="gputune-sweep")
        waiting: list[Future[Done]] = [pool.submit(self._done, job, folder) for job in self.jobs]
        try:
            while wait_for(waiting, timeout=0.5).not_done:  # s between looks whether somebody has pressed Ctrl-C
                pass
        except KeyboardInterrupt:
            self.stopped = True
            self.leave()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return [one.result() for one in waiting if not one.cancelled()]

    def _done(self, job: SweepJob, folder: Path | None) -> Done:
        try:
            found = self._sweep(job, folder)
        except GputuneError as error:
            return Done(job=job, error=error)
        except KeyboardInterrupt:
            self.stopped = True
            return Done(job=job, error=GputuneError(UNMEASURED, hint="sweep again"))
        self.stopped = self.stopped or found.stopped
        return Done(job=job, outcomes=found)

    def _wishes(self, job: SweepJob) -> SweepOptions:
        """Return what is wished of one."""
        wishes = replace(self.wishes, script=job.script, starter=job.starter, place=job.node)
        if len(self.jobs) == 1:
            return wishes
        tell = self.wishes.tell
        return replace(wishes, inside=self.wishes.write is not None, tell=lambda text: tell(f"{job.name}: {text}"))

    def _sweep(self, job: SweepJob, folder: Path | None) -> Outcomes:
        wishes = self._wishes(job)
        if folder is not None and not (wishes.resume and former(wishes)):  # one that had not begun begins now
            wishes = replace(wishes, resume=False, out=str(_own_folder(folder, job)))
        found = sweep(wishes)
        found.stopped = despite(partial(keep_table, found, job))[1] or found.stopped
        return found


def keep_table(found: Outcomes, job: SweepJob) -> None:
    """Keep the trials as CSV and as JSON in the sweep's folder; that it cannot be written is said with the rest."""
    try:
        named = Named(script=job.script.name, node=job.node, sweep=document(found))
        drafts.write(Path(found.folder, FILE), table([named]), ours=True)
        drafts.write(Path(found.folder, DOCUMENT), to_json(named.sweep).decode(), ours=True)
    except OSError as error:
        found.says.append(f"`{FILE}` could not be written: {error.strerror}")


def _folder(out: str | None) -> Path:
    """Make the folder of all. Raises BadUsage where it cannot be."""
    try:
        return Path(folders.chosen(out) if out else folders.fresh((ALL,)))
    except OSError as error:
        raise BadUsage(
            f"nothing can be kept: `{clean(out or folders.RUNS)}` cannot be written ({error.strerror or error})",
            hint="name a folder that can be: `--out DIR`",
        ) from None


def _own_folder(folder: Path, job: SweepJob) -> Path:
    """Return the folder of one: a new one below that of all."""
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", job.name.replace(".py", ""))[:60].strip("-.") or "sweep"
    names = (stem if n == 1 else f"{stem}-{n}" for n in range(1, 2 * SIDE_BY_SIDE))
    for name in names:
        try:
            (folder / name).mkdir(mode=0o700)
        except FileExistsError:
            continue
        return folder / name
    raise BadUsage(f"`{folder}` is full", hint="name another folder: `--out DIR`")


def as_csv(done: Sequence[Done]) -> str:
    """Return the trials of all of them as CSV."""
    swept = ((one.job, one.sweep) for one in done)
    return table(Named(script=job.script.name, node=job.node, sweep=sweep) for job, sweep in swept if sweep is not None)


def as_json(several: Several, done: Sequence[Done]) -> bytes:
    """Return the document of several as indented JSON; that of one alone as it always is."""
    if len(several.jobs) == 1 and done[0].sweep is not None:
        return to_json(done[0].sweep)
    rows = [
        SweepRow(
            script=one.job.script.name,
            node=one.job.node,
            error=str(one.error.args[0]) if one.error is not None else "",
            sweep=one.sweep,
        )
        for one in done
    ]
    folder = next((str(Path(one.outcomes.folder).parent) for one in done if one.outcomes is not None), "")
    return to_json(Sweeps(sweeps=rows, stopped=several.stopped, folder=folder))


HEAD = ("script", "node", "best", "samples/s", "")


def summary(done: Sequence[Done]) -> str:
    """Return several in a table: of each the best settings, and what they buy."""
    rows = [HEAD, *(_row(one) for one in done)]
    if not any(row[1] for row in rows[1:]):
        rows = [(*row[:1], *row[2:]) for row in rows]
    return "\n".join(aligned(rows))


def _row(one: Done) -> tuple[str, ...]:
    sweep = one.sweep
    if sweep is None:
        why = str(one.error.args[0]) if one.error is not None else ""
        return (one.job.script.name, one.job.node, "–", "–", clean(why, 100))
    own, best = sweep.baseline, sweep.best
    same = best == own
    differ = (name for name in NAMES if getattr(best, name) not in {None, getattr(own, name)})
    changed = [f"{name}={getattr(best, name)}" for name in differ]
    kept = "as it is" if sweep.measured else "not measured"
    gain = kept if same else times(sweep.speedup) if sweep.speedup.low > 1 else "as fast, and cheaper"
    return (one.job.script.name, one.job.node, ", ".join(changed) or "its own", number(best.samples_per_s), gain)
