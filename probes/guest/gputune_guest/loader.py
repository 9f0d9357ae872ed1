"""The training side of a DataLoader: which loaders there are, their iterators, and every `next()`.

`__next__` is patched on the base class of the iterators and never `__iter__`, so that `type(iter(loader))` and what it
holds stay as they were. All that we remember of an object is kept here, beside it, under its id while it lives.
"""

import itertools
import sys

from gputune_guest import (
    delaying,
    device,
    draining,
    evaluation,
    filling,
    patching,
    pinning,
    ring,
    samples,
    settings,
    slowing,
    spans,
    wrapping,
)
from gputune_guest.here import Known, fast
from gputune_guest.words import APART, BATCH, END, FAILED, ITERATOR, LOADER_START, MEMBER, NEW, SPAN

now = ring.now
record = ring.record
here = ring.here

_iterators = {}  # id of an iterator to its _Iterator
numbers = itertools.count(1)  # of iterators, those of tf.data included
describe = None  # where iterators are steered: returns what has the settings of one, and the one that has its workers
_grad_enabled = None  # torch.is_grad_enabled, once torch is there


class _Iterator(Known):
    """What we know of one iterator of theirs; `several`: it has workers, `sized`: torch's own function collates."""

    __slots__ = (
        *("loader", "grad", "gone", "born"),
        "step",  # on the device's clock: see device.py
        "stands",  # for its loader, where that was made before us: settings.Stranger
    )

    def __init__(self, theirs, told):
        self.number = next(numbers)
        self.count = 0
        self.told(told)
        self.several = hasattr(theirs, "_tasks_outstanding")
        self.grad = True
        self.born = 0  # its place in the order of all iterators, later again after a reset
        self.step = self.sample = None
        key = id(theirs)
        self.gone = wrapping.when_gone(theirs, _forget, key)
        _iterators[key] = self

    def told(self, told):
        """Take over what `settings.of` says of the loader; `surely`: batches before this one are full."""
        self.loader, self.batch_size, self.sized, length = told
        self.surely = length - 1 if length and self.batch_size else 0 if self.sized else 1 << 62


def iterator(theirs, told):
    """Return what is kept of an iterator of another library's loader, of which `told` is known as of `settings.of`."""
    return _Iterator(theirs, told)


def _forget(key):
    here.forget()
    _iterators.pop(key, None)


def _samples(data, mine):
    """Return how many samples a batch holds: the first dimension if torch's own collate function made it."""
    if not mine.sized:
        return mine.batch_size
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
    if size and (not mine.batch_size or size[0] <= mine.batch_size):
        return int(size[0])
    return mine.batch_size


def _next(original):
    """Return what stands in the place of `__next__`: in C, or else the same in Python."""
    clock = device.clock
    before, after = (clock.before, clock.after) if clock is not None else (None, None)
    if fast is None:
        return wrapping.opaque(_python_next(original, before, after))
    rare = (_adopt, ring.end_burst, evaluation.on_batch, samples.end, _sampled, wrapping.swallow, before, after)
    return wrapping.opaque(wrapping.wraps(original)(fast.Next(original, here, _iterators, *rare)))


def _sampled(mine, code, came, asked, t0, t1, back, done, cpu):  # noqa: PLR0913, PLR0917 - times of one call, see samples.begin
    samples.again()
    if code:
        return
    if not slowing.under_way() and filling.stands(mine, t0, t1):
        slowing.stands(t1)
    else:
        if slowing.under_way() or not draining.begins(mine, _iterators.values(), t1):
            slowing.begins(mine, t1)
        samples.begin(mine, (came, asked, t0, t1, back, done), cpu)


class _Call:
    """One `next()` under way, in ns; `came` is 0 unless it is sampled, `ready` batches wait, `apart` as APART says."""

    __slots__ = ("apart", "asked", "came", "cpu", "mine", "ready", "t0")


