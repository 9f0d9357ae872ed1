"""One life of the recorder: readings go to the gatherer and into the recording, in the end to the outcome."""

import gc
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from gputune.core.figures import moment
from gputune.core.hygiene import mask
from gputune.core.sample import Guest, Json, Reading, Target, latest, now
from gputune.core.units import NS
from gputune.gathering import Gatherer
from gputune.launch import folders
from gputune.launch.descriptors import say
from gputune.launch.link import Ended, Started
from gputune.launch.run import WatchedRun, restored
from gputune.launch.steering import FILE
from gputune.verdict.building import Verdict
from gputune.verdict.document import RECORDING, Tuned
from gputune.watching.recorder.end import End
from gputune.watching.recorder.gate import Gate
from gputune.watching.recorder.live import LiveWriter
from gputune.watching.recorder.outcome import RunOutcome
from gputune.watching.recorder.recording import RunRecording

if TYPE_CHECKING:
    from gputune.sampler.ticker import Ticker
    from gputune.tuning import Tuning

GATHER = int(0.9 * NS)  # ns between handing readings to the gatherer: together they cost it half, and it is asked last
SOON = int(0.4 * NS)  # the same while a first verdict is due
INNER = "inner"  # a file among the rings, as `gputune/inside/around.py` leaves it
PREPARE = 2 * NS  # ns after the start: then there is time to load what the end of the run will need


