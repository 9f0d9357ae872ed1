"""Iterators of torch's own kinds that make batches for one that the script holds, under other settings than its own.

torch's constructors build them, from a `View` of the loader. They differ from torch's in this: their indices come from
an iterator over the sampler that is there already, so that none is drawn twice; their seed is given to them, so that no
random number of this process is drawn for it; which indices they hold is known until the batches were handed out; and
under settings that are not the script's own a worker that dies is noticed in `next()`, never by a signal in a step.
"""

import contextlib
import multiprocessing
import queue
import sys
import time
import weakref
from collections import deque
from itertools import islice

from gputune_guest import picks

OF_A_LOADER = (
    *("dataset", "_dataset_kind", "_IterableDataset_len_called", "_auto_collation", "_index_sampler", "sampler"),
    *("batch_sampler", "batch_size", "drop_last", "collate_fn", "generator", "worker_init_fn", "in_order", "timeout"),
    *("multiprocessing_context", "num_workers", "prefetch_factor", "pin_memory", "pin_memory_device"),
    "persistent_workers",
)
FIRST_S = 60.0  # for the first batch of workers that the script did not ask for: a fork may have met a held lock
POLL_S = 1.0  # between looks whether workers live
TOLD = "_gputune_told_to_end"  # an attribute of iterators
NOTHING = iter(())  # a sampler without indices: torch refills from it, and stays as it is

_leaving = deque()  # (function that returns an iterator or None, when its workers are ended, by the monotonic clock)


class NotBegun(RuntimeError):  # noqa: N818 - named for what happened
    """Workers did not begin."""

    of = "settings"  # what a refusal is a fault of: docs/steering.md


class View:
    """What an iterator reads of its loader, as it was when the script began to iterate, with other settings over it."""

    def __init__(self, loader, **settings):
        for name in OF_A_LOADER:
            with contextlib.suppress(AttributeError):  # an older torch has fewer
                setattr(self, name, getattr(loader, name))
        vars(self).update(settings)
        if not self.num_workers:
            self.timeout, self.multiprocessing_context = 0, None  # torch takes these for mistakes without workers

    def settings(self):
        """Return the settings that can change, the meaningless ones as `orders.Order.over` has them."""
        workers = self.num_workers
        return {
            "num_workers": workers,
            "prefetch_factor": self.prefetch_factor if workers else None,
            "pin_memory": bool(self.pin_memory),
            "persistent_workers": bool(workers and getattr(self, "persistent_workers", False)),
        }


class Source:
    """The indices of one pass in the sampler's order; those that were given back come first."""

    def __init__(self, iterator):
        self._iterator = iterator
        self._back = deque()
        self.error = None  # what the sampler raised: that is the user's

    def __iter__(self):
        return self

    def __next__(self):
        if self._back:
            return self._back.popleft()
        try:
            return next(self._iterator)
        except StopIteration:
            raise
        except Exception as error:
            self.error = error
            raise

    def give_back(self, indices):
        """Have these come next."""
        self._back.extendleft(reversed(indices))

    def ahead(self):
        """Draw one more index than was drawn so far, and leave it there."""
        back, self._back = self._back, deque()
        try:
            back.extend(islice(self, 1))
        finally:
            self._back = back


class _Given:
    """Stands for a sampler whose iterator is there already."""

    def __init__(self, iterator):
        self._iterator = iterator

    def __iter__(self):
        return self._iterator


class _Ours:
    """What both kinds of ours have. The class attributes are for torch's `__del__`, if making one has failed."""

    _shutdown = True
    _worker_pids_set = False
    seed = 0
    own = False  # it has the settings of the script
    used = False  # it has made batches

    @property
    def _base_seed(self):
        return self.seed

    @_base_seed.setter
    def _base_seed(self, drawn):
        """Torch has drawn one, from a generator that is thrown away."""


class _Single(_Ours):
    @picks.timed
    def _next_index(self):
        index = next(self._sampler_iter)
        self.indices = [index]
        return index

    def begin(self, source, view):
        """Begin a pass over the indices of `source`."""
        self._sampler_iter, self.indices, self.used = source, [], True

    def delivered(self):
        """Forget the index whose batch was handed out."""
        self.indices = []

    def undelivered(self):
        """Return the indices whose batches were not handed out, in order."""
        return self.indices

    def living(self):
        """Return whether nothing that makes batches has died."""
        return True

    def knock(self):
        """Do nothing: there is nobody to wait for."""

    def up(self, patience=0.0):
        """Return whether it can begin."""
        return True