def _python_next(original, before, after):  # noqa: C901 - see below
    def begin(args, kwargs):
        if len(args) != 1 or kwargs:
            return None  # wrong, and theirs to say how
        (theirs,) = args
        call = _Call()
        call.mine = mine = _iterators.get(id(theirs)) or _adopt(theirs)
        if mine.sample is not None:
            samples.end(mine)
        here.left -= 1
        call.came = call.asked = call.cpu = 0
        if here.left <= 0:
            call.came = now()
        if before is not None:
            before(mine)
        call.ready = len(theirs._task_info) - theirs._tasks_outstanding if mine.several else -1
        if here.burst is not None:
            ring.end_burst()
        if here.buffer is None:
            return None  # no ring: never made, or taken back
        if call.came:
            call.asked = now()
            call.cpu = samples.cpu_of_thread()
        call.t0 = now()
        call.apart = 0 if spans.get_ident() == here.trainer else APART
        if not call.apart:
            here.mark(BATCH, 0, call.t0)
            here.waiting = True  # what happens inside is waiting for data, whatever it is
        return call

    def end(call, data, error):
        t1 = now()
        mine = call.mine
        if not call.apart:
            here.waiting = False
        code = 0 if error is None else END if isinstance(error, StopIteration) else FAILED
        back = 0
        if call.came:
            call.cpu = samples.cpu_of_thread() - call.cpu
            back = now()
        _returned(mine, code, data, call.t0, t1, call.ready, call.apart)
        if after is not None and not code:
            after(mine, t1)
        if call.came:
            _sampled(mine, code, call.came, call.asked, call.t0, t1, back, now(), call.cpu)

    return wrapping.around(original, begin, end)


def _returned(mine, code, data, t0, t1, ready, apart):  # noqa: PLR0913, PLR0917 - one record's fields
    """Do what is done of every batch once it is there."""
    held = 0 if code else mine.batch_size if mine.count < mine.surely else _samples(data, mine)
    recorded(mine, code, held, t0, t1, ready, apart)
    if here.late:
        here.flush()


def recorded(mine, code, held, t0, t1, ready, apart):  # noqa: PLR0913, PLR0917 - one record's fields
    """Record a `next()` of an iterator, of any library's loader, by which `held` samples came."""
    if here.phase is not None:
        evaluation.on_batch(mine, t0, t1, code)
    elif here.last is not mine:
        evaluation.on_other(mine)
    index = mine.count
    mine.count = index + 1
    record(BATCH, code | apart, t0, t1, mine.number, index, ready, 0, held)


def _adopt(theirs):
    """Return what we know of an iterator whose construction we did not see: made before us, or in a forked parent."""
    mine = _Iterator(theirs, settings.UNKNOWN)
    t = now()
    try:
        mine.stands = settings.Stranger(theirs)  # for as long as the iterator is there
        mine.told(settings.of(mine.stands, depth=1))
        mine.count, mine.grad = theirs._num_yielded, _grad_enabled()
        _tell(mine, theirs, t, t, 0, 0)
    except AttributeError:  # an iterator of another kind: its batches are of no loader that is known
        record(ITERATOR, 0, t, t, mine.number, 0, 0, 1, getattr(theirs, "_num_workers", 0) or 0)
    return mine


def _constructed(original):
    def before(args, _kwargs):
        theirs, loader = args[:2]
        evaluation.before_iterator(_grad_enabled())
        t0 = now()
        apart = _apart()
        if not apart:
            here.waiting = True
        delaying.before_workers(settings.place(loader), getattr(loader, "timeout", 0))
        return theirs, loader, t0, apart

    def after(begun, _result, error):
        theirs, loader, t0, apart = begun
        if not apart:
            here.waiting = False
        _came(theirs, loader, t0, error is None, 0)

    return wrapping.opaque(wrapping.around(original, before, after))


def _reset(original):
    def before(args, _kwargs):
        theirs, loader = args[:2]
        if id(theirs) not in _iterators:
            return None  # inside its construction
        draining.before_reset(theirs)
        evaluation.before_iterator(_grad_enabled())
        return theirs, loader, now()

    def after(begun, _result, _error):
        _came(*begun, True, 1)

    return wrapping.opaque(wrapping.around(original, before, after))


