"""What the thread takes that puts the batches of workers into page-locked memory (`pin_memory=True`), batch by batch.

It lives in the training process, between the workers and `next()`: it takes a batch from their queue, unpickles it,
copies its tensors, and hands it on. Its two queues are given to it behind stand-ins, which nobody else sees; whatever a
batch consists of, a class with a `pin_memory` method of its own included, no code of ours runs for its parts.
"""

import contextlib
import os
import time
import weakref

from gputune_guest import patching, ring, wrapping
from gputune_guest.words import PIN

now = ring.now
cpu_of_thread = getattr(time, "thread_time_ns", time.process_time_ns)

NO_BATCH = frozenset({"NoneType", "ExceptionWrapper", "_IterableDatasetStopIteration", "_ResumeIteration"})  # types
THOUSAND = 1000  # parts in which that is told
PARTS = 256  # of a batch that are looked at for these

_owners = weakref.WeakKeyDictionary()  # the queue that workers put batches in, to (iterator's number, loader's id)
_told = set()
_news = 0  # how often that was told: looking it up costs as much as all else together


def belongs(iterator, number, loader):
    """Say whose batches come through the queue of an iterator's workers."""
    global _news
    queue = getattr(iterator, "_worker_result_queue", None)
    if queue is not None:
        with contextlib.suppress(TypeError):  # of a kind that nothing can be kept beside
            _owners[queue] = (number, loader)
            _news += 1


class _Stage:
    """One such thread at work. `took` and `pinned` are called in turn, in that thread."""

    __slots__ = (
        *("asks", "cpu", "early", "fd", "news", "owner", "queue", "queued", "seen", "t0", "unpacking", "used"),
    )

    def __init__(self, queue):
        self.queue = queue
        self.owner, self.news = None, -1
        self.t0 = self.unpacking = self.seen = 0
        self.used = cpu_of_thread()
        self.queued = -1
        self.asks = True
        self.early = []
        try:
            self.fd = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # no /proc, or a kernel without it
            self.fd = -1

    def took(self):
        """Begin: a batch has been taken, and its parts are to be pinned."""
        self.cpu = cpu_of_thread()
        self.unpacking = self.cpu - self.used
        # 16 batches to one at which it is asked how long it waited for a CPU: asking costs two system calls
        self.queued = self._waited() if self.asks or not self.seen % 16 else -1
        self.t0 = now()

    def _waited(self):
        """Return the ns that this thread was runnable without a CPU so far, -1 where that is not known."""
        return int(os.pread(self.fd, 64, 0).split()[1]) if self.fd >= 0 else -1

    def pinned(self, item):
        """End: it is about to be handed on."""
        t1 = now()
        used, self.used = self.used, cpu_of_thread()
        if not self.t0 or type(item) is not tuple or type(item[1]).__name__ in NO_BATCH:
            return
        took = t1 - self.t0
        code = 0
        if self.queued >= 0:
            code = 1 + min(THOUSAND, max(0, self._waited() - self.queued) * THOUSAND // (took or 1))
        unpacking, pinning = max(0, self.cpu - used), max(0, self.used - self.cpu)
        self.seen += 1
        self.asks = took >= 1_000_000  # ns: a thread that pins in less is asked at each 16th batch only
        self._write(code, self.t0, t1, item[0] & 0xFFFF_FFFF, pinning, unpacking)
        self.t0 = 0

    def _write(self, code, t0, t1, index, pinning, unpacking):  # noqa: PLR0913, PLR0917 - one record's fields
        if self.news != _news:
            self.news = _news
            self.owner = _owners.get(self.queue)
        owner = self.owner
        if owner is None:
            if len(self.early) < 16:  # records kept until it is known whose they are: the iterator is still being made
                self.early.append((code, t0, t1, index, pinning, unpacking))
            return
        if self.early:
            for first in self.early:
                _record(owner[0], *first)
            self.early = []
        _record(owner[0], code, t0, t1, index, pinning, unpacking)

    def tell(self, data):
        """Say once of each loader what its batches consist of."""
        owner = _owners.get(self.queue)
        if owner is not None and owner[1] not in _told and len(_told) < 64:  # loaders whose types of tensors are told
            _told.add(owner[1])
            types, shape = _consists(data)
            ring.note(n="pinned", id=owner[1], types=types, shape=shape)

    def end(self):
        """Let go of what it had opened."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def _record(number, code, t0, t1, index, pinning, unpacking):  # noqa: PLR0913, PLR0917 - one record's fields
    """Write a record beside those of the training thread: no burst of its log lines ends for it."""
    fields = (PIN, code, t0, t1, number, unpacking, pinning, 0, index)
    try:
        ring.here.put(*fields)
    except Exception as error:
        ring.again(error, *fields)


def _consists(data):
    """Return (type of tensors to their bytes, shape of the largest one) of a batch."""
    types, shape, most, looked, stack = {}, (), 0, 0, [data]
    while stack and looked < PARTS:
        looked += 1
        part = stack.pop()
        if isinstance(part, (list, tuple)):
            stack.extend(part[:PARTS])
        elif isinstance(part, dict):
            stack.extend(part.values())
        elif hasattr(part, "element_size"):
            size, kind = part.element_size() * part.nelement(), str(part.dtype)
            types[kind] = types.get(kind, 0) + size
            if size > most:
                most, shape = size, tuple(part.shape)
        elif hasattr(part, "pin_memory"):
            stack.extend(getattr(part, "__dict__", {}).values())
    return types, shape


class _Queue:
    """Stands for one of the two queues."""

    def __init__(self, theirs, **others):
        self.theirs = theirs
        vars(self).update(others)

    def __getattr__(self, name):
        return getattr(self.theirs, name)


def _from(theirs, stage):
    """Return what stands for the queue of the workers."""

    def after(_begun, _item, error):
        if error is None:
            stage.took()

    return _Queue(theirs, stage=stage, get=wrapping.around(theirs.get, wrapping.always, after))


def _to(theirs, stage):
    """Return what stands for the queue that `next()` takes batches from."""

    def before(args, _kwargs):
        stage.pinned(args[0])
        return args[0] if stage.seen == 1 else None

    def after(item, _result, error):
        if error is None:
            stage.tell(item[1])

    return _Queue(theirs, put=wrapping.around(theirs.put, before, after))


def _pin_memory_loop(original):
    def change(args, kwargs):
        if len(args) > 1:
            stage = _Stage(args[0])
            args = (_from(args[0], stage), _to(args[1], stage), *args[2:])
        return args, kwargs

    def after(args, _kwargs):
        stage = getattr(args[0], "stage", None)
        if stage is not None:
            stage.end()

    return wrapping.changed(original, change, after)


def _hook(module):
    patching.patch(module, "_pin_memory_loop", _pin_memory_loop)


def _forked():
    _owners.clear()
    _told.clear()


wrapping.after_fork(_forked)
HOOKS = {"torch.utils.data._utils.pin_memory": _hook}
