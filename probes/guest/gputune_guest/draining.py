"""Withholding the next batches from a loader's workers, to see a batch made, and a step worked, with nobody beside it.

Where making and stepping take turns at CPUs, both are measured while they stand in each other's way, and nobody can
tell from that what either takes alone. So for a moment no indices go to the workers: the training takes what they
have under way, and they fall idle. Then a few batches are made one by one: only when the training asks for one are its
indices handed out, and while it works on that one nobody makes another. At last all that was withheld is handed out.

The sampler draws when it always does, each batch is made by the worker that it was meant for, in the same order, and
nothing else is touched: samples and random states are what they would have been. What is changed meanwhile are three
attributes of theirs, on the objects and not on their classes: `put` of the queues of indices, and the iterator's
`_get_data`, in which the training waits: it is only held up by what it waits for itself, and what is due is always
handed out before it does.

Nothing of it where `filling.py` does nothing either, but for a training that is steered and still has its own workers;
nor out of order, and where a pinning thread stands in between.
"""

import functools
import numbers
from collections import deque

from gputune_guest import budget, filling, ring, spans, wrapping
from gputune_guest.words import DELAY, LONE

now = ring.now
here = ring.here

ALONE = 4  # batches that are made one by one, and one step less
REST, OFTEN = 300_000_000, 16  # ns between two moments at the least; after so many, as seldom as fills are at last
LASTS = 8.0  # times as long as is thought: a pause of the training's own has begun, in which the workers are to go on
FIXED = (numbers.Number, str, bytes, type(None))  # indices that their owner cannot change before they are handed out

_known = {}  # id of a loader to its _Spent
_under_way = {}  # id of an iterator to its _Drain
makes_its_own = None  # where iterators are steered: returns whether one of theirs makes its batches itself


class _Spent:
    """What withholding from one loader has cost so far (ns), how often it was done, and when it may be again."""

    __slots__ = ("cost", "done", "due", "never", "others", "took")

    def __init__(self):
        self.cost = self.done = self.due = self.took = 0
        self.others = -1  # batches that all other loaders had given when its latest batch was sampled
        self.never = False


def begins(mine, known, t1):
    """Begin after a sampled `next()` of one of the `known` iterators, which came back at `t1`, if it is time.

    Return whether anything is withheld.
    """
    if not getattr(here, "trouble", False) and here.phase is None and spans.get_ident() == here.trainer:
        _consider(mine, known, t1)
    theirs = mine.gone()
    return theirs is not None and id(theirs) in _under_way


def _consider(mine, known, t1):
    pace = filling.pace(mine)
    if pace is None:
        return
    spent = _known.setdefault(mine.loader, _Spent())
    others = sum(each.count for each in list(known) if each is not mine)
    aside, spent.others = spent.others != others, others  # of a loader drawn from side by side nobody is idle
    if aside or spent.never or pace.seen < filling.FIRST or t1 < max(spent.due, pace.began + filling.FIRST_NS):
        return
    theirs = mine.gone()
    if pace.wait >= filling.WAITING * pace.round and theirs is not None and _fits(theirs):
        _begin(theirs, mine, pace, spent, t1)


def _fits(theirs):
    """Return whether batches come from workers in order and at once, and nothing stands there already."""
    plain = getattr(theirs, "_in_order", True) and not theirs._pin_memory and not theirs._timeout
    free = id(theirs) not in _under_way and "_get_data" not in vars(theirs)
    return plain and free and (makes_its_own is None or makes_its_own(theirs)) and filling.is_alone()


def _begin(theirs, mine, pace, spent, t1):
    """Withhold what comes next, if the time that it may take is there. Says when it may be done again."""
    share = budget.share()
    cost = spent.took or ALONE * theirs._num_workers * pace.round
    ahead = budget.AHEAD * share / budget.USUAL
    if not share or spent.cost + cost > share * (t1 - pace.began) + ahead or not budget.heard():
        return
    spent.due = t1 + int((REST if spent.done < OFTEN else filling.RARELY * filling.SELDOM) * budget.odds(spent.done))
    spent.done += 1
    until = t1 + int(LASTS * (cost + len(theirs._task_info) * pace.round))
    filling.later(mine.loader, until)  # it would wait for what nobody makes
    _Drain(mine, spent, until, type(theirs)._get_data).begin(theirs)


class _LooseError(Exception):
    """Indices whose owner may change them before they are handed out."""


