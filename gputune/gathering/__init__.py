"""Readings in, features out: what is known of a run, kept up to date while it goes on, in bounded memory.

The same gatherer serves the recorder (live) and `gputune report` (from a recording), so that both judge alike.
It knows what records mean; it judges nothing.
"""

import signal
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gputune.core.errors import BY_SIGNAL
from gputune.core.events import DelayCode, Event, Kind
from gputune.core.sample import Guest, Json, Note, Open, Reading, Sample, Stack
from gputune.core.units import NS
from gputune.features import Features, Process, Raised
from gputune.gathering.gates import WaitTotals
from gputune.gathering.host import HostMeans
from gputune.gathering.network import network
from gputune.gathering.process import TrainingProcess
from gputune.gathering.stacks import Stacks
from gputune.gathering.stops import Stops
from gputune.gathering.storage import storage

LOOPING = frozenset({int(Kind.BATCH), int(Kind.STEP)})  # made once: it is asked for every record
MEMBER, ITERATOR, BACKWARD = int(Kind.MEMBER), int(Kind.ITERATOR), int(Kind.BACKWARD)  # likewise
STOPPING = frozenset({"stopped", "continued"})
DELAY = int(Kind.DELAY)
MADE = frozenset({int(Kind.FETCH), int(Kind.READS), int(Kind.LOCKED), int(Kind.DELAY)})


@dataclass(slots=True)
class _Workers:
    """Which training process and iterator each worker pid belongs to."""

    owner: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # pid to (process, iterator, its number)
    waiting: list[Event] = field(default_factory=list)


def is_by_signal(exit_code: int | None) -> bool:
    """Return whether a status is a shell's for a death by signal. A Python that nobody catches Ctrl-C in dies of it."""
    return exit_code is not None and BY_SIGNAL < exit_code < BY_SIGNAL + signal.NSIG


def _at_once(trainings: Sequence[TrainingProcess]) -> int:
    """Return how many training processes lived at the same time, at the most: ranks, not runs one after the other."""
    lives = [(t.guest.started, t.guest.ended) for t in trainings]
    return max((sum(s <= start and (not e or e > start) for s, e in lives) for start, _ in lives), default=1)


