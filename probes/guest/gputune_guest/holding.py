"""Holding the device back for a moment, so that a part of a step is queued whole before it begins: then it is timed.

Where a device is faster than its host queues work, no clock tells its work from the gaps in it. So now and then the
device is given something to wait for first (a kernel that only counts cycles), for about as long as the host takes to
queue the part. No sample, no order and no random number is touched, the host never waits, and where nothing else joins
the two the device makes up for it, and it has cost nothing. It costs at most `budget.share()` of the time on all ranks
of a job together, and is never done in a trial, or first thing.

A part that is more than the device's queue holds, or is too long, cannot be held like that: such a step is divided now
and then (dividing.py), and held before each of its parts that it would come to before the host has queued it. What that
costs is measured: by how much longer such a step takes the host, and how far the device is behind at its end.
"""

from gputune_guest import budget, dividing, joins, ranks, ring

now = ring.now
here = ring.here
LONGEST, LONGEST_STEPS = 50_000_000, 0.5  # ns: no single hold is longer, or no longer than so much of a step, and
MOST = 500_000_000  # ns, than this
AMPLE = 1.4  # times the host's time for the part: so that most holds last
RATE = 1.5  # cycles a ns, until a short hold has told


class Hold:
    """Decides when to hold, and for how long. `cuda` is the module, or a test's."""

    def __init__(self, cuda):
        share, world = budget.share(), ranks.told()[1] or 1
        self.sleep = getattr(cuda, "_sleep", None) if share else None
        self.spending = budget.Spending(share / max(1, world))  # the other ranks wait for the one that is held
        self.alone = world == 1
        self.rate = RATE
        self.ample = AMPLE
        self.leads = {}  # part of a step to the host's ns for it, in the latest timed step
        self.done = {}  # part to holds so far
        self.missed = {}  # part to holds in a row that were over before the host was there
        self.known = set()  # parts that the device worked off in one go without a hold
        self.usual = 0  # ns of the host for that step
        self.parts = {}  # the same as `leads` of the latest step that was divided
        self.measured = {}  # and how often the device worked off each of them in one go
        self.divided = 0  # steps that were
        self.dear = None  # ns that one cost
        self.steps = 0
        self.tried = False  # the short hold was made
        self.took = 0  # ns of the host for the latest step that was not held
        self.held_at = 0  # timed steps before the latest hold

    def begins(self, clock, step):
        """Hold, if that is due, before the part of the step that begins now."""
        if self.sleep is None:
            return
        part = len(step.joins)
        if part == 0:
            self._choose(clock, step)
        if part in step.held:
            return
        if step.divided:
            self._hold_between(clock, step, part)
        elif part == step.target and part in self.leads:  # else another step was learnt since
            cost = max(joins.SHORT, int(self.ample * self.leads[part]))
            self._hold(clock, step, part, cost)
            self.spending.hold(cost)
            self.held_at = self.steps

    def _hold(self, clock, step, part, length):
        step.held[part] = self._made(clock, int(length * self.rate))
        self.spending.latest = step.held[part].before.t

    def _made(self, clock, cycles):
        before = clock.mark()
        self.sleep(cycles)
        return joins.DeviceHold(before, clock.mark(), cycles)

    def _hold_between(self, clock, step, part):
        """Hold before one of those parts of a divided step that are known least, unless the device is behind."""
        length = int(self.ample * self.parts.get(part, 0))
        if not 0 < length <= self._longest or (part and not step.has_begun(part - 1)):
            return
        if self.measured.get(part, 0) <= min(self.measured.get(each, 0) for each in self.parts):
            self._hold(clock, step, part, length)

    def ends(self, step):
        """Learn that a part ends now: whether the device was held until the host was there."""
        hold = step.held.get(len(step.joins))
        if hold is not None:
            hold.lasted = not hold.after.event.query()

    def learn(self, step, low=0):
        """Take what a step that is over and placed on the device's clock (`low` ns behind the host's) says."""
        self.steps += 1
        for hold in (*step.held.values(), *filter(None, [step.tried])):
            if hold.after.at > hold.before.at:
                self.rate = min(4 * RATE, max(RATE / 4, hold.cycles / (hold.after.at - hold.before.at)))
        for part, hold in step.held.items():
            if not step.divided:
                self.done[part] = self.done.get(part, 0) + 1
                self.missed[part] = 0 if hold.lasted else self.missed.get(part, 0) + 1
        if not all(hold.lasted for hold in step.held.values()):
            self.ample = min(4.0, self.ample * 1.3)
        if step.divided:
            self._divided(step, low)
        else:
            self.spending.made_up(step, max(0, step.end.at + low - step.end.t), self.usual)
        if not step.divided and not step.held and step.tried is None:
            before, self.took = self.took, step.end.t - step.start.t
            # 2 times as long as the one before it: from such a step nothing is learnt
            if not before or self.took <= 2 * before:
                self.leads, self.usual = step.leads(low), self.took
                self.known = (
                    {found[0] for found in step.segments(low)} if self._too_long(self.spending.began) else set()
                )

    def _divided(self, step, low):
        """Take a divided step: what its parts take the host, and what it cost."""
        if step.lost:
            dividing.crowded()
        self.parts = step.leads(low)
        for found in step.segments(low):
            self.measured[found[0]] = self.measured.get(found[0], 0) + 1
        later = step.end.t - step.start.t - self.usual
        behind = step.end.at + low - step.end.t - step.behind(low)
        self.dear = max(0, later) + max(0, behind)
        self.spending.spend(self.dear)

    def _choose(self, clock, step):
        """Choose which part of the step that begins is held, if any may be."""
        t = step.start.t
        self.spending.begin(t)
        step.target = -1
        if ring.at_rest:
            return
        # 20: timed steps before the first one: allocators, caches and autotuning settle in them
        if self.steps < 20 or not self.leads:
            if self.steps and not self.tried:
                self.tried = True
                self.sleep(1)  # it is loaded by then
                # 1_000_000 cycles of that one: launching it takes next to nothing beside
                step.tried = self._made(clock, 1_000_000)
            return
        if self.alone and self._too_long(t) - self.known and dividing.can():
            self._divide(step, t)
            return
        part = min(self.leads, key=lambda n: self.done.get(n, 0))
        cost = self.ample * self.leads[part]
        apart = self.steps - self.held_at > self.done.get(part, 0)  # more and more: a rhythm may be theirs
        if cost <= self._longest and apart and self._may(t, cost, self.done.get(part, 0)):
            step.target = part
            here.look = True  # the end of its backward pass is to be told: step.py

    @property
    def _longest(self):
        return min(MOST, max(LONGEST, LONGEST_STEPS * self.usual))

    def _too_long(self, t):
        """Return the parts that cannot be held: no hold is as long, or the queue seems to hold less than they are.

        One that was over too early may be chance: it is tried once more, if that may be at `t`.
        """
        return {part for part, lead in self.leads.items() if self._is_too_long(part, self.ample * lead, t)}

    def _is_too_long(self, part, cost, t):
        missed = self.missed.get(part, 0)
        return cost > self._longest or missed > 1 or (missed == 1 and not self._may(t, cost, 0))

    def _may(self, t, cost, done):
        """Return whether so many ns may be spent at `t`, after so many that were spent likewise."""
        return self.spending.may_hold(t, cost, done, self.usual)

    def _divide(self, step, t):
        """Have the step divided, if it may be."""
        # 0.5 of its time, by which a step that is divided may take the host longer, until the first has told
        guess = 0.5 * sum(self.leads.values()) if self.dear is None else self.dear
        if self._may(t, guess, self.divided // 2) and dividing.begin():
            step.divided = True
            if not self.divided:
                self.ample = AMPLE  # it was made longer for parts that no hold is long enough for
            self.divided += 1
            self.spending.latest = t
