"""Holding the device back for a moment, so that a part of a step is queued whole before it begins: then it is timed.

Where a device is faster than its host queues work, no clock tells its work from the gaps in it. So now and then the
device is given something to wait for first (a kernel that only counts cycles), for about as long as the host takes to
queue the part. No sample, no order and no random number is touched, the host never waits, and where nothing else joins
the two the device makes up for it. It costs at most `SHARE` of the time, and is never done in a trial, or first thing.
"""

import os

from gputune_guest import ranks, ring

now = ring.now
SHARE = 0.003  # of the loop's time: what holding may cost, on all ranks of a job together
FIRST = 20  # timed steps before the first one: allocators, caches and autotuning settle in them
AHEAD = 8_000_000_000  # ns of the loop whose share may be spent in advance: what a short run is told rests on it
LONGEST = 50_000_000  # ns: no single hold is longer
KEEN = 8  # holds of each part that are made as soon as they may; later ones seldom
SELDOM = 20_000_000_000  # ns between those
AMPLE = 1.4  # times the host's time for the part: so that most holds last
RATE = 1.5  # cycles a ns, until the first hold has told


class Hold:
    """Decides when to hold, and for how long. `cuda` is the module, or a test's."""

    def __init__(self, cuda):
        self.sleep = getattr(cuda, "_sleep", None) if _wanted() else None
        self.share = SHARE / max(1, ranks.told()[1] or 1)  # the other ranks wait for the one that is held
        self.rate = RATE
        self.ample = AMPLE
        self.leads = {}  # part of a step to the host's ns for it, in the latest timed step
        self.done = {}  # part to holds so far
        self.steps = self.began = self.spent = self.latest = 0

    def begins(self, clock, step):
        """Hold, if that is due, before the part of the step that begins now."""
        if self.sleep is None:
            return
        part = len(step.joins)
        if part == 0:
            self._choose(step)
        if part != step.target or step.held is not None or part not in self.leads:  # another step was learnt since
            return
        length = int(self.ample * self.leads[part])
        cycles = int(length * self.rate)
        before = clock.mark()
        self.sleep(cycles)
        step.held = [part, before, clock.mark(), False, cycles]
        self.spent += length
        self.latest = before.t

    def ends(self, step):
        """Learn that a part ends now: whether the device was held until the host was there."""
        held = step.held
        if held is not None and held[0] == len(step.joins):
            held[3] = not held[2].event.query()

    def learn(self, step):
        """Take what a step that is over and placed on the device's clock says."""
        self.steps += 1
        if step.held is None:
            self.leads = step.leads()
            return
        part, before, after, lasted, cycles = step.held
        if after.at > before.at:
            self.rate = min(4 * RATE, max(RATE / 4, cycles / (after.at - before.at)))
        self.done[part] = self.done.get(part, 0) + 1
        if not lasted:
            self.ample = min(4.0, self.ample * 1.3)

    def _choose(self, step):
        """Choose which part of the step that begins is held, if any may be."""
        t = step.start.t
        if not self.began:
            self.began = t
        step.target = -1
        if self.steps < FIRST or not self.leads:
            return
        part = min(self.leads, key=lambda n: self.done.get(n, 0))
        cost = self.ample * self.leads[part]
        if cost > LONGEST or self.spent + cost > self.share * (t - self.began + AHEAD):
            return
        if self.done.get(part, 0) >= KEEN and t - self.latest < SELDOM:
            return
        step.target = part


def _wanted():
    """Return whether it may be done at all: not in trials that are timed, and not where somebody said so."""
    return not os.environ.get("GPUTUNE_TRIAL") and os.environ.get("GPUTUNE_PASSIVE", "0") in {"", "0", "false"}
