"""Slowing the training thread down for a few rounds in a row, to see by how much its rounds get longer for that.

As long as it is held up where it sets the pace; not at all where its rounds wait for something else in any case: for
the loader, the device or another rank. So it tells what a saving in that thread is worth, without a clock of a device
and without a model of the machine. No sample, no order and no random number is touched.

It is held up before a `next()`, which is behind the step of the round before; without a DataLoader behind the step of
its first optimizer. Before the forward pass would tell the same: there is only `next()` between them, and what
that asks the workers for it asks for once a batch has come. It stands in C (`slow` in `_fast.c`), with the GIL let go;
without the C part it is not done.

When that is, the number of backward passes says, which is the same on all ranks of a job: so they take turns, and never
talk about it. Where one cannot be slowed down, nobody is in its turn.
"""

import os
import sys

from gputune_guest import budget, delaying, filling, ranks, ring, spans, wrapping

now = ring.now
here = ring.here
ABLE = hasattr(here, "slowed")  # in C, and of a build that has it

PART = 0.1  # of a round by which each of these is held up, and
ROUNDS = 8  # how many of them in a row: together less than one round
LEAST, MOST = 100_000, 250_000_000  # ns: a shorter one is lost in what a sleep is late by; longer ones are noticed
SLIGHT = 0.02  # of a round: less would not be seen
FIRST, FIRST_NS = 64, 1_500_000_000  # backward passes, and ns, before the first time: caches and allocators settle
RECENT = 8  # sampled rounds over which their length is averaged
UNLIKE = 0.5  # of that by which they may differ on average: else nothing could be learnt
EAGER, SOONER = 4, 4  # so many times come so much sooner at first: a short run is to have some. They are what is spent
KEEN, SELDOM = 64, 8  # in advance, less one; after so many times they come so much more seldom
CALM = 16  # rounds before the first one, and behind the last, in which nothing else is tried

_kept = {}  # id of a loader, or 0 for steps without one, to a _Pace
_turns = _purse = None
_tried = 0  # when the training was held up last, for batches to lie ready or by this (ns)
_over = False  # there was trouble: never again in this process


class _Pace:
    """How long a round of one loop takes (ns), as its sampled batches tell."""

    __slots__ = ("at", "count", "number", "round", "seen", "unlike")

    def __init__(self):
        self.at = self.count = self.seen = 0
        self.number = None  # of its iterator
        self.round = self.unlike = 0.0

    def learn(self, number, count, t):
        """Take that the `count`th round of an iterator was over at `t`."""
        if self.number == number and count > self.count:
            each = (t - self.at) / (count - self.count)
            self.seen += 1
            many = min(RECENT, self.seen)
            self.unlike += (abs(each - self.round) - self.unlike) / many if self.seen > 1 else 0.0
            self.round += (each - self.round) / many
        self.number, self.count, self.at = number, count, t


class Turns:
    """Who of `world` ranks is slowed down when, by the number of backward passes so far; each spends a `share`."""

    def __init__(self, rank, world, share):
        self.rank, self.world = rank, world
        self.usual = ROUNDS * PART / share  # passes from one time to the next
        self.number, self.due = 0, FIRST

    def mine(self, passes):
        """Return whether it is this rank's turn, which has not been taken yet."""
        while passes >= self._next():
            self.due, self.number = self._next(), self.number + 1
        lap, place = divmod(self.number, self.world)
        return passes >= self.due and (place + lap) % self.world == self.rank

    def take(self):
        """Take it."""
        self.due, self.number = self._next(), self.number + 1

    def _next(self):
        lap = self.number // self.world
        often = 1 / SOONER if lap < EAGER else 1 if lap < KEEN else SELDOM
        return self.due + self.usual * often * budget.odds(self.number)


def begins(mine, t1):
    """Have the next rounds of an iterator slowed down, if that is due after a sampled `next()`, over at `t1`."""
    if not ABLE or here.trouble or _over or here.phase is not None or spans.get_ident() != here.trainer:
        return
    _begin(mine.loader, mine.number, mine.count, t1)


def stands(t1):
    """Learn that the training stands at `t1`, until batches lie ready."""
    global _tried
    _tried = t1


def stepped(mine, t1):
    """Do the same after a sampled step of an optimizer, where there is no DataLoader."""
    if ABLE and not here.trouble and not _over and spans.get_ident() == here.trainer:
        _begin(0, 0, mine.count, t1)


def under_way():
    """Return whether rounds are being slowed down: nothing else is to be tried meanwhile."""
    return ABLE and here.slowed > 0


def _begin(key, number, count, t1):
    pace = _kept.get(key)
    if pace is None:
        if len(_kept) >= 64 or not _ready():
            return
        pace = _kept[key] = _Pace()
    pace.learn(number, count, t1)
    if here.slowed and here.slow_of != number and t1 > _tried:
        here.slowed = 0  # it was to be over by now, and goes on nowhere: a pass that was broken off
    if here.slowed or here.passes < FIRST or pace.seen < RECENT or not _turns.mine(here.passes):
        return
    calm = int(CALM * pace.round)
    length = min(MOST, int(PART * pace.round))
    if length < max(LEAST, SLIGHT * pace.round) or pace.unlike > UNLIKE * pace.round:
        return
    if t1 - max(_tried, delaying.latest()) < calm:
        return
    cost = ROUNDS * length
    early = t1 - _purse.began < FIRST_NS
    if not early and _purse.may(t1, cost, (EAGER - 1) * cost) and not _is_traced() and budget.heard():
        filling.later(key, t1 + 2 * calm)
        delaying.quiet(t1 + 2 * calm)
        _turns.take()
        stands(t1 + ROUNDS * int(pace.round + length))
        _purse.spend(cost)
        here.block, here.slow, here.slow_of, here.slowed = here.passes, length, number, ROUNDS


def _ready():
    """Return whether it may be done in this process at all; nothing beside settings of ours, or in a trial."""
    global _turns, _purse, _over
    if _turns is None:
        share, (rank, world, _local) = budget.share(), ranks.told()
        if os.environ.get("GPUTUNE_STEER") or not share or ((world or 1) > 1 and rank is None):
            _over = True
            return False
        _turns, _purse = Turns(rank or 0, world or 1, share), budget.Purse(share / (world or 1))
        _purse.begin(now())
    return True


def _is_traced():
    """Return whether a debugger looks on: whoever goes step by step is not to wonder."""
    watching = getattr(sys, "monitoring", None)
    return sys.gettrace() is not None or (watching is not None and watching.get_tool(watching.DEBUGGER_ID) is not None)


def _forked():
    global _turns, _purse, _over
    _kept.clear()
    _turns, _purse, _over = None, None, False


wrapping.after_fork(_forked)
