"""One timed step: where the training thread waits for the device in it, and what lies between these places.

A read (`.item()`), a blocking copy or a synchronization joins the two lanes: before it the host queues, in it it waits,
after it the device has nothing queued. What is queued between two joins is a segment. If the device comes to a segment
only when the host has queued all of it, it works it off without a gap: then its time is its work, and nothing else.
A wait for something that was queued long before, as of FSDP for weights that are let go, joins nothing: the device goes
on with what was queued since. Such a *pass* parts a segment into pieces, each of which has to be queued in time.
Where a segment is more than the device's queue holds, a step is now and then divided further (dividing.py), at places
where nobody waits.
"""

from gputune_guest import ring, spans

now = ring.now
here = ring.here
MOST_MARKS = 512  # of a kind in a step (crossings, meetings, passes); of one with more the segments are not known
SHORT, PART = 30_000, 32  # ns, and a part of a step: a segment that takes host and device less holds next to nothing


def stood(before, after, low):
    """Return the ns that a stream stood between two marks; none where it was for its host, which was still queueing."""
    late = after.at + low - after.t
    # 20_000 ns: an event that passes as soon as it is recorded found the device waiting for its host
    return max(0, after.at - before.at) if late > 20_000 else 0


def standing(stands, low):
    """Return the ns that it stood between the two of each pair of marks, transfers included."""
    return sum(stood(before, after, low) for before, after in stands)


class _Join:
    """A wait for the device: when it began (a mark) and was over (host ns), and of a copy the mark behind it."""

    __slots__ = ("after", "before", "copy", "t1")

    def __init__(self, before, copy):
        self.before, self.copy, self.t1, self.after = before, copy, 0, None


class DeviceHold:
    """What the device was held by before a segment: the marks around it, its cycles, and whether it `lasted`."""

    __slots__ = ("after", "before", "cycles", "lasted")

    def __init__(self, before, after, cycles):
        self.before, self.after, self.cycles, self.lasted = before, after, cycles, False