def _apart():
    """Return 0 on the training thread, else the id of the one that this is: what it waits the training does not."""
    ident = spans.get_ident()
    return 0 if ident == here.trainer else ident


def _came(theirs, loader, t0, made, again):
    """Record that an iterator came to life, or was told to begin again."""
    t1 = now()
    if not made:
        record(SPAN, LOADER_START, t0, t1, 0, 0, 0, _apart())
        return
    built, working = loader, theirs
    if describe is not None:
        loader, working = describe(theirs, loader)
    told = settings.of(loader, depth=1)
    mine = _iterators.get(id(theirs)) or _Iterator(theirs, told)
    mine.told(told)
    mine.count, mine.grad = 0, _grad_enabled()
    _tell(mine, working, t0, t1, again, NEW if settings.first(built) else 0)
    record(SPAN, LOADER_START, t0, t1, 0, 0, mine.number, _apart())
    evaluation.on_iterator(mine, built, t0, sys._getframe().f_back)


def _tell(mine, working, t0, t1, again, code):  # noqa: PLR0913, PLR0917 - one record's fields
    workers = getattr(working, "_workers", ())
    mine.several = hasattr(working, "_tasks_outstanding")
    record(ITERATOR, code, t0, t1, mine.number, mine.loader, again, int(mine.grad), len(workers))
    pinning.belongs(working, mine.number, mine.loader)
    for index, worker in enumerate(workers):
        record(MEMBER, 0, t0, t1, mine.number, worker.pid or 0, 0, 0, index)


def switched(theirs, loader, working, built, index, done):  # noqa: PLR0913, PLR0917 - what is told of it
    """Tell that the batches of an iterator are made otherwise from here on: it goes on under another number.

    `loader` has the settings, `working` the workers, which were started from `built[0]` to `built[1]` (ns), `index`
    counts the next batch, and `done` are behind it in the pass.
    """
    mine = _iterators.get(id(theirs)) or _adopt(theirs)
    mine.number = next(numbers)
    mine.told(settings.of(loader, depth=1))
    mine.count, mine.grad = index, _grad_enabled()
    if mine.surely < 1 << 62:
        mine.surely = max(0, mine.surely - (done - index))
    here.look = True  # the loader that trains has another id now: see evaluation.on_step
    _tell(mine, working, *built, 0, 0)


def started(t0, t1):
    """Tell that workers were started inside of a `next()`."""
    record(SPAN, LOADER_START, t0, t1, 0, 0, 0, _apart())


def number_of(theirs):
    """Return the number under which the batches of an iterator are recorded now, 0 where it is not known."""
    mine = _iterators.get(id(theirs))
    return mine.number if mine is not None else 0


def _shutdown(original):
    def before(args, _kwargs):
        draining.before_shutdown(args[0])
        return None if getattr(args[0], "_shutdown", True) else (args[0], now())  # None: nothing to do, or never whole

    def after(begun, _result, _error):
        theirs, t0 = begun
        mine = _iterators.get(id(theirs))
        record(SPAN, LOADER_START, t0, now(), 0, 0, mine.number if mine else 0, _apart(), 1)

    return wrapping.opaque(wrapping.around(original, before, after))


def _hook_stateful(module):
    """Do the same to torchdata's loader: its constructors are its own, and what gets a batch is inherited."""
    settings.has_its_own(module.StatefulDataLoader)
    patching.patch(module.StatefulDataLoader, "__init__", settings.remember)
    several = module._StatefulMultiProcessingDataLoaderIter
    for kind in (module._StatefulSingleProcessDataLoaderIter, several):
        patching.patch(kind, "__init__", _constructed)
    patching.patch(several, "_reset", _reset)
    patching.patch(several, "_shutdown_workers", _shutdown)


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


wrapping.after_fork(_forked)
HOOKS = {
    "torch.utils.data.dataloader": _hook,
    "torchdata.stateful_dataloader.stateful_dataloader": _hook_stateful,
}
