"""Holding the training up until batches lie ready, to see what its rounds take when it waits for none of them.

That is the ceiling of all that can be done about a loader, on this very run. Where the workers set the pace it costs
next to nothing: they go on meanwhile, and the training catches up with what they have made. So it is done only where
the training waits for them, and only until so many batches lie ready that each worker still has one to make.

What is waited in is C (`stand` in `_fast.c`), at the very end of a `next()`, so that a signal's handler (torch's own,
where a worker dies) never raises inside of ours. Without the C part nothing is held up, nor beside settings of ours
(`--tune`, trials), in jobs of several ranks, of loaders with a `timeout`, and where a device is behind the host at the
end of a step: then the host's rounds are not the loop's.
"""

import os
import sys

from gputune_guest import budget, device, ranks, ring, spans, wrapping
from gputune_guest.here import fast

here = ring.here

WAITING = 0.1  # of a round: where less is waited for, there is little to learn
LEAST = 3  # batches that are to lie ready: the first round after that begins cold
FIRST, FIRST_NS = 8, 1_500_000_000  # sampled batches of a loader, and ns, before the first time
MOST = 700_000_000  # ns that it may take
REST, SELDOM = 20, 3_000_000_000  # times as long as it takes pass at the least before the next one, and ns
KEEN, RARELY = 16, 8  # after so many times it is done so much more seldom: there is hardly more to learn
STEERED = bool(os.environ.get("GPUTUNE_STEER"))  # others may make batches, and are compared

_kept = {}  # id of a loader to a _Kept


class _Kept:
    """What is known of one loader: how long a round takes and waits (ns), and when it may be held up again."""

    __slots__ = ("at", "began", "count", "done", "due", "number", "round", "seen", "wait")

    def __init__(self, t1):
        self.began = self.at = t1
        self.due = self.done = self.seen = self.count = self.number = 0
        self.round = self.wait = 0.0

    def learn(self, mine, t0, t1):
        """Take a sampled batch of an iterator."""
        if self.number == mine.number and mine.count > self.count:
            each = (t1 - self.at) / (mine.count - self.count)
            self.seen += 1
            many = min(8, self.seen)  # sampled batches over which waits and rounds are averaged
            self.round += (each - self.round) / many
            self.wait += (t1 - t0 - self.wait) / many
        self.number, self.count, self.at = mine.number, mine.count, t1


def stands(mine, t0, t1):
    """Return whether the training is to stand after a sampled `next()` of an iterator, which took from `t0` to `t1`."""
    if not mine.several or fast is None or here.phase is not None or spans.get_ident() != here.trainer:
        return False
    known = _kept.get(mine.loader)
    if known is None:
        if len(_kept) >= 64 or not budget.share():
            return False
        known = _kept[mine.loader] = _Kept(t1)
    known.learn(mine, t0, t1)
    if known.seen < FIRST or t1 < max(known.due, known.began + FIRST_NS) or known.wait < WAITING * known.round:
        return False
    theirs = mine.gone()
    return theirs is not None and not theirs._timeout and not STEERED and is_alone() and _begin(known, theirs, t1)


def pace(mine):
    """Return what is known of the pace of an iterator's loader, None where nothing is."""
    return _kept.get(mine.loader)


def later(loader, t):
    """Have none of a loader's before `t` (ns): something else is being tried."""
    if loader in _kept:
        _kept[loader].due = max(_kept[loader].due, t)


def is_alone():
    """Return whether nobody waits for this process, and no device is behind it: neither shows in its rounds."""
    return ranks.alone() and (not sys.modules["torch"].cuda.is_initialized() or device.keeps_up())


def _begin(known, theirs, t1):
    """Have `next()` stand until enough lie ready, if it is known how many do. Says when it may be done again."""
    workers = theirs._num_workers
    early = sum(len(task) > 1 for task in theirs._task_info.values())  # that came before their turn
    most = theirs._tasks_outstanding - early
    wanted = min(most, max(LEAST, workers * (theirs._prefetch_factor - 1)) - early)
    needs = wanted * known.round
    known.due = t1 + int(max(SELDOM, REST * needs) * budget.USUAL / budget.share() * budget.odds(known.done))
    if wanted < LEAST or needs > MOST or not _counts(theirs):
        return False
    known.done += 1
    if known.done > KEEN:
        known.due += RARELY * SELDOM
    here.patience = int(min(MOST, 1.25 * needs))  # 1.25 times as long as it should take
    here.wanted = wanted
    known.number = 0  # the round in which it stands is none to learn from
    return True


def _counts(theirs):
    """Say where the batches of an iterator lie once they are made; whether that can be counted."""
    data = theirs._data_queue
    made = getattr(data, "queue", None)
    if made is not None:  # the queue of the thread that pins them
        here.lies, here.slots = made, 0
        return True
    lock = getattr(getattr(data, "_sem", None), "_semlock", None)
    if not hasattr(lock, "_get_value"):
        return False
    here.lies, here.slots = lock, data._maxsize
    return True


def _forked():
    _kept.clear()
    if fast is not None:
        here.wanted, here.lies = 0, None


wrapping.after_fork(_forked)
