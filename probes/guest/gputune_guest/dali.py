"""NVIDIA DALI's iterators for PyTorch: which there are, how their pipelines are set, and every `next()` of one.

What makes the batches are DALI's own threads and the device: nothing of it is seen from Python but how long `next()`
waits. An iterator begins its next pass by itself or by `reset()`, and is the same object then.
"""

import sys

from gputune_guest import evaluation, loader, patching, places, ring, settings, spans, wrapping
from gputune_guest.words import APART, BATCH, END, FAILED, ITERATOR

now = ring.now
here = ring.here

_iterators = {}  # id of an iterator of theirs to its _Known
_ids = {}  # where, and how it is set, to the id of the loader: one that is built anew for a pass is the same


class _Known:
    """What we know of an iterator of theirs: as of a DataLoader's, and whether a pass is under way."""

    __slots__ = ("began", "gone", "mine")

    def __init__(self, theirs, number, size):
        self.mine = loader.iterator(theirs, (number, size, False, 0))
        self.began = False
        key = id(theirs)
        self.gone = wrapping.when_gone(theirs, _iterators.pop, key, None)
        _iterators[key] = self

    def begin(self, t0, frame):
        """Tell that a pass begins with the batch that is asked for at `t0`."""
        mine, self.began = self.mine, True
        mine.number, mine.count = next(loader.numbers), 0
        mine.grad = sys.modules["torch"].is_grad_enabled()
        ring.record(ITERATOR, 0, t0, t0, mine.number, mine.loader, 0, int(mine.grad))
        evaluation.on_iterator(mine, None, t0, frame)


def _constructed(original):
    def after(begun, _result, error):
        if error is None and not spans.silent:
            theirs, place = begun
            _Known(theirs, *_described(theirs, place))

    return wrapping.around(original, lambda args, _kwargs: (args[0], places.caller(0)), after)


def _described(theirs, place):
    """Return (id of the loader, samples of a batch), and tell a new one how its pipelines are set."""
    where, file = place
    pipes = theirs._pipes
    size = int(theirs.batch_size) * len(pipes)
    threads, depth = _number(pipes[0], "num_threads"), _depth(pipes[0])
    key = where, size, threads, depth
    known = _ids.get(key)
    if known is None:
        known = _ids[key] = settings.number()
        told = {"where": where, "file": file, "batch_size": size, "threads": threads, "prefetch": depth}
        ring.note(n="loader", id=known, framework="dali", num_workers=0, dataset=type(theirs).__name__, **told)
    return known, size


def _number(pipe, name):
    try:
        return int(getattr(pipe, name))
    except (AttributeError, TypeError, ValueError):
        return 0


def _depth(pipe):
    """Return how many batches are made ahead; of a pipeline with a queue for each part, of that on the host."""
    told = getattr(pipe, "prefetch_queue_depth", 0)
    return int(told.get("cpu_size", 0)) if isinstance(told, dict) else _number(pipe, "prefetch_queue_depth")


def _next(original):
    def before(args, _kwargs):
        known = _iterators.get(id(args[0]))
        if known is None or spans.silent or spans.in_next():
            return None
        ring.end_burst()
        t0 = now()
        if not known.began:
            known.begin(t0, sys._getframe(1))
        trains = spans.get_ident() == here.trainer
        if trains:
            here.waiting = True  # what happens inside is waiting for data, whatever it is
        ring.mark(BATCH, 0, t0)
        return known, t0, trains

    def after(begun, _batch, error):
        known, t0, trains = begun
        t1 = now()
        if trains:
            here.waiting = False
        code = 0 if error is None else END if isinstance(error, StopIteration) else FAILED
        mine, known.began = known.mine, not code
        loader.recorded(mine, code, 0 if code else mine.batch_size, t0, t1, -1, 0 if trains else APART)

    return wrapping.opaque(wrapping.around(original, before, after))


def _hook(module):
    places.library(sys.modules["nvidia.dali"])
    for name in ("DALIGenericIterator", "DALIRaggedIterator"):
        kind = getattr(module, name, None)
        if kind is not None:
            patching.patch(kind, "__init__", _constructed)
            patching.patch(kind, "__next__", _next)


def _forked():
    """In a forked child: what the parent's ring was told, its own was not."""
    _iterators.clear()
    _ids.clear()


wrapping.after_fork(_forked)
HOOKS = {"nvidia.dali.plugin.pytorch": _hook}