class _Several(_Ours):
    awaited = 0  # workers that have yet to say that they listen
    proved = False  # a batch has come

    @picks.timed
    def _next_index(self):
        index = next(self._sampler_iter)
        self.indices[self._send_idx] = index
        return index

    def begin(self, source, view):
        """Begin a pass over the indices of `source`, with as much under way as the settings allow."""
        self.indices = {}
        if self.used:
            self._index_sampler = _Given(source)
            self._reset(view)  # workers finish what is left of an earlier pass, and it is thrown away
        else:
            until = time.monotonic() + FIRST_S
            while not self.up(POLL_S):
                if not self.living() or time.monotonic() > until:
                    raise NotBegun("its workers do not begin")
            self._sampler_iter = source
            fill(self, capacity(self))
        self.used = True

    def knock(self):
        """Ask the workers to say when they listen; meanwhile others make the batches."""
        if self.used or self.awaited:  # they were asked already, or begin their next pass in `begin`
            return
        from torch.utils.data._utils.worker import _ResumeIteration

        for tasks in self._index_queues:
            tasks.put(_ResumeIteration())
        self.awaited = len(self._index_queues)

    def up(self, patience=0.0):
        """Return whether all workers have said that they listen, after up to `patience` s for each."""
        while self.awaited:
            try:
                self._data_queue.get(patience > 0, patience)
            except queue.Empty:
                return False
            self.awaited -= 1
        return True

    def living(self):
        """Return whether no worker has died."""
        return all(worker.is_alive() for worker in self._workers)

    def delivered(self):
        """Forget the indices whose batches were handed out."""
        tasks = self._task_info
        for number in [number for number in self.indices if number not in tasks]:
            del self.indices[number]

    def undelivered(self):
        """Return the indices whose batches were not handed out, in order."""
        return [self.indices[number] for number in sorted(self.indices)]

    def _get_data(self):
        """Wait for what a worker has made, as torch does, but notice by ourselves what no signal will tell us."""
        if self.own:
            return super()._get_data()
        limit = self._timeout or (0 if self.proved else FIRST_S)
        until = time.monotonic() + limit
        while True:
            success, data = self._try_get_data(POLL_S)
            if success:
                self.proved = True
                return data
            if limit and time.monotonic() > until:
                raise RuntimeError("no batch within %.0f s" % limit)
            if self._pin_memory and not self._pin_memory_thread.is_alive():
                raise RuntimeError("the thread that pins memory is gone")


class Maker:
    """Makes iterators of ours; `module` is `torch.utils.data.dataloader`, whose constructors nobody has wrapped yet."""

    def __init__(self, module):
        self.module = module
        self.single, self.several = module._SingleProcessDataLoaderIter, module._MultiProcessingDataLoaderIter
        self.base = module._BaseDataLoaderIter
        needed = ("_try_put_index", "_reset", "_shutdown_workers", "_try_get_data", "_next_data")
        if not all(hasattr(self.several, name) for name in needed):
            raise ValueError("this torch has iterators of another kind")
        self._signals = module._utils.signal_handling
        self._device = None  # whether there is one to pin memory for, once somebody asks
        self._begin = {0: self.single.__init__, 1: self.several.__init__}
        self._kinds = {
            0: type("_SingleProcessDataLoaderIter", (_Single, self.single), {}),
            1: type("_MultiProcessingDataLoaderIter", (_Several, self.several), {}),
        }

    def effective(self, force):
        """Return settings as they come out here: memory is pinned for a device, if there is one."""
        if force["pin_memory"]:
            if self._device is None:
                self._device = has_device()
            return dict(force, pin_memory=self._device)
        return force

    def bare(self, theirs, of):
        """Do to a new iterator with workers what torch does, but for the workers: another will have them.

        The random numbers that torch draws for it are drawn, and its sampler is asked for an iterator twice, as ever.
        """
        self.base.__init__(theirs, of)
        vars(theirs).update(
            _prefetch_factor=of.prefetch_factor,
            _worker_init_fn=of.worker_init_fn,
            _in_order=getattr(of, "in_order", True),
            _worker_pids_set=False,
            _shutdown=True,
            _index_queues=[],
            _workers=[],
            _workers_status=[],
            _workers_num_tasks=[],
            _send_idx=0,
            _rcvd_idx=0,
            _task_info={},
            _tasks_outstanding=0,
        )
        self.base._reset(theirs, of, True)

    def make(self, view, seed, own):
        """Return an iterator under the settings of `view`, that has no indices yet. Raises what torch does."""
        kind = min(1, view.num_workers)
        made = self._kinds[kind].__new__(self._kinds[kind])
        made.seed, made.own = seed, own
        made.indices = {} if kind else []
        drawn_from = View(view, generator=_spare(), _index_sampler=_Given(NOTHING))
        try:
            with self._quietly(own):
                self._begin[kind](made, drawn_from)
        except BaseException:
            kill(made)
            raise
        if kind and not own:
            made._worker_pids_set = False  # no signal is to speak of them: see `_quietly`
        return made

    @contextlib.contextmanager
    def _quietly(self, own):
        """Let torch warn of nothing meanwhile, and its signal handler know only workers as the script has them.

        What torch would say of these settings is not the user's to read, and `warnings.catch_warnings` makes Python
        forget which warnings it has shown already.
        """
        module, signals = self.module, self._signals
        names = () if own else ("_set_worker_pids", "_set_SIGCHLD_handler")
        kept = {name: getattr(signals, name) for name in names}
        warnings, module.warnings = module.warnings, _Mute
        try:
            for name in names:
                setattr(signals, name, _nothing)
            yield
        finally:
            module.warnings = warnings
            for name, function in kept.items():
                setattr(signals, name, function)


