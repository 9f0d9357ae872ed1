"""How batches are made: in each worker, and in the training process itself where there are no workers."""

import os
import time

from gputune_guest import delaying, looking, patching, reads, ring, spans, wrapping
from gputune_guest.here import fast
from gputune_guest.words import FETCH, INLINE, ON_GPU, PLAIN, WORKER

here = ring.here
now = ring.now
record = ring.record
cpu_of_thread = getattr(time, "thread_time_ns", time.process_time_ns)
cpu_of_process = time.process_time_ns

FIRST, EVERY = 3, 64  # batches whose bytes are counted: the first ones and each 64th, for counting walks the batch
MOST = 4096  # parts of a batch that are looked at to count its bytes
SIMPLE = (int, float, bool, type(None))  # of no bytes worth counting, and often many

_worker = None  # (id, how many) in a DataLoader worker
_delaying = None  # what holds it up now and then, before a batch,
_inside = False  # and never in one, whose dataset may read from a loader of its own
_nested = False  # it was seen to
_told = False
_schedstat = None  # descriptor of the worker's own
_local = spans.local
_making = getattr(fast, "Making", None)  # a build that is older than this file has none
_threads = None  # torch.get_num_threads


class _Collate:
    """What is known of a fetcher's last call of its collate function."""

    __slots__ = ("count", "ns")

    def __init__(self):
        self.ns = self.count = 0

    def before(self, args, _kwargs):
        """Begin."""
        return args, now()

    def after(self, begun, _result, _error):
        """Take the time, and count the samples."""
        args, t0 = begun
        self.ns = now() - t0
        self.count = len(args[0]) if args and type(args[0]) is list else 0


def _constructed(original):
    def before(args, _kwargs):
        return args[0]

    def after(fetcher, _result, error):
        """Have something stand for the collate function inside of a fetcher, which is torch's own object."""
        if error is None and callable(fetcher.collate_fn):
            collate = _Collate()
            fetcher.collate_fn = wrapping.collected(fetcher.collate_fn, collate.before, collate.after)
            fetcher._gputune_collate = collate

    return wrapping.around(original, before, after)


def _opened(path):
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # no /proc, or a kernel without it
        return -1


def _queued(inline):
    """Return ns that this thread was runnable without a CPU so far, from field 2 of its schedstat; -1 when unknown."""
    global _schedstat
    if inline:
        fd = _local.schedstat
        if fd is None:
            fd = _local.schedstat = _opened("/proc/thread-self/schedstat")
    else:
        fd = _schedstat
        if fd is None:
            fd = _schedstat = _opened("/proc/self/schedstat")
    return int(os.pread(fd, 64, 0).split()[1]) if fd >= 0 else -1


def _bytes(data):
    """Return the bytes of tensors, arrays and strings in a batch, those of no tensors and on a GPU; how many tensors.

    Lists, tuples and dicts are looked into, theirs of their own kinds as well, and what else has attributes: all of it
    is pickled for the training. None of their code is run for that.
    """
    total, plain, there, tensors, looked, stack, met = 0, 0, 0, 0, 0, [data], set()
    while stack and looked < MOST:
        looked += 1
        part = stack.pop()
        kind = type(part)
        if kind in (list, tuple):
            stack.extend(part[:MOST])
        elif kind is dict:
            stack.extend(part.values())
        elif kind in (bytes, str):
            total += len(part)
            plain += len(part)
        elif kind not in SIMPLE:
            tensor = hasattr(part, "element_size")
            size = getattr(part, "nbytes", None)
            if size is None and tensor:  # of torch before 2
                size = part.element_size() * part.nelement()
            if type(size) is int:
                total += size
                plain += 0 if tensor else size
                there += size if getattr(part, "is_cuda", False) is True else 0
                tensors += tensor
            elif id(part) not in met:
                met.add(id(part))
                stack.extend(_within(part, kind))
    return total, plain, there, min(127, tensors)  # tensors of a batch beyond which they are not counted


def _within(part, kind):
    """Return what an object of a class of their own consists of: a named tuple, a mapping, a batch with attributes."""
    found = []
    if issubclass(kind, (list, tuple)):
        base = list if issubclass(kind, list) else tuple
        found += base.__getitem__(part, slice(MOST))
    elif issubclass(kind, dict):
        found += dict.values(part)
    fields = getattr(part, "__dict__", None)
    if type(fields) is dict:
        found += fields.values()
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        names = (slots,) if isinstance(slots, str) else slots
        found += [getattr(part, name, None) for name in names if not name.startswith("__")]
    return found


def _fetch(original):
    if _making is None:
        return wrapping.around(original, _began, _fetched)
    return wrapping.wraps(original)(_making(here, original, _began, _fetched, wrapping.swallow))


class _Call:
    """A batch that is being made, and the counters before it: ns of CPU, of waiting for one, `lead` of its thread."""

    __slots__ = ("collate", "cpu", "inline", "lead", "look", "outermost", "t0", "used", "wait")


