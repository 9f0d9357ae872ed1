"""The course of a packed run: one copy is measured, the others join if they fit, and all are watched to their end.

Phases: `alone` (the first task runs by itself until its pace and its needs are known), `trying` and `clearing` (only
where the number is to be found out: copies that are ended again), `packed`.
"""

import time
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from gputune.core.figures import number, size
from gputune.core.pace import Pace
from gputune.sharing import fitting, host
from gputune.sharing.climb import Climb, Halving
from gputune.sharing.each import Each
from gputune.sharing.fitting import Need, Probed, Room
from gputune.sharing.known import check
from gputune.sharing.logs import Logs
from gputune.sharing.member import Member
from gputune.sharing.pack import HANGS, Pack, on_cards
from gputune.sharing.placing import OneAtATime, Places
from gputune.sharing.refusals import CopyFailed, DoesNotFit, NoFlags, refusing
from gputune.sharing.space import Space
from gputune.sharing.spec import AUTO, Spec
from gputune.sharing.supervising import TaskSupervisor
from gputune.sharing.tasks import Task, tasks
from gputune.sharing.window import Eyes, Window

Phase = Literal["alone", "trying", "clearing", "packed"]
PATIENCE_S = 60.0  # s likewise, if it has torch or TensorFlow, or is loading it: from a slow disk that takes a while
UNSEEN = "no batches were seen of one alone (`--metric-regex` would read its own numbers)"
UNREAD = "`--metric-regex` met no number in what one alone wrote"