class Life:
    """Records from the start of the command (or from the death of an earlier life) to the command's end."""

    def __init__(self, run: WatchedRun, started: Started, end: End, *, resumed: bool) -> None:
        self._run = run
        self._started = started
        self._end = end
        self._troubles = list(run.troubles)
        self._unavailable: dict[str, str] = {}
        command = mask(run.command)
        self._gatherer = Gatherer(command, started.t)
        self._guests: dict[int, Guest] = {}
        self._gathering = self._following = True
        self._held: list[Reading] = []
        self._gathered = now()
        self._prepared = False
        self._target: Target | None = None
        self._gate = Gate(run, end, self._trainers)
        self._living = LiveWriter(run)
        self._tuning = self._tuned(resumed=resumed)
        self._kept = RunRecording(run, command, started, resumed=resumed)
        heard = started.t
        for readings in self._kept.earlier():
            self._gather(readings)
            heard = max(heard, latest(readings))
        if resumed:
            self._kept.resumed(heard)
        else:
            folders.sweep()

    def live(self) -> None:
        """Record until the command has ended, then say what was found."""
        own_cpu = None
        # 0.05 s: a command that ends before has nothing to measure; recording later loses nothing, rings keep it
        if not self._end.wait(0.05) or self._has_guests():
            own_cpu = self._measure()
        self._gather(self._held)
        ended = self._end.result()
        outcome = RunOutcome(self._own(), ended, alone=self._end.alone)
        outcome.began = self._began
        if self._tuning is not None:
            outcome.tuned = self._tuning_ended(self._tuning)
            outcome.since, outcome.before = self._tuning.since, self._tuning.before
        if unread := self._kept.unread:
            self._unavailable[RECORDING] = unread
        verdict = outcome.judge(self._gatherer, self._unavailable, own_cpu, self._guests.values())
        self._kept.about(exit_code=outcome.exit_code, ended=ended.t, unavailable=dict(self._unavailable))
        self._kept.check()
        self._kept.make_room()
        outcome.keep(verdict, broken=bool(self._kept.trouble))
        outcome.recorded = self._kept.there
        self._end.status = self._gate.status(outcome.features, outcome.exit_code)
        if self._run.job:
            outcome, verdict = self._together(outcome, verdict)
        before = self._kept.trouble
        inner = self._inner()
        outcome.speak(
            verdict, [*self._gate.troubles, *self._troubles, *outcome.troubles, inner, self._bereft(ended), before]
        )
        self._end.spoken()
        self._living.close()
        self._kept.close()
        if self._kept.trouble != before:
            outcome.add(self._kept.trouble)
        if verdict is not None and outcome.paged:
            outcome.write_page()
        if verdict is not None and outcome.exported:
            outcome.start_export()

    def _inner(self) -> str:
        """Return what is to be said of a watch inside of this one: it gave way."""
        if not (self._run.rings and Path(self._run.rings, INNER).exists()):
            return ""
        return "a `gputune.watch` or a callback of it in the script recorded nothing: this watch around it does"

    @property
    def _began(self) -> str:
        return moment(time.time_ns() - now() + self._started.t)

    def _bereft(self, ended: Ended) -> str:
        """Return what is to be said of a launcher of several processes that has not told its end."""
        if not (self._run.family and self._run.folder):
            return ""
        from gputune.watching.recorder import lost_launcher  # noqa: PLC0415 - most runs have no launcher

        return lost_launcher.told(Path(self._run.folder), ended)

    def _own(self) -> WatchedRun:
        """Return what this watch keeps for itself: of a job the lowest rank alone writes what was asked for."""
        if not self._run.job:
            return self._run
        own = restored(self._run.plain())
        own.json = None
        return own

    def _together(self, own: RunOutcome, verdict: Verdict | None) -> tuple[RunOutcome, Verdict | None]:
        """Return who speaks for the job, and what; nothing in words where another watch does."""
        from gputune.watching.recorder.job_end import JobWatches  # noqa: PLC0415 - most runs have one watch

        watches = JobWatches(self._run)
        joint = RunOutcome(self._run.whole(), self._end.result(), alone=self._end.alone)
        joint.began = self._began
        said = None
        try:
            if own.features is not None and verdict is not None:
                watches.leave(own.features)
                if watches.speaks:
                    said = joint.decide(watches.gathered(self._end), verdict.overhead, self._guests.values())
                    watches.close()
                    joint.keep(said)
        except Exception as error:  # noqa: BLE001 - each rank's own recording and verdict are there
            watches.troubles.append(f"the job's ranks could not be joined ({type(error).__name__}: {error})")
        joint.troubles = [*own.troubles, *joint.troubles, *watches.troubles]
        return joint, said

    def _measure(self) -> float | None:
        """Tick until the command has ended, and once more; return our own cost in cores, None where nothing ticked."""
        ticker = None
        try:
            ticker = self._ticker()
            ticker.run(self._end, wakeup=self._end.fileno())
            ticker.tick(everything=True)
        except Exception as error:  # noqa: BLE001 - what was read by then can still be judged
            self._troubles.append(f"the measuring stopped early ({type(error).__name__}: {error})")
            self._end.wait()
        if ticker is None:
            return None
        own_cpu = ticker.own_cpu
        self._unavailable = {**ticker.unavailable, **ticker.failed}
        ticker.close()
        return own_cpu

    @property
    def _outside(self) -> bool:
        """Return whether it is only looked at: it ran before us, and nobody in it writes for us."""
        return bool(self._run.pid) and not self._run.rings

    def _ticker(self) -> "Ticker":
        from gputune.core import plugins  # noqa: PLC0415 - a command that ends at once needs none of these
        from gputune.host.tree import Tree  # noqa: PLC0415 - as above
        from gputune.sampler.ticker import ROOM, Ticker  # noqa: PLC0415 - as above

        pid = self._started.pid
        tree, rings = Tree(pid), Path(self._run.rings or os.devnull)
        self._target = target = Target(pid, tree.pids, rings=rings, hz=self._run.hz, heard=not self._outside)
        out = {"stacks"} if not self._run.stacks else {"loader"} if self._outside else set[str]()
        probes = [name for name in plugins.names(ROOM) if name not in out]
        return Ticker(target, hz=self._run.hz, sink=self._take, tree=tree, probes=probes)

    def _take(self, readings: list[Reading]) -> None:
        self._kept.take(readings)
        if self._tuning is not None:
            self._tuning.take(readings)
        self._held += readings
        at = now()
        since = at - self._gathered
        if since < SOON or (since < GATHER and not self._living.expects(self._gatherer)):
            return
        self._gathered = at
        held, self._held = self._held, []
        self._gather(held)
        self._follow()
        if not self._prepared and at - self._started.t > PREPARE:
            self._prepared = True
            prepare(quiet=self._run.quiet, family=self._run.family)
            gc.freeze()  # what is there by now stays: it need not be looked through for garbage again and again

    def _follow(self) -> None:
        """Hold the run against its gates, and tell how it goes."""
        if not (self._gathering and self._following):
            return
        try:
            self._gate.look(self._gatherer)
            if self._tuning is not None:
                self._tuning.look(self._gatherer, self._unavailable)
                self._living.tuned = self._tuning.document
            self._living.look(self._gatherer, self._guests.values(), self._unavailable)
        except Exception as error:  # noqa: BLE001 - the recording and the verdict at the end need neither
            self._following = False
            self._troubles.append(f"the run was not followed ({type(error).__name__}: {error})")

    def _tuned(self, *, resumed: bool) -> "Tuning | None":
        """Begin to tune its loader where that was asked for."""
        if not self._run.tune:
            return None
        try:
            from gputune.tuning import Tuning  # noqa: PLC0415 - only where something is tuned

            return Tuning(self._run.rings, self._run.tune, self._say, resumed=resumed)
        except Exception as error:  # noqa: BLE001 - it is recorded all the same
            self._troubles.append(f"its loader was not tuned ({type(error).__name__}: {error})")
            return None

    def _tuning_ended(self, tuning: "Tuning") -> Tuned:
        """Return what has become of the tuning."""
        tuning.end()
        document = tuning.document
        self._kept.about(tuned=cast("Json", msgspec.to_builtins(document)))
        if tuning.trouble:
            self._troubles.append(tuning.trouble)
        return document

    def _say(self, text: str) -> None:
        """Say something while the command runs: what it must be told before, and nothing else."""
        if not self._end.alone:
            apart = "\n" if os.isatty(2) else ""  # a progress bar may stand in the line
            say(f"{apart}gputune: {text}\n")

    def _gather(self, readings: list[Reading]) -> None:
        for reading in readings:
            if isinstance(reading, Guest):
                self._guests[reading.process] = reading
        if self._gathering:
            try:
                self._gatherer.take(readings)
            except Exception as error:  # noqa: BLE001 - the recording goes on, and can be judged by a mended gputune
                self._gathering = False
                self._troubles.append(f"the run cannot be judged ({type(error).__name__}: {error})")

    def _trainers(self) -> list[int]:
        """Return the pids that train, as last seen."""
        return [pid for pid, role in self._target.pids().items() if role == "main"] if self._target else []

    def _has_guests(self) -> bool:
        try:
            return bool(self._run.rings) and any(file.name != FILE for file in Path(self._run.rings).iterdir())
        except OSError:
            return False


def prepare(*, quiet: bool, family: bool = False) -> None:
    """Import now what judging and printing need, so that the verdict comes at once when the command ends.

    Of a `family` also what its recording is finished with, 18 MB: several trainings at once have a large machine.
    """
    from gputune.core import plugins  # noqa: PLC0415 - as above

    try:
        for name in plugins.names("gputune.advisors"):
            plugins.load("gputune.advisors", name)
        if not quiet:
            plugins.load("gputune.report", "terminal")
        if family:
            from gputune.recording.lean import keeping  # noqa: PLC0415 - as above

            keeping()
    except Exception:  # noqa: BLE001 - it will be met again, and named, where it is needed
        return
