"""The training side of a DataLoader: which loaders there are, their iterators, and every `next()`.

`__next__` is patched on the base class of the iterators and never `__iter__`, so that `type(iter(loader))` and what it
holds stay as they were. All that we remember of an object is kept here, beside it, under its id while it lives.
"""

import functools
import itertools
import os
import sys
import weakref

from gputune_guest import device, evaluation, patching, ring, settings, spans
from gputune_guest.words import BATCH, END, FAILED, ITERATOR, LOADER_START, MEMBER, SPAN

now = ring.now
record = ring.record
mark = ring.mark
_local = spans.local

_iterators = {}  # id of an iterator to its _Iterator
_numbers = itertools.count(1)
_grad_enabled = None  # torch.is_grad_enabled, once torch is there


class _Iterator:
    """What we know of one iterator of theirs."""

    __slots__ = (
        *("number", "loader", "count", "batch_size", "sized", "several", "grad", "gone", "born"),
        *("started", "ended", "asked", "returned"),  # events and times of the device's clock, see device.py
    )

    def __init__(self, theirs, loader_number, batch_size, sized):
        self.number = next(_numbers)
        self.loader = loader_number
        self.count = 0
        self.batch_size = batch_size
        self.sized = sized  # the collate function is torch's own: the first dimension counts samples
        self.several = hasattr(theirs, "_tasks_outstanding")
        self.grad = True
        self.born = 0  # its place in the order of all iterators, later again after a reset
        self.started = self.ended = None
        self.asked = self.returned = 0
        key = id(theirs)
        self.gone = weakref.ref(theirs, lambda _ref: _iterators.pop(key, None))
        _iterators[key] = self


def _samples(data, batch_size):
    """Return how many samples a batch of torch's own collate function holds, without touching user-defined types."""
    first = data
    for _ in range(3):
        kind = type(first)
        if (kind is list or kind is tuple) and first:
            first = first[0]
        elif kind is dict and first:
            first = next(iter(first.values()))
        else:
            break
    size = getattr(first, "shape", None)
    if size and (not batch_size or size[0] <= batch_size):
        return int(size[0])
    return batch_size


def _next(original):
    on_batch = evaluation.on_batch

    @functools.wraps(original)
    def wrapper(self):
        try:
            mine = _iterators.get(id(self)) or _adopt(self)
            clock = device.clock
            if clock is not None:
                clock.before(mine)
            ready = len(self._task_info) - self._tasks_outstanding if mine.several else -1
            t0 = now()
            mark(BATCH, 0, t0)
            depth = _local.depth
            _local.depth = depth + 1  # what happens inside is waiting for data, whatever it is
        except Exception as error:
            ring.failed(error)
            return original(self)
        data = None
        code = FAILED
        try:
            data = original(self)
            code = 0
            return data
        except StopIteration:
            code = END
            raise
        finally:
            t1 = now()
            _local.depth = depth
            try:
                count = 0
                if not code:
                    count = _samples(data, mine.batch_size) if mine.sized else mine.batch_size
                record(BATCH, code, t0, t1, mine.number, mine.count, ready, 0, count)
                mine.count += 1
                on_batch(mine, t0, t1, code)
                if clock is not None and not code:
                    clock.after(mine, t1)
            except Exception as error:
                ring.failed(error)

    return wrapper


def _adopt(theirs):
    """Return what we know of an iterator whose construction we did not see: made before us, or in a forked parent."""
    mine = _Iterator(theirs, 0, 0, False)
    record(ITERATOR, 0, now(), now(), mine.number, 0, 0, 1, getattr(theirs, "_num_workers", 0) or 0)
    return mine


def _constructed(original):
    @functools.wraps(original)
    def wrapper(self, loader, *args, **kwargs):
        t0 = now()
        depth = _local.depth
        _local.depth = depth + 1
        made = False
        try:
            result = original(self, loader, *args, **kwargs)
            made = True
            return result
        finally:
            _local.depth = depth
            _guarded(_came, self, loader, t0, made, 0)

    return wrapper


def _reset(original):
    @functools.wraps(original)
    def wrapper(self, loader, *args, **kwargs):
        if id(self) not in _iterators:  # inside its construction
            return original(self, loader, *args, **kwargs)
        t0 = now()
        try:
            return original(self, loader, *args, **kwargs)
        finally:
            _guarded(_came, self, loader, t0, True, 1)

    return wrapper


def _guarded(function, *args):
    try:
        function(*args)
    except Exception as error:
        ring.failed(error)


def _came(theirs, loader, t0, made, again):
    """Record that an iterator came to life, or was told to begin again."""
    t1 = now()
    if not made:
        record(SPAN, LOADER_START, t0, t1)
        return
    number, batch_size, sized = settings.of(loader, depth=4)
    mine = _iterators.get(id(theirs)) or _Iterator(theirs, number, batch_size, sized)
    mine.loader, mine.count, mine.grad = number, 0, _grad_enabled()
    workers = getattr(theirs, "_workers", ())
    record(ITERATOR, 0, t0, t1, mine.number, number, again, int(mine.grad), len(workers))
    record(SPAN, LOADER_START, t0, t1, 0, 0, mine.number)
    for index, worker in enumerate(workers):
        record(MEMBER, 0, t0, t1, mine.number, worker.pid or 0, 0, 0, index)
    evaluation.on_iterator(mine, t0, sys._getframe(2))


def _shutdown(original):
    @functools.wraps(original)
    def wrapper(self, *args, **kwargs):
        if getattr(self, "_shutdown", True):  # nothing to do, or never whole
            return original(self, *args, **kwargs)
        t0 = now()
        try:
            return original(self, *args, **kwargs)
        finally:
            mine = _iterators.get(id(self))
            record(SPAN, LOADER_START, t0, now(), 0, 0, mine.number if mine else 0, 0, 1)

    return wrapper


def _hook(module):
    import torch

    global _grad_enabled
    _grad_enabled = torch.is_grad_enabled
    settings.prepare(torch)
    patching.patch(module.DataLoader, "__init__", settings.remember)
    base = module._BaseDataLoaderIter
    patching.patch(base, "__next__", _next)
    several = module._MultiProcessingDataLoaderIter
    for kind in (module._SingleProcessDataLoaderIter, several):
        if "__next__" in vars(kind):  # torch before 1.2 had no common one
            patching.patch(kind, "__next__", _next)
        patching.patch(kind, "__init__", _constructed)
    patching.patch(several, "_reset", _reset)
    patching.patch(several, "_shutdown_workers", _shutdown)


def _forked():
    """In a forked child: its iterators are told anew, under numbers of its own ring."""
    _iterators.clear()


os.register_at_fork(after_in_child=_forked)
HOOKS = {"torch.utils.data.dataloader": _hook}