class Gatherer:
    """Takes every reading of a run and can tell its features at any moment.

    `started` is the command's start and `command` its arguments (secrets masked by the caller).
    """

    def __init__(self, command: tuple[str, ...], started: int) -> None:
        self.command = command
        self.started = started
        self.host = HostMeans()
        self.stacks = Stacks()
        self._guests: dict[int, Guest] = {}
        self._trainings: dict[int, TrainingProcess] = {}
        self._early: dict[int, list[Note]] = {}
        self._raised: dict[int, Mapping[str, Json]] = {}
        self._workers = _Workers()
        self._seen = dict[int, deque[Stack]]()  # by pid: stacks of which it is not known whether the loop went on
        self._lost = self._lost_before = 0  # by this recorder so far, and by those before it
        self._stops: dict[int, Stops] = {}  # by pid: a process may be stopped before it trains

    def take(self, readings: Iterable[Reading]) -> None:
        """Take the readings of one tick, in the order in which the probes gave them."""
        for reading in readings:
            if isinstance(reading, Event):
                self._event(reading)
            elif isinstance(reading, Sample):
                self._sample(reading)
            elif isinstance(reading, Guest):
                self._guest(reading)
            elif isinstance(reading, Note):
                self._note(reading)
            elif isinstance(reading, Stack):
                self._stack(reading)
            elif isinstance(reading, Open) and reading.process in self._trainings:
                self._trainings[reading.process].open = reading

    def _sample(self, sample: Sample) -> None:
        if sample.metric.name == "loader.lost":
            self._count_lost(int(sample.value))
        self.host.take(sample)

    def _count_lost(self, count: int) -> None:
        """Take how many records a recorder has lost; one that was started again counts anew."""
        if count < self._lost:
            self._lost_before += self._lost
        self._lost = count

    def _guest(self, guest: Guest) -> None:
        self._guests[guest.process] = guest
        training = self._trainings.get(guest.process)
        if training is not None:
            training.guest = guest

    def _note(self, note: Note) -> None:
        if note.fields.get("n") in STOPPING:
            self._stop(note.fields)
        elif note.fields.get("n") == "cells":
            cells = note.fields.get("of")
            self.stacks.learn(cells if isinstance(cells, dict) else {})
        elif note.process < 0:
            self.host.note(note.fields)
        elif note.fields.get("n") == "raised":  # before it has trained, too
            self._raised[note.process] = note.fields
        elif note.process in self._trainings and self._guests[note.process].role != "worker":
            self._trainings[note.process].note(note.fields)
        else:
            self._early.setdefault(note.process, []).append(note)

    def _stop(self, fields: Mapping[str, Json]) -> None:
        """Take that a process stands still, or goes on; what is read of the machine meanwhile is not of the loop."""
        pid = int(str(fields["pid"]))
        self._stops.setdefault(pid, Stops()).take(fields)
        self.host.stand(int(str(fields["t"])), still=any(stops.began for stops in self._stops.values()))
        for training in self._trainings.values():
            if training.guest.pid == pid and not training.stops.began:
                training.go_on()

    def _training(self, process: int) -> TrainingProcess | None:
        training = self._trainings.get(process)
        guest = self._guests.get(process)
        if training is None and guest is not None:
            training = self._trainings[process] = TrainingProcess(
                guest, max(self.started, guest.started), self._stops.setdefault(guest.pid, Stops())
            )
            for note in self._early.pop(process, ()):
                training.note(note.fields)
        return training

    def _stack(self, stack: Stack) -> None:
        """Take a stack: at once of a worker, or where nobody hears the training; else once the loop went on after it.

        What is behind the loop's end is of no step.
        """
        heard = [g.process for g in self._guests.values() if g.pid == stack.pid and g.role == "main"]
        if not any(self._guests[number].state == "ring" for number in heard):
            self.stacks.take(stack)
            return
        # 4096 stacks kept of a process until its loop goes on
        self._seen.setdefault(stack.pid, deque(maxlen=4096)).append(stack)
        self._sure(stack.pid, heard)

    def _sure(self, pid: int, processes: Iterable[int]) -> None:
        """Take the stacks of a process that lie in its loop, or before it."""
        found = [self._trainings[number] for number in processes if number in self._trainings]
        loops = [(training.stops, *training.looped) for training in found if training.looping]
        seen = self._seen[pid]
        while seen:
            times = [(stops.running(seen[0].t), began, end) for stops, began, end in loops]
            early = not any(t >= began for t, began, _ in times)
            if not early and not any(began <= t <= end for t, began, end in times):
                return
            self.stacks.take(seen.popleft(), looping=not early)

    def _event(self, event: Event) -> None:
        record = event.record
        guest = self._guests.get(event.process)
        if guest is not None and guest.role == "worker":
            self._worker_event(event, guest)
            return
        training = self._trainings.get(event.process) or self._training(event.process)
        if training is None:
            return
        training.take(record)
        kind = record.kind
        if kind == BACKWARD:
            if training.by_passes:
                self.host.loop(record.t0, record.t1)
        elif kind in LOOPING:
            self.host.loop(record.t0, record.t1)
        elif kind == DELAY and record.code == DelayCode.SLOWS:
            self._slowed(training, record.t0)
        elif kind == MEMBER:
            self._workers.owner[record.b] = (event.process, record.a, record.c)
            if training.knows(record.a):  # in a recording its workers stand before it
                self._settle()
        elif kind == ITERATOR:
            self._settle()

    def _slowed(self, training: TrainingProcess, t: int) -> None:
        """Tell the others that one of several ranks was slowed down at `t` (ns): they may have waited for it."""
        for other in self._trainings.values():
            if other is not training:
                other.disturbed(t)

    def _worker_event(self, event: Event, guest: Guest) -> None:
        if event.record.kind not in MADE:
            return
        owner = self._workers.owner.get(guest.pid)
        if owner is None:
            if len(self._workers.waiting) < 4096:  # records of workers kept until their training process has named them
                self._workers.waiting.append(event)
            return
        process, iterator, number = owner
        training = self._trainings[process]
        for note in self._early.pop(event.process, ()):
            training.worker_note(iterator, note.fields)
        training.fetched(iterator, training.stops.record(event.record), number)

    def _settle(self) -> None:
        waiting, self._workers.waiting = self._workers.waiting, []
        for event in waiting:
            self._worker_event(event, self._guests[event.process])

    def _trained(self) -> list[TrainingProcess]:
        """Return the processes that train. Who only starts those that do, waits and tries what they learnt is none.

        Nor is a parameter server, whose steps are a part of those that its callers wait for.
        """
        every = [training for training in self._trainings.values() if training.trains]
        found = [training for training in every if not training.only_serves] or every
        parents = {training.guest.ppid for training in found if training.learns}
        return [training for training in found if training.learns or training.guest.pid not in parents]

    def _with_making(self, training: TrainingProcess, process: Process) -> Process:
        """Return a process with what stacks show of making its batches, its own and those of its workers."""
        workers = (pid for pid, owner in self._workers.owner.items() if owner[0] == training.guest.process)
        makings = self.stacks.making((training.guest.pid, *workers))
        return replace(process, making=makings.told(), making_stacks=makings.total)

    def _errors(self) -> tuple[Raised, ...]:
        """Return what ended processes, as they told it themselves."""
        found = []
        for process, fields in self._raised.items():
            guest, training = self._guests.get(process), self._trainings.get(process)
            if guest is None or (guest.role != "main" and (guest.state != "hello" or self._trainings)):
                continue  # of Pythons without torch one may end a command that never trained
            what, where = (str(fields.get(name) or "") for name in ("what", "where"))
            raised = Raised(
                pid=guest.pid,
                rank=None if training is None else training.rank,
                what=what,
                where=where,
                started=guest.started,
                ended=guest.ended,
                trained=training is not None and training.trains,
            )
            found.append(raised)
        return tuple(found)

    def _still(self, until: int) -> float:
        """Return for how long the command stood still, where no training was seen."""
        return max((stops.before(until) / NS for stops in self._stops.values()), default=0.0)

    @property
    def progress(self) -> int:
        """Return a number that grows with what the training does, and with looks at its stacks."""
        done = sum(training.batches + training.steps for training in self._trainings.values())
        return done + self.stacks.taken

    def look(self, t: int) -> WaitTotals:
        """Return what training processes have waited for batches until `t` (ns), and what devices have worked."""
        alive = [training for training in self._trainings.values() if training.trains and not training.guest.ended]
        waited = sum(training.waited(t) for training in alive) / max(1, len(alive)) / NS
        worked, known = self.host.worked()
        return WaitTotals(t, frozenset(training.guest.process for training in alive), waited, worked, known)

    def guest_cost(self) -> float | None:
        """Return s that the guest took of each batch and the step after it, its hooks and its samples; None unknown.

        Medians, so that an interruption does not count. The calls of the hooks are not in it, only what is in them.
        """
        trainings = self._trainings.values()
        costs = [cost for training in trainings for cost in training.costs]
        if not costs:
            return None
        sampled = sum(training.sampled for training in trainings)
        batches = max(sampled, sum(training.batches for training in trainings))
        own = sorted(own for own, _ in costs)[len(costs) // 2]
        more = sorted(more for _, more in costs)[len(costs) // 2]
        return own + more * sampled / batches

    def features(
        self, until: int, *, exit_code: int | None = None, unavailable: Mapping[str, str] | None = None
    ) -> Features:
        """Return what is known at `until` (ns). Training processes come in the order of their ranks."""
        for pid in self._seen:
            self._sure(pid, [g.process for g in self._guests.values() if g.pid == pid and g.role == "main"])
        trainings = self._trained()
        ranks = _at_once(trainings)
        learns = any(t.learns for t in trainings)
        machine = self.host.machine(ranks=ranks)
        heard = [t for t in trainings if not t.missed.why]
        by = is_by_signal(exit_code)
        told = [
            t.features(until, self.host, self.stacks, ranks=ranks, learns=learns, ended_by_signal=by) for t in heard
        ]
        disturbed = frozenset[int]().union(*(t.meetings.disturbed for t in heard))
        told = [replace(p, meetings=tuple(m for m in p.meetings if m.number not in disturbed)) for p in told]
        processes = [self._with_making(t, process) for t, process in zip(heard, told, strict=True)]
        processes.sort(key=lambda p: (p.rank if p.rank is not None else -1, p.pid))
        unseen = [g for g in self._guests.values() if g.state == "none" and g.role == "main"]
        unseen += [t.guest._replace(why=t.missed.why) for t in trainings if t.missed.why]
        watched = [g._replace(started=max(self.started, g.started)) for g in unseen]
        processes.extend(self.host.unseen(g, until, self.stacks) for g in watched)
        indices = self.host.indices
        failures = [t.trouble.failure(t.guest.pid, t.rank, t.gpu(indices)) for t in self._trainings.values()]
        unused = [t.trouble.unused(t.guest.pid, t.rank, self.host.driver) for t in trainings]
        found = [t.out_of_memory(self.host.indices) for t in self._trainings.values()]
        stopped = min((p.stopped for p in processes if p.guest == "ring"), default=self._still(until))
        rate_limit, request_limit = self.host.read_limits()
        return Features(
            command=self.command,
            wall=max(0, until - self.started) / NS,
            stopped=stopped,
            machine=machine,
            processes=tuple(processes),
            devices=self.host.devices(self.started, until),
            storage=storage(self.host, [each for process in processes for each in process.folders.items()]),
            network=network(self.host),
            read_rate_limit=rate_limit,
            read_request_limit=request_limit,
            mounts=tuple(self.host.mounts),
            exit_code=exit_code,
            unavailable={**self.host.unavailable, **(unavailable or {})},
            lacking=dict(self.host.lacking),
            dropped=self._lost_before + self._lost,
            oom_kills=self.host.oom_kills,
            failures=tuple(each for each in failures if each is not None),
            raised=self._errors(),
            unused=tuple(each for each in unused if each is not None),
            out_of_memory=tuple(self.host.beside(each) for each in found if each is not None),
        )