def _began(args, _kwargs):
    global _inside, _nested
    within = _inside or getattr(here, "within", False)  # in C, if that is not older than this file
    if _left_to_c:
        _catch_up()
    call = _Call()
    call.outermost = _worker is not None and not within
    _nested = _nested or within
    if call.outermost:
        _inside = True
        if _delaying is not None:
            _delaying.before()
    call.inline = inline = _worker is None
    call.cpu = cpu = cpu_of_thread if inline else cpu_of_process
    call.collate = getattr(args[0], "_gputune_collate", None)
    # 16 fetches to one that is asked how long it waited for a CPU: asking costs two system calls
    call.wait = -1 if inline and _local.short and _written % 16 else _queued(inline)
    call.lead = None if inline or _told else cpu_of_thread()
    call.look = None if inline and _local.short else reads.begin(inline)
    call.used = cpu()
    call.t0 = now()
    return call


def _fetched(call, data, error):
    global _inside
    t0, t1, inline, look = call.t0, now(), call.inline, call.look
    if call.outermost:
        _inside = False
        if _delaying is not None:
            _delaying.after(t0, t1)
    if look is not None:
        reads.stop(look)
    if error is not None:
        return
    used = call.cpu() - call.used
    waited = _queued(inline) - call.wait if call.wait >= 0 else -1
    if call.lead is not None:
        _tell(used, cpu_of_thread() - call.lead)
    # 1_000_000 ns: after a shorter fetch in the training process, only each 16th is asked for its wait
    _local.short = t1 - t0 < 1_000_000
    _write(t0, t1, used, waited, call.collate, data, inline)
    if look is not None:
        reads.end(look, t0, t1, call.collate.count if call.collate is not None else 0)
    if not inline and _local.short and _making is not None:
        _leave_to_c()


_written = 0
_left_to_c = 0  # batches that C writes by itself, up to the next one that somebody here looks at


def _leave_to_c():
    """Have C write the batches up to the next one whose reads or bytes are looked at: they are made in no time.

    Not where the worker may be held up before one of them, nor where a dataset reads from a loader of its own: in C one
    batch is not told from another that is made within it.
    """
    global _left_to_c
    many = -_written % reads.EVERY if _written >= reads.EVERY else 0
    many = 0 if _nested else min(many, reads.ahead())
    if many and (_delaying is None or _delaying.never()):
        here.schedstat = -1 if _schedstat is None else _schedstat
        here.plain = _left_to_c = many


def _catch_up():
    """Count what C has written since."""
    global _left_to_c, _written
    many, _left_to_c, here.plain = _left_to_c - here.plain, 0, 0
    _written += many
    reads.skipped(many)
    if _delaying is not None and many:
        _delaying.skipped(many, here.made_to)


def _tell(used, lead):
    """Say who this worker is, once.

    Threads that torch knows nothing of (BLAS, OpenCV) show in the CPU time of the whole process over that of the thread
    that makes the batch.
    """
    global _told
    _told = True
    parallel = used / lead if lead > 1_000_000 else 1.0  # ns of CPU below which a ratio of CPU times is chance
    threads = max(_threads(), int(parallel + 0.7))
    ring.note(n="worker", worker_id=_worker[0], num_workers=_worker[1], threads=threads)


def _write(t0, t1, used, waited, collate, data, inline):  # noqa: PLR0913, PLR0917 - one record's fields
    global _written
    size = plain = there = tensors = 0
    if _written < FIRST or _written % EVERY == 0:
        size, plain, there, tensors = _bytes(data)
    if not inline and (not _written & (_written - 1) or _written % EVERY == 0):  # ever more seldom, as time goes
        looking.due()
    _written += 1
    ns, count = (collate.ns, collate.count) if collate is not None else (0, 0)
    code = (INLINE if inline else 0) | (PLAIN if plain * 2 > size else 0) | (ON_GPU if there else 0) | tensors << 8
    record(FETCH, code, t0, t1, used, waited, ns, size, count)


def _worker_loop(original):
    names = original.__code__.co_varnames[: original.__code__.co_argcount]

    def before(args, kwargs):
        global _worker, _delaying
        t0 = now()
        given = dict(zip(names, args))  # noqa: B905 - 3.8 has no strict
        given.update(kwargs)
        _worker = (given.get("worker_id", -1), given.get("num_workers", 0))
        _delaying = delaying.of_worker(*_worker)
        ring.become_worker()
        spans.silence()
        record(WORKER, 0, t0, 0, _worker[0], _worker[1])
        return t0

    def after(t0, _result, _error):
        record(WORKER, 0, t0, now(), *(_worker or (-1, 0)))
        ring.end()
        looking.finish()

    return wrapping.around(original, before, after)


def _hook_worker(module):
    patching.patch(module, "_worker_loop", _worker_loop)


def _hook_fetch(module):
    import torch

    global _threads
    _threads = torch.get_num_threads
    patching.patch(module._BaseDatasetFetcher, "__init__", _constructed)
    patching.patch(module._MapDatasetFetcher, "fetch", _fetch)
    patching.patch(module._IterableDatasetFetcher, "fetch", _fetch)


def _forked():
    global _worker, _told, _written, _schedstat, _delaying, _inside, _nested, _left_to_c
    _worker, _told, _written, _delaying, _inside, _nested = None, False, 0, None, False, False
    _schedstat = _local.schedstat = None
    if _making is not None:
        _left_to_c = here.plain = 0


wrapping.after_fork(_forked)
HOOKS = {
    "torch.utils.data._utils.worker": _hook_worker,
    "torchdata.stateful_dataloader.worker": _hook_worker,
    "torch.utils.data._utils.fetch": _hook_fetch,
}
