"""Holding the training up until batches lie ready, to see what its rounds take when it waits for none of them.

That is the ceiling of all that can be done about a loader, on this very run. Where the workers set the pace it costs
next to nothing: they go on meanwhile, and the training catches up with what they have made. So it is done only where
the training waits for them, and only until so many batches lie ready that each worker still has one to make.

What is waited in is C (`stand` in `_fast.c`), at the very end of a `next()`, so that a signal's handler (torch's own,
where a worker dies) never raises inside of ours. Without the C part nothing is held up, nor beside settings of ours
(`--tune`, trials), in jobs of several ranks, and of loaders with a `timeout`.
"""

import os

from gputune_guest import budget, ranks, ring, spans, wrapping
from gputune_guest.here import fast

here = ring.here

WAITING = 0.1  # of a round: where less is waited for, there is little to learn
LEAST = 3  # batches that are to lie ready: the first round after that begins cold
FIRST, FIRST_NS = 12, 1_500_000_000  # sampled batches of a loader, and ns, before the first time
RECENT = 8  # sampled batches over which waits and rounds are averaged
MOST = 700_000_000  # ns that it may take
REST, SELDOM = 20, 3_000_000_000  # times as long as it takes pass at the least before the next one, and ns
KEEN, RARELY = 16, 8  # after so many times it is done so much more seldom: there is hardly more to learn
LOADERS = 64

_kept = {}  # id of a loader to a _Kept
_share = None  # of the time that may be spent, see budget.py


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
            many = min(RECENT, self.seen)
            self.round += (each - self.round) / many
            self.wait += (t1 - t0 - self.wait) / many
        self.number, self.count, self.at = mine.number, mine.count, t1


def stands(mine, t0, t1):
    """Return whether the training is to stand after a sampled `next()` of an iterator, which took from `t0` to `t1`."""
    if not mine.several or fast is None or here.phase is not None or spans.get_ident() != here.trainer:
        return False
    known = _kept.get(mine.loader)
    if known is None:
        if len(_kept) >= LOADERS or not _may():
            return False
        known = _kept[mine.loader] = _Kept(t1)
    known.learn(mine, t0, t1)
    if known.seen < FIRST or t1 < max(known.due, known.began + FIRST_NS) or known.wait < WAITING * known.round:
        return False
    theirs = mine.gone()
    return theirs is not None and not theirs._timeout and _begin(known, theirs, t1)


def _may():
    """Return whether any loader of this process may be held up."""
    global _share
    if _share is None:
        alone = (ranks.told()[1] or 1) == 1 and not os.environ.get("GPUTUNE_STEER")
        _share = budget.share() if alone else 0.0
    return _share > 0


def _begin(known, theirs, t1):
    """Have `next()` stand until enough lie ready, if it is known how many do. Says when it may be done again."""
    workers = theirs._num_workers
    early = sum(len(task) > 1 for task in theirs._task_info.values())  # that came before their turn
    most = theirs._tasks_outstanding - early
    wanted = min(most, max(LEAST, workers * (theirs._prefetch_factor - 1)) - early)
    needs = wanted * known.round
    known.due = t1 + int(max(SELDOM, REST * needs) * budget.USUAL / _share * budget.odds(known.done))
    if wanted < LEAST or needs > MOST or not _counts(theirs):
        return False
    known.done += 1
    if known.done > KEEN:
        known.due += RARELY * SELDOM
    here.patience = int(min(MOST, 3 * needs))
    here.wanted = wanted
    known.number = 0  # the round in which it stands is none to learn from
    return True


def _counts(theirs):
    """Say where the batches of an iterator lie once they are made; whether that can be counted."""
    data = theirs._data_queue
    made = getattr(data, "queue", None)
    if made is not None:  # the queue of the thread that pins them
        here.lies = made
        return True
    lock = getattr(getattr(data, "_sem", None), "_semlock", None)
    if lock is None:
        return False
    here.semaphore, here.slots = lock.handle, data._maxsize
    return True


def _forked():
    _kept.clear()


wrapping.after_fork(_forked)