class _Drain:
    """One such moment of an iterator, which ends at `until` (ns) whatever was seen by then; `get`: its `_get_data`."""

    __slots__ = ("alone", "began", "get", "held", "mine", "spent", "until")

    def __init__(self, mine, spent, until, get):
        self.mine, self.spent, self.until, self.get = mine, spent, until, get
        self.held = deque()  # (queue, what was to be put into it)
        self.alone = 0  # batches that were made by themselves, and
        self.began = 0  # when the first of them was handed out (ns)

    def begin(self, theirs):
        """Withhold what is put into the queues of indices from here on."""
        _under_way[id(theirs)] = self
        theirs._get_data = self.get_data  # first: without it, nobody would hand out what is withheld
        for queue in theirs._index_queues:
            queue.put = functools.partial(self.put, queue)

    def put(self, queue, task, *args, **kwargs):
        """Stand in the place of a queue's `put`, which torch calls with a batch's number and indices."""
        try:
            if not args and not kwargs and self._withholds(queue, task):
                return
            self.end(self.mine.gone())
        except Exception as error:
            wrapping.swallow(error)
        type(queue).put(queue, task, *args, **kwargs)

    def _withholds(self, queue, task):
        """Withhold a task if its time has not come; return whether it did."""
        if now() >= self.until or not _is_task(task):
            return False
        try:
            self.held.append((queue, (task[0], _copied(task[1]), *task[2:])))
        except _LooseError:
            self.spent.never = True
            return False
        return True

    def get_data(self):
        """Stand in the place of theirs, which waits for a batch that is not there yet."""
        theirs, t0 = self.mine.gone(), 0
        try:
            t0 = self._before(theirs)
        except Exception as error:
            wrapping.swallow(error)
            self._give_up()
        try:
            data = self.get(theirs)
        except BaseException as error:
            wrapping.cut(error)
            raise
        if t0:
            self._came(theirs, t0)
        return data

    def _before(self, theirs):
        """Hand out what is due if nobody has it yet; return when that was, if only that was handed out, else 0."""
        if not self.held or theirs._rcvd_idx < self.held[0][1][0]:
            return 0
        t0 = now()
        if self.alone >= ALONE or t0 > self.until:
            self.end(theirs)
            return 0
        self.began = self.began or t0
        due = sum(task[0] <= theirs._rcvd_idx for _queue, task in self.held)
        if due > 1:  # a worker's stream has ended, and nobody waits for what was its own
            self.end(theirs)
            return 0
        self.alone += 1
        self._hand_out(1)
        return t0

    def _came(self, theirs, t0):
        try:
            ring.record(DELAY, LONE, t0, now(), self.mine.number, self.mine.count)
            if self.alone >= ALONE:
                self.end(theirs)
        except Exception as error:
            wrapping.swallow(error)

    def _hand_out(self, count):
        for _ in range(count):
            queue, task = self.held.popleft()
            try:
                type(queue).put(queue, task)
            except BaseException:
                self.held.appendleft((queue, task))
                raise

    def _give_up(self):
        """Hand out what is left, after an error of ours."""
        try:
            self._hand_out(len(self.held))
        except Exception as error:
            wrapping.swallow(error)

    def end(self, theirs):
        """Hand out all that was withheld, and leave everything as it was."""
        self._hand_out(len(self.held))
        self.undo(theirs)
        if self.began:
            self.spent.took = now() - self.began
            self.spent.cost += self.spent.took

    def undo(self, theirs):
        """Leave everything as it was, but for what is withheld: that is forgotten."""
        for queue in theirs._index_queues:
            vars(queue).pop("put", None)
        vars(theirs).pop("_get_data", None)
        _under_way.pop(id(theirs), None)
        self.held.clear()


def _is_task(task):
    return type(task) is tuple and len(task) > 1 and type(task[0]) is int


def _copied(indices):
    """Return indices that stay what they are, whatever their owner does with a list of them. Raises _LooseError."""
    if type(indices) in (list, tuple):
        return type(indices)([_copied(index) for index in indices])
    if isinstance(indices, FIXED):
        return indices
    raise _LooseError


def before_reset(theirs):
    """Hand out what is withheld: another pass begins, or others are to make the batches."""
    drain = _under_way.get(id(theirs))
    if drain is not None:
        drain.end(theirs)


def before_shutdown(theirs):
    """Forget what is withheld: the workers are told to end, and make no batch any more."""
    drain = _under_way.get(id(theirs))
    if drain is not None:
        drain.undo(theirs)


def _stop(function):
    """Do one of these to all iterators."""
    for drain in list(_under_way.values()):
        theirs = drain.mine.gone()
        if theirs is not None:
            function(theirs)


def _forked():
    """In a forked child, whose iterators have no workers of their own."""
    _stop(before_shutdown)
    _under_way.clear()
    _known.clear()


wrapping.after_fork(_forked, anew=False)
wrapping.at_anew(lambda: _stop(before_reset))  # the workers of an iterator that goes on wait for what is withheld
wrapping.at_exit(lambda: _stop(before_reset))
