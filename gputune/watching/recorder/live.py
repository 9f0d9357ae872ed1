"""`live.json`: the verdict so far, of the last minute and of the whole, kept up to date while the run goes on.

Numbers are cheap and judging is not, so they are written on every beat and judged where something is new: once there
are batches enough, when the shares of the loop or its pace have changed, and when the loop is four times as old. All of
it together takes 0.3 s of CPU, and beyond that 0.05 % of a core, however long the run. A judgement that has taken more
delays the next one (by a minute at the most, unless that were dear), the next writing by half a minute at the
most, and what became of a tuning not at all. What was concluded is held against the run each time: where nothing has
changed it is as good as new, and dated so.
"""

import time
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gputune.core.finding import Finding
from gputune.core.sample import Guest, now
from gputune.core.units import NS
from gputune.features import Features
from gputune.features.waiting import WAITS, in_waits
from gputune.features.windowing import thin, window
from gputune.gathering import Gatherer
from gputune.launch.run import WatchedRun
from gputune.recording.folder import LIVE
from gputune.verdict.building import Overhead, Verdict, abstained, build
from gputune.verdict.document import Tuned
from gputune.verdict.living import LiveDocument
from gputune.watching.recorder.siblings import Siblings

WINDOW = 60.0  # s
FIRST_CPU_S = 0.3  # s of CPU to begin with: one or two judgements, so that a verdict is there after three seconds
SHARE = 0.0005  # of a core, beyond that
WRITE_EVERY_S = 0.8  # s between two writings at the least: each time that we are asked, at first
AGE_A_BEAT = 0.5  # of its age a loop has to be older before the next writing
EARLY = 0.1  # likewise, before anything was judged: the first verdict is not to be late
SOON = 0.4  # s between two writings until then
EXPECTED = 20.0  # s of the loop within which a first verdict is likely
SLOWEST = 30.0  # s between two writings at the most
OLDEST = 60.0  # s: what was concluded of a run that has changed since is no older ...
DEAREST = 0.02  # of a core: ... unless that took more since the last one, as on a machine that does other things
OLDER = 4.0  # times as old, and a loop is judged again though nothing seems new
CHANGED = 0.05  # of the loop, or of its pace: a smaller change makes no other verdict
MOMENTS_KEPT = 4  # earlier moments: with the pace above two lie in the last minute at the most


@dataclass(slots=True)
class Judged:
    """What was concluded, when (s of the run), and of what."""

    at: float
    held: float  # s of the run at which it was last held against it, and stood
    shape: Mapping[str, float]
    whole: list[Finding]
    window: list[Finding]