class Step:
    """A step between two marks, and the joins in it. Times are host ns, and ns of the device's clock."""

    __slots__ = (
        *(
            "backed",
            "copies",
            "crossings",
            "divided",
            "end",
            "following",
            "held",
            "index",
            "inside",
            "joins",
            "lost",
            "meetings",
            "number",
        ),
        *("passes", "returned", "start", "stream", "target", "tried"),
    )

    def __init__(self, start, stream=None):
        self.start, self.stream = start, stream
        self.end = self.following = None
        self.joins = []  # what the thread waited in
        self.passes = []  # (segment, mark, host ns of its end) of waits after which the device went on
        self.copies = []  # (mark before, mark after, B) of copies that nobody waited for
        self.crossings = []  # (mark before, mark after) of what it waits for other devices in (peers.py)
        self.meetings = []  # the same of what it waits for other ranks in (standing.py)
        self.held = {}  # segment to its Hold
        self.tried = None  # a short Hold by which its rate is learnt
        self.backed = None  # mark behind the last backward pass, where that was asked for
        self.divided = False  # at more places than where it is waited: it takes the host longer than others
        self.target = -1  # segment that is to be held
        self.inside = None  # the join, or the mark before a copy, that the thread is in
        self.lost = False  # more joins than are kept: the segments are not known
        self.index = self.number = self.returned = 0

    def told(self, returned, index, number):
        """Take which batch's step it was."""
        self.returned, self.index, self.number = returned, index, number

    def marks(self):
        """Return all marks, in the order of the host."""
        found = [self.start]
        for join in self.joins:
            found.append(join.before)
            if join.after is not None and join.after is not join.before:
                found.append(join.after)
        for before, after, *_ in self.copies + self.crossings + self.meetings:
            found += [before, after]
        found += [mark for _, mark, _ in self.passes]
        for hold in (*self.held.values(), *filter(None, [self.tried])):
            found += [hold.before, hold.after]
        if self.backed is not None:
            found.append(self.backed)
        found.append(self.end)
        if self.following is not self.end:
            found.append(self.following)
        return found

    def crossed(self, before, after):
        """Take the marks around what has the device wait for others of the process."""
        self._stands(self.crossings, before, after)

    def met(self, before, after):
        """Take the marks around what has the device wait for other ranks, whose rounds have them as well."""
        before.shared = after.shared = True
        self._stands(self.meetings, before, after)

    def _stands(self, kept, before, after):
        if len(kept) < MOST_MARKS:
            kept.append((before, after))
        else:
            self.lost = True

    def settle(self):
        """Learn that the device is through with the step: what is still ahead of it is on another stream than this."""
        marks = [after for _, after in self.crossings + self.meetings] + [mark for _, mark, _ in self.passes]
        if not all(mark.event.query() for mark in marks):
            self.crossings, self.meetings, self.passes, self.lost = [], [], [], True

    def behind(self, low):
        """Return by how many ns the device was behind the host at the start."""
        return max(0, self.start.at + low - self.start.t)

    def waits(self, low, alone):
        """Return ns of copying on the device, and ns that the thread waited for its work in reads and in copies.

        A device that has caught up waits between a copy's marks until the host has queued it. So how long it takes is
        learnt where the device came to it later: `alone` keeps that for copies of so many B, in ns.
        """
        copied, waited = 0, [0, 0]
        for before, after, size in self.copies:
            took = max(0, after.at - before.at)
            # 256 sizes of copies of which it is kept how long they take
            if before.at + low > after.t and (size in alone or len(alone) < 256):
                alone[size] = took
            copied += min(took, alone.get(size, took))
        for join in self.joins:
            late = max(0, join.before.at + low - join.before.t)
            waited[join.copy] += min(late, join.t1 - join.before.t)
            if join.after is not None:
                copied += max(0, join.after.at - join.before.at)
        for _, mark, t1 in self.passes:
            waited[False] += min(max(0, mark.at + low - mark.t), t1 - mark.t)
        return copied, waited[0], waited[1]

    def edges(self):
        """Return (mark or None, host ns) of each segment's begin and the mark at its end."""
        if self.lost:
            return []
        begins = [(self.start, self.start.t)] + [(join.after, join.t1) for join in self.joins]
        ends = [join.before for join in self.joins] + [self.end]
        return [(mark, t, end) for (mark, t), end in zip(begins, ends)]  # noqa: B905 - Python 3.8 has no `strict`

    def has_begun(self, part):
        """Return whether the device has come to a segment, which is not the first one."""
        hold = self.held.get(part)
        return (self.joins[part - 1].before if hold is None else hold.after).event.query()

    def leads(self, low):
        """Return the host's ns for each segment that holds anything: one launch, of a graph, may be all of a step."""
        least = SHORT if self.divided else max(SHORT, (self.end.t - self.start.t) // PART)
        return {
            n: end.t - t
            for n, (begin, t, end) in enumerate(self.edges())
            if end.t - t >= least or self._lasted(n, begin, t, end, low) >= least
        }

    def _lasted(self, segment, begin, t, end, low):
        """Return for how many ns the device was at a segment, from when it could begin; holds, copies, stands aside."""
        hold = self.held.get(segment)
        begin = begin if hold is None else hold.after
        came = t if begin is None else max(t, begin.at + low)
        return end.at + low - came - self._beside(t, end)

    def _beside(self, t, end):
        """Return the ns in a segment of copies that nobody waits for, and of standing for others."""
        beside = self.copies + self.crossings + self.meetings
        return sum(after.at - before.at for before, after, *_ in beside if t <= before.t <= end.t)

    def mask(self, low):
        """Return which segments hold anything, a bit each."""
        return sum(1 << n for n in self.leads(low))

    def segments(self, low):
        """Yield what is known of those that it worked off in one go.

        That is number, host ns of begin and end, device's ns and of these the ones behind the backward pass (None where
        that is not known), hold's ns.
        """
        edges = self.edges()
        for n in self.leads(low):
            begin, t, end = edges[n]
            held, hold = 0, self.held.get(n)
            if hold is not None:
                if not hold.lasted:
                    continue
                begin = hold.after
                held = begin.at - hold.before.at
            elif not self._in_one_go(n, begin, end, low):
                continue
            took = max(0, end.at - begin.at - self._beside(t, end))
            yield n, t, end.t, took, self._behind_pass(t, end, took), held

    def _in_one_go(self, segment, begin, end, low):
        """Return whether the device came to each piece of it when the host had queued all of that."""
        for mark in [mark for part, mark, _ in self.passes if part == segment] + [end]:
            if begin is None or begin.at + low < mark.done:  # a host that stood before the mark left a gap there
                return False
            begin = mark
        return True

    def _behind_pass(self, t, end, took):
        """Return how many of the `took` ns of a segment, queued from `t` on, came behind the backward pass."""
        if self.backed is None:
            return None
        return took if self.backed.t <= t else max(0, min(took, end.at - self.backed.at))


class Meeting:
    """What spans.py tells of reads, and sync.py of copies, while a step is timed. None of it raises."""

    def __init__(self, clock):
        self.clock = clock
        self.deputy = None  # the thread that waits in the training thread's place, for what was queued long before

    def before(self, copy=False):
        """Mark what the thread is about to wait for. Returns the step, None where none is timed."""
        step = self.clock.current
        if step is None or step.inside is not None or spans.get_ident() not in {here.trainer, self.deputy}:
            return None
        came = now()
        try:
            if self.clock.capturing():
                return None
            if self.clock.device() != self.clock.home:
                step.lost = True
                return None
            step.inside = _Join(self.clock.mark(), copy)
            self.clock.hold.ends(step)  # a copy that nobody waits for ends nothing: the part's true end says it again
        except Exception as error:
            self.clock.failed(error)
            return None
        self.clock.spent += now() - came
        return step

    def after(self, step, waited=True, dropped=False, size=0):
        """Learn that it is over. A copy that was not `waited` for is no join, one that was `dropped` none at all."""
        join, step.inside = step.inside, None
        if dropped or join is None or step is not self.clock.current:
            return
        try:
            join.t1 = now()
            if join.copy:
                join.after = self.clock.mark()
            if not waited:
                if self.clock.stream_told == step.stream:  # on another one it runs beside what the step has queued
                    step.copies.append((join.before, join.after, size))
            elif join.copy or (self.deputy is None and join.before.event.query()):
                self._join(step, join)
            else:
                self._pass(step, join)
        except Exception as error:
            self.clock.failed(error)
        self.clock.spent += now() - join.t1

    def divide(self, passing=False):
        """Begin another segment of the step that is under way here, where nobody waits, if it is to be divided.

        While it is `passing` back, a thread of the engine's is in the place of the training thread, which waits for it.
        """
        step = self.clock.current
        if step is None or not step.divided or step.inside is not None:
            return
        if not passing and spans.get_ident() != here.trainer:
            return
        try:
            if self.clock.capturing() or self.clock.device() != self.clock.home:
                step.lost = True
                return
            mark = self.clock.mark()
            join = _Join(mark, copy=False)
            join.t1, join.after = mark.t, mark
            self.clock.hold.ends(step)
            self._join(step, join)
        except Exception as error:
            self.clock.failed(error)

    def _pass(self, step, join):
        if len(step.passes) < MOST_MARKS:
            step.passes.append((len(step.joins), join.before, join.t1))
        else:
            step.lost = True

    def _join(self, step, join):
        # 31 joins of one that is divided: a bit of a record's field for each segment
        # 16 joins of a step; of one with more the segments are not known
        if len(step.joins) < (31 if step.divided else 16):
            step.joins.append(join)
            self.clock.hold.begins(self.clock, step)
        else:
            step.lost = True