class Course:
    """Decides; the crew does. `logs_of` makes the reader of some members' logs, `tell` says a sentence."""

    def __init__(  # noqa: PLR0913, PLR0917 - all that it decides with
        self,
        spec: Spec,
        crew: TaskSupervisor,
        places: Places,
        eyes: Eyes,
        logs_of: Callable[[Sequence[Member]], Logs],
        note: Callable[[str], None],
    ) -> None:
        self.phase: Phase = "packed"
        self.alone: Pace | None = None
        self.need = Need()
        self.pack = Pack(spec, crew, eyes, note)
        self.probed: Probed | None = None  # what a copy has shown that was only to be measured
        self._spec = spec
        self._crew = crew
        self._places = places
        self._eyes = eyes
        self._logs_of = logs_of
        self._note = note
        self._at_once = 0  # on one card; 0: no limit
        self._space = Space(crew, eyes.gauge, places)
        self._window: Window | None = None
        self._climb: Climb | None = None
        self._each = Each(spec.jobs) if spec.trial_each and len(spec.jobs) > 1 and spec.trial > 0 else None
        self._copies = 1
        self._renewed = 0  # copies that are tried once those that run are gone
        self._stops = 0
        self._patience = 0.0  # s that the first one gets to show a batch, as far as it was looked at
        crew.may_start = self._may_start
        crew.seat = self._seat

    def begin(self) -> None:
        """Choose cards, refuse what is known not to fit, and say who may start. Raises GputuneError."""
        spec = self._spec
        known = any(job.memory or job.host_memory for job in spec.jobs)
        self._places.choose(needed=known)
        if any(job.count == AUTO for job in spec.jobs):
            self.phase = "alone"
            self._try(1)
            return
        everything = tasks(spec, self._places.names)
        if self._each is not None:
            self._measure_next(self._each)
            return
        check(spec, everything, lambda task: self._space.room(self._places.card_of(task)))
        self._take(everything)
        if spec.trial > 0 and len(everything) > 1 and len(spec.jobs) == 1:
            self.phase = "alone"
        self._at_once = spec.at_once

    def _take(self, found: Sequence[Task]) -> None:
        """Make these tasks the crew's."""
        cards = max(1, len(self._places.names))
        at_once = min(len(found), self._spec.at_once * cards or len(found))
        placed = self._places.placed(found, at_once, tuple(self._crew.env))
        self._crew.members = [Member(task) for task in placed]
        self._eyes.logs = self._logs_of(self._crew.members)

    # who may start

    def _may_start(self, member: Member) -> bool:
        crew = self._crew
        if self.phase == "alone":
            return member is crew.members[0]
        if self.phase == "clearing":
            return False
        here = [other for other in crew.running if other.task.card == member.task.card]
        most = min(self._at_once or len(crew.members), self.pack.most or len(crew.members))
        if self._each is not None:
            return len(here) < most and self._each.admits(member.task.job, [other.task.job for other in crew.running])
        return len(here) < most and self._has_room(member, here)

    def _has_room(self, member: Member, here: Sequence[Member]) -> bool:
        """Return whether there is memory for one more; always where nobody waits for it."""
        return not self._spec.queue or (self._has_device(member, here) and self._has_host(member))

    def _has_host(self, member: Member) -> bool:
        """Return whether the host has memory left for one more, once those that run have all that they need."""
        need, running = self._host_of(member), self._crew.running
        if need is None or not running:
            return True
        peaks = [(self._host_of(other) or 0.0, self._eyes.gauge.use(other.task.slot).host_peak) for other in running]
        return need + sum(max(0.0, whole - (peak or 0.0)) for whole, peak in peaks) <= host.memory()[1]

    def _host_of(self, member: Member) -> float | None:
        if member.task.job.host_memory is not None:
            return float(member.task.job.host_memory)
        return self.need.host if len(self._spec.jobs) == 1 else None

    def _has_device(self, member: Member, here: Sequence[Member]) -> bool:
        need = self._memory_of(member)
        if not here or need is None:
            return True
        free = self._space.room(self._places.card_of(member.task)).device_free
        return free is None or need + sum(self._memory_of(other) or 0.0 for other in here) <= free

    def _memory_of(self, member: Member) -> float | None:
        if member.task.job.memory is not None:
            return float(member.task.job.memory)
        own = self._eyes.gauge.use(member.task.slot).device_peak
        return self.need.device if len(self._spec.jobs) == 1 else own

    # beat by beat

    def tick(self) -> None:
        """Decide what is to be decided. Raises GputuneError where the run is refused."""
        if self._places.card is None:
            self._places.meet()
        if self._crew.stops != self._stops:
            self._stops, self._window = self._crew.stops, None
            self.pack.keep()
        self.pack.watch()
        if not self._crew.running:
            self._places.remember()
        if self._crew.closing:
            self.phase = "packed"
        if self.phase == "alone":
            self._measure()
        elif self.phase == "trying":
            self._trying()
        elif self.phase == "clearing":
            self._cleared()
        else:
            self._places.open(len(self._crew.running))
            self.pack.tick(self.alone, self._places.mps)

    def ended(self, member: Member) -> None:
        """Learn that a process of a task has ended. Raises GputuneError where that says that none will do better."""
        deaf = member.code and member.task.job.index_args and not self._eyes.progress.made(member.task.slot)
        said = refusing(member, self._spec.index_flag, self._spec.num_flag) if deaf else ""
        if said:
            raise NoFlags(member, said)
        hung = member.why == HANGS
        if member.trial and member.code and (hung or not member.kill_at) and not self._crew.closing:
            raise CopyFailed(member)

    # one alone

    def _measure(self) -> None:
        first = self._crew.members[0]
        if first.state == "waiting":  # to start, or to start again
            self._window, self._patience = None, 0.0
            return
        if self._window is None:
            self._window = Window([first], self._eyes)
        self._window.look()
        if first.state == "ended":
            self._measured(first, self._window if self._window.kept is not None else None)
        elif self._window.enough(self._spec.trial):
            if self._is_seen(first, self._window.seconds - self._spec.trial):
                self._measured(first, self._window)
        elif self._is_blind(first):
            self._note(f"{UNREAD if self._eyes.logs.has_metric else UNSEEN}, so its pace is not known")
            self._measured(first, None)

    def _is_seen(self, first: Member, over: float) -> bool:
        """Return whether the driver has told of a task, or has had `over` s too long for it."""
        if not self._places.told:
            return over > 20.0  # s that the driver gets beyond the trial: waking up cards takes it seconds
        on_card = self._eyes.gauge.fresh(first).device_peak is not None
        # 4.0 s that it gets to list a process: it is asked seldom, and a task may use no card at all
        return self._places.card is None or on_card or over > 4.0

    def _is_blind(self, first: Member) -> bool:
        """Return whether nothing more is to be expected of a task that runs."""
        lived = time.monotonic() - first.started
        if lived > self._patience:
            self._patience = self._outlook(first)
        return lived > self._patience

    def _outlook(self, first: Member) -> float:
        """Return after how many s a task without a batch is not waited for any more, by what it is now."""
        pids, trial = self._eyes.gauge.meet(first).pids, self._spec.trial
        has_ring = self._eyes.logs.has_metric or self._eyes.progress.has_ring(first.task.slot)
        if has_ring or host.is_loading(pids):
            return max(PATIENCE_S, 4 * trial)
        # 10.0 s after which a task without any batch is not waited for
        # 30.0 s if it is a Python: it may not have come to its imports
        return max(30.0 if host.is_python(pids) else 10.0, 2 * trial)

    def _measured(self, first: Member, window: Window | None) -> None:
        """Go on from what the first task has shown. Raises DoesNotFit."""
        gauge, lives = self._eyes.gauge, first.state == "running"
        use, card = gauge.fresh(first) if lives else gauge.use(first.task.slot), self._places.card_of(first.task)
        weight = gauge.weigh(first) if lives else float(first.peak)
        cores = window.cores() if window is not None and lives else None
        if cores is not None:  # what it would use if nobody else had a CPU of it
            cores += host.queued(use.pids) / max(1e-3, time.monotonic() - first.started)
        else:
            spent = gauge.cpu_time(first) if lives else first.cpu
            cores = spent / max(1e-3, (first.ended or time.monotonic()) - first.started)
        self.alone = window.together() if window is not None else None
        job = first.task.job
        self.need = Need(
            device=job.memory or (self._space.grown(card, use.device_peak) if lives else use.device_peak),
            host=job.host_memory or weight,
            cores=cores,
            busy=window.busy() if window is not None else card.mean_busy() if card is not None else None,
            given=job.memory is not None,
        )
        self._window = None
        host_own = weight if lives else 0.0
        if self._each is not None:
            self._note(self._each.keep(self.need))
            self._clear(0)
            return
        if self._spec.probe:
            self._probed(self._space.room(card, host_own=host_own))
        elif first.trial:
            self._predict(self._space.room(card, host_own=host_own))
        else:
            self._admit(host_own)

    def _probed(self, room: Room) -> None:
        """Keep what the copy has shown, and end it: that was all that was asked for."""
        pace = self.alone
        self.probed = Probed(
            need=self.need, room=room, rate=pace.rate if pace else None, unit=pace.unit if pace else ""
        )
        self._crew.close("the trial is over")
        self.phase = "packed"

    def _admit(self, host_own: float) -> None:
        """Let the others join the first, unless they do not fit. Raises DoesNotFit and OneAtATime."""
        self.phase = "packed"
        at_once = 0
        for here in on_cards(self._crew.members).values():
            room = self._space.room(self._places.card_of(here[0].task), host_own=host_own)
            procs, most = min(self._at_once or len(here), len(here)), fitting.fits(self.need, room)
            if self._spec.queue:
                self._at_once = max(1, min(procs, most))
                if self._at_once < len(here):
                    self._note(f"{self._at_once} of {len(here)} run at once: {self._words(room)}")
            elif says := fitting.refusal(procs, self.need, room):
                raise DoesNotFit(says, most)
            at_once += min(procs, self._at_once or procs)
        self._places.open(at_once, sure=self.need.device is not None)
        self._places.divide(at_once, tuple(self._crew.env))
        for member in self._crew.waiting:
            member.task = self._places.threaded(member.task)

    def _seat(self, member: Member) -> None:
        """Give a task that is about to start CPUs of its own."""
        member.task = self._places.seated(member.task, [other.task.cpus for other in self._crew.running])

    def _words(self, room: Room) -> str:
        """Return what one takes of what there is."""
        need = self.need
        parts = []
        if need.device and room.device_free is not None:
            parts.append(f"takes {size(need.device)} of the {size(room.device_free)} that are free on {room.name}")
        if need.busy is not None:
            parts.append(f"keeps it {100 * need.busy:.0f}% busy")
        if need.host:
            parts.append(f"takes {size(need.host)} of the host's memory")
        if need.cores is not None:
            parts.append(f"uses {need.cores:.1f} of {room.cores:g} CPUs")
        return f"one {', '.join(parts)}"

    # a number to be found out

    def _try(self, copies: int) -> None:
        """Have so many trial copies run, of which some may do so already."""
        job = msgspec.structs.replace(self._spec.jobs[0], name="trial", count=copies)
        found = tasks(msgspec.structs.replace(self._spec, jobs=(job,)), self._places.names[:1])
        members = self._crew.members
        for task in self._places.placed(found[len(members) :], copies, tuple(self._crew.env)):
            member = Member(task)
            member.trial = True
            members.append(member)
        self._eyes.logs.meet(members)
        for place, member in enumerate(members):
            if place >= copies and not member.paused:
                member.pause()
            elif place < copies and member.paused:
                member.resume()
        self._window = None

    def _predict(self, room: Room) -> None:
        """Predict how many do most together, and try that many where their pace can be seen."""
        copies, why = fitting.best(self.need, room)
        self._note(f"{self._words(room)}: {copies} at once should do most{f' ({why})' if why else ''}")
        try:
            self._places.open(copies, sure=self.need.device is not None)
        except OneAtATime as one:
            self._note(str(one.args[0]))
            copies = 1
        self._copies = copies
        most = min(fitting.MOST_PROCESSES, fitting.fits(self.need, room))
        split = min(most, int(room.cores)) if self._places.splits(tuple(self._crew.env)) else 0
        if self.alone is not None and 1 < split >= copies:
            self._climb = Halving(self.alone.rate, most)
            self._renew(split)
        elif copies == 1 or self.alone is None:
            self._choose(self._found())
        else:
            self._climb = Climb(self.alone.rate, most)
            self.phase = "trying"
            self._try(copies)

    def _renew(self, copies: int) -> None:
        """End the copies that run: so many others are tried, each with its part of the threads."""
        self._note(f"one has {int(host.cores())} CPUs for its threads: {copies} with fewer each are tried")
        self._clear(copies)

    def _trying(self) -> None:
        members = self._crew.members
        active = [member for member in members if member.state == "running" and not member.paused]
        climb = self._climb
        if climb is None or any(member.state == "ended" for member in members):  # too short to be measured
            self._choose(self._found())
            return
        if any(member.state == "waiting" for member in members):
            return
        if self._window is None:
            self._window = Window(active, self._eyes)
        self._window.look()
        late = time.monotonic() - max(member.resumed for member in active) > max(PATIENCE_S, 4 * self._spec.trial)
        pace = self._window.together() if self._window.enough(self._spec.trial) else None
        if pace is not None:
            self._note(f"{len(active)} at once do {number(pace.rate)} {pace.unit}")
            following = climb.following(len(active), pace.rate)
            if following is not None and isinstance(climb, Halving):
                self._renew(following)
                return
            if following is not None:
                self._try(following)
                return
        if pace is not None or late:
            self._choose(self._found())

    def _measure_next(self, each: Each) -> None:
        """Start one process of the next job, to be measured alone; once all were, let all wait for what they need."""
        each.room = self._space.room(self._places.card)
        job = each.following
        if job is not None:
            trial = msgspec.structs.replace(job, name=f"{job.name}-trial", count=1)
            spec = msgspec.structs.replace(self._spec, jobs=(trial,), trial_each=False)
            self._take(tasks(spec, self._places.names[:1]))
            self._crew.members[0].trial = True
            self.phase = "alone"
            return
        self.need, self.alone, self._at_once = Need(), None, self._spec.at_once
        self._take(each.ordered(tasks(self._spec, self._places.names)))
        self.phase = "packed"

    def _found(self) -> int:
        """Return the best number of those that were measured; the predicted one where none was.

        Without a device nobody was seen to leave anything idle but CPUs: then it is no more than there are of these.
        """
        if self._climb is not None and self._climb.tried:
            return self._climb.best()[0]
        return self._copies if self.need.busy is not None else min(self._copies, max(1, int(host.cores())))

    def _choose(self, copies: int) -> None:
        """End the trial copies; so many are to run."""
        self._note(f"{copies} {'is' if copies == 1 else 'are'} chosen{self._of_splitting(copies)}")
        self._copies = copies
        self._clear(0)

    def _of_splitting(self, copies: int) -> str:
        """Return what it brought that each has fewer threads, on the same CPUs; nothing where that was not tried."""
        if not isinstance(self._climb, Halving) or self.alone is None or copies == 1:
            return ""
        cores, gain = int(host.cores()), self._climb.best()[1] / self.alone.rate
        return f": {cores // copies} of {cores} threads each, which alone brings x{gain:.2f}"

    def _clear(self, copies: int) -> None:
        """End all copies; so many are to be tried then, or none."""
        self._renewed, self.phase = copies, "clearing"
        for member in self._crew.members:
            member.end("the trial is over", self._spec.grace)

    def _cleared(self) -> None:
        """Start the real ones, once the trial copies are gone."""
        if self._crew.running:
            return
        self._eyes.progress.forget()
        self._eyes.gauge.forget()
        self._window = None
        if self._each is not None and not self._crew.closing:
            self._measure_next(self._each)
            return
        if self._renewed and not self._crew.closing:
            self._crew.members, self.phase = [], "trying"
            self._eyes.logs = self._logs_of([])
            self._try(self._renewed)
            return
        self._take(tasks(self._spec, self._places.names, count=self._copies))
        self.phase = "packed"