class _Mute:
    """Stands for the module `warnings`."""

    @staticmethod
    def warn(*_args, **_kwargs):
        """Say nothing."""


def _nothing(*_args):
    return None


def has_device():
    """Return whether there is a device that memory could be pinned for."""
    import torch

    accelerator = getattr(torch, "accelerator", None)
    return bool(accelerator.is_available() if accelerator is not None else torch.cuda.is_available())


def _spare():
    """Return a generator that nobody else draws from, of the device that torch draws seeds on."""
    import torch

    return torch.Generator(device=torch.empty(0).device)


def several(iterator):
    """Return whether an iterator, ours or the script's, has workers."""
    return hasattr(type(iterator), "_try_put_index")


def under_way(iterator):
    """Return how many batches an iterator has yet to hand out of those that it has asked workers for."""
    return len(iterator._task_info) if several(iterator) else 0


def capacity(iterator):
    """Return how many batches an iterator may have under way."""
    return iterator._prefetch_factor * len(iterator._workers) if several(iterator) else 0


def fill(iterator, most):
    """Hand out indices to workers until `most` batches are under way or there is none left."""
    while len(iterator._task_info) < most:
        sent = iterator._send_idx
        iterator._try_put_index()
        if iterator._send_idx == sent:
            return


def farewell(iterator):
    """Tell the workers of an iterator that nobody reads any more to end, and wait for none: `bury` looks after them."""
    if getattr(iterator, "_shutdown", True) or vars(iterator).setdefault(TOLD, False):
        return
    vars(iterator)[TOLD] = True
    if iterator._worker_pids_set:
        iterator._worker_pids_set = False
        _signals()._remove_worker_pids(id(iterator))
    iterator._workers_done_event.set()
    for tasks in iterator._index_queues:
        tasks.put(None)
    find = (
        (lambda: iterator) if isinstance(iterator, _Ours) else weakref.ref(iterator)
    )  # the script's own is the script's
    _leaving.append((find, time.monotonic() + 20.0))  # for workers to end by themselves


def leaving():
    """Return whether workers are still to be looked after."""
    return bool(_leaving)


def bury():
    """Give back what belonged to workers that have ended meanwhile."""
    for _ in range(len(_leaving)):
        find, until = _leaving.popleft()
        iterator = find()
        if iterator is None or iterator._shutdown:
            continue
        if not any(worker.is_alive() for worker in iterator._workers):
            iterator._shutdown_workers()
            _forget(iterator)
        elif time.monotonic() > until:
            kill(iterator)
        else:
            _leaving.append((find, until))


def close(iterator):
    """End the workers of an iterator as torch does when one is freed: a newer torch may keep it from being freed."""
    if not getattr(iterator, "_shutdown", True):
        iterator._shutdown_workers()
    _forget(iterator)


def disown(iterators):
    """Have a forked child, whose parent's workers these have, neither end them nor wait for them."""
    children = getattr(multiprocessing.process, "_children", None)
    for iterator in iterators:
        iterator._shutdown = True
        for worker in getattr(iterator, "_workers", ()):
            if children is not None:
                children.discard(worker)


def kill(iterator):
    """End the workers of an iterator at once, whatever state they are in.

    Not as torch does: a worker that was killed may have held the lock of an event that torch would wait for.
    """
    held = vars(iterator)
    iterator._shutdown = True
    if held.get("_worker_pids_set"):
        iterator._worker_pids_set = False
        _signals()._remove_worker_pids(id(iterator))
    if "_pin_memory_thread_done_event" in held:
        held["_pin_memory_thread_done_event"].set()
    workers = held.get("_workers", ())
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.join(POLL_S)
    for tasks in held.get("_index_queues", ()):
        tasks.cancel_join_thread()
        tasks.close()
    _forget(iterator)


def _forget(iterator):
    """Take it out of the set that a newer torch keeps for the exit."""
    kept = getattr(sys.modules.get("torch.utils.data.dataloader"), "_persistent_workers_atexit", None)
    if kept:
        kept.discard(iterator)


def _signals():
    from torch.utils.data._utils import signal_handling

    return signal_handling