class LiveWriter:
    """Writes `live.json` of one run. A failure is the file's own affair: it is gone then, and the run is not."""

    def __init__(self, run: WatchedRun) -> None:
        self._folder = run.folder
        self._price = run.price
        self._siblings = Siblings(run)
        self._spent = 0.0  # s of CPU
        self._cost = {"write": 0.0, "judge": 0.0}  # s of CPU that the last one took
        self._due = 0.0  # s of the run's age
        self._moments: deque[tuple[float, Features]] = deque(maxlen=MOMENTS_KEPT)
        self._judged: Judged | None = None
        self._written = False
        self.tuned: Tuned | None = None  # what becomes of its loader
        self._told = ""  # state of the tuning, as last written
        self._progress = 0
        self._wrote = 0.0  # s of the run's age
        self._began: float | None = None  # age of the run at which the training was first seen at work

    def look(self, gatherer: Gatherer, guests: Iterable[Guest], unavailable: Mapping[str, str]) -> None:
        """Write the file anew if it is due and there is something new. Asked about once a second."""
        at = now()
        age = (at - gatherer.started) / NS
        if not self._folder or gatherer.host.still or not self._is_due(gatherer.progress, age):
            return
        self._progress, self._told, self._wrote = gatherer.progress, self._state, age
        self._began = age if self._began is None else self._began
        least, slower = (SOON, EARLY) if self._judged is None else (WRITE_EVERY_S, AGE_A_BEAT)
        self._due = age + min(SLOWEST, max(least, slower * (age - self._began)))
        began, judging = time.thread_time(), 0.0
        try:
            whole = self._siblings.together(gatherer.features(at, unavailable=unavailable))
            judging = self._write(whole, age, guests)
        except Exception:  # noqa: BLE001 - the verdict at the end says what is wrong, if it is wrong then
            self.close()
            self._folder = ""
        took = time.thread_time() - began
        self._spent += took
        self._cost["write"] = took - judging

    def expects(self, gatherer: Gatherer) -> bool:
        """Return whether the first verdict is about to come: then it is worth looking more often."""
        age = (now() - gatherer.started) / NS
        begun = self._began is not None and age - self._began < EXPECTED
        return begun and self._judged is None and bool(self._folder)

    def close(self) -> None:
        """Remove the file: what it told is in `findings.json` by now."""
        self._siblings.close()
        if self._written:
            with suppress(OSError):
                Path(self._folder, LIVE).unlink()

    @property
    def _state(self) -> str:
        """Return what has become of the tuning, "" where nothing is tuned."""
        return "" if self.tuned is None else self.tuned.state

    def _is_due(self, progress: int, age: float) -> bool:
        """Return whether there is something new to write, and room in the budget, or long none."""
        if self._written and self._state != self._told:  # a few times in a run, and somebody waits for it
            return True
        late = age >= self._wrote + SLOWEST
        new = progress != self._progress or (late and self._began is not None)  # that nothing comes is news by then
        return new and age >= self._due and (late or self._may("write", age))

    def _write(self, whole: Features, age: float, guests: Iterable[Guest]) -> float:
        """Write the file; return the s of CPU that judging took of it."""
        took = 0.0
        earlier = self._earlier(age)
        part = whole if earlier is None else window(earlier, whole)
        if not self._moments or age - self._moments[-1][0] >= WINDOW / (MOMENTS_KEPT - 1):
            self._moments.append((age, thin(whole)))
        if self._should_judge(whole, part, age):
            began = time.thread_time()
            self._judge(whole, part, age)
            self._cost["judge"] = took = time.thread_time() - began
        known = list(guests)
        judged = self._judged
        document = LiveDocument(
            updated_s=round(age, 3),
            judged_s=None if judged is None else round(judged.held, 3),
            window_s=round(part.wall, 3),
            whole=self._verdict(whole, judged.whole if judged else [], known),
            window=self._verdict(part, judged.window if judged else [], known),
        )
        self._put(msgspec.json.encode(document) + b"\n")
        return took

    def _put(self, data: bytes) -> None:
        from gputune.recording.folder import Folder  # noqa: PLC0415 - where its failure costs only itself

        with Folder(Path(self._folder)) as folder:
            folder.write(LIVE, data)
        self._written = True

    def _verdict(self, features: Features, findings: list[Finding], guests: list[Guest]) -> Verdict:
        return build(features, findings, overhead=Overhead(), guests=guests, price=self._price, tuned=self.tuned)

    def _earlier(self, age: float) -> Features | None:
        """Return the latest moment that lies a window ago, None in a run that is no older than one."""
        found = [features for at, features in self._moments if age - at >= WINDOW]
        return found[-1] if found else None

    def _should_judge(self, whole: Features, part: Features, age: float) -> bool:
        """Return whether a judgement is due; where nothing has changed since the last one, that one stands."""
        if abstained([p for p in whole.processes if p.guest == "ring"]):
            return False
        before, began = self._judged, self._began or 0.0
        if before is None:
            return self._may("judge", age)
        if differ(before.shape, shape(part)):
            late = self._due >= before.held + OLDEST
            return self._may("judge", age) or (late and self._cost["judge"] <= DEAREST * (age - before.at))
        before.held = age
        return age - began >= OLDER * (before.at - began) and self._may("judge", age)

    def _judge(self, whole: Features, part: Features, age: float) -> None:
        from gputune.verdict import judging  # noqa: PLC0415 - not in the first second of a run

        found = judging.judge(whole)
        alike = part is whole or not differ(shape(whole), shape(part))
        self._judged = Judged(age, age, shape(part), found, found if alike else judging.judge(part))

    def _may(self, what: str, age: float) -> bool:
        """Return whether the budget has room for what the last one of this kind took."""
        return self._spent + self._cost[what] <= FIRST_CPU_S + SHARE * age


def shape(run: Features) -> dict[str, float]:
    """Return what a verdict hangs on, as shares of the loop and its pace relative to one batch a second."""
    seconds = sum(p.loop for p in run.processes)
    if not seconds:
        return {}
    names = {name for p in run.processes for name in p.in_loop} | {"waiting"}
    found = {name: sum(p.in_loop.get(name, 0.0) for p in run.processes) / seconds for name in names - WAITS}
    found["waiting"] = sum(in_waits(p.in_loop, p.loop) for p in run.processes) / seconds
    found["pace"] = sum(p.steps for p in run.processes) / seconds
    found["processes"] = float(len(run.processes))  # ranks of other watches are heard of later
    return found


def differ(before: Mapping[str, float], after: Mapping[str, float]) -> bool:
    """Return whether the pace, or any share, has changed by more than `CHANGED`."""
    pace = max(before.get("pace", 0.0), 1e-9)
    if abs(after.get("pace", 0.0) / pace - 1) > CHANGED:
        return True
    names = (before.keys() | after.keys()) - {"pace"}
    return any(abs(after.get(name, 0.0) - before.get(name, 0.0)) > CHANGED for name in names)
