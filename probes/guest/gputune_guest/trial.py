"""A training that gputune itself has started to time it: it ends after some batches, and may be fed in special ways.

`GPUTUNE_TRIAL` holds JSON: `{"batches": 60, "seconds": 120, "seed": 1, "replay": false, "files": "/…/files"}`, …

- `batches`, `seconds`: after so many batches of one loader, or so long after its first one, `next()` raises SystemExit:
  the script's own `finally` and `atexit` run, and it leaves with status 0. Where a thread iterates the loader, the main
  thread gets a KeyboardInterrupt, and the script leaves as after a Ctrl-C.
- `where`: only batches of the loader built at that line count for both: loops before its own go on to their end.
- `host`: the pid of who has started it: once that is gone it ends in the same way, for nobody will read what it takes.
- `seed`: the random numbers of torch, of Python and of numpy (where that is imported by somebody) start there, so that
  trials which are compared get the same samples.
- `replay`: each loader makes one batch and hands it out again and again: how fast everything else could be.
- `stop`: once there is a file of that name it ends as it would at its last batch: it was seen to be hopeless.
- `files`: the names of the files that are read are appended there, a line each, by the training and its workers.

Without the variable this module is not even imported. No other process is ever ended or fed by it.
"""

import copy
import json
import os
import random
import signal
import sys
import threading
import time
import weakref

from gputune_guest import device, places, ring, wrapping

THERE = "there"  # kind of the loader that is meant
LOOK_S = 0.1  # s between looks for the file that ends it: one is a system call

current = None  # the _Trial of this process


class _Trial:
    """What is asked of this process, and how far it has come."""

    def __init__(self, asked):
        self.batches = int(asked.get("batches", 0)) or sys.maxsize
        self.seconds = float(asked.get("seconds", 0)) or float("inf")
        self.seed = asked.get("seed")
        self.replay = bool(asked.get("replay"))
        self.files = asked.get("files")
        self.host = int(asked.get("host", 0))
        self.looked = time.monotonic()  # for the host
        self.stop = asked.get("stop")
        self.asked = 0.0  # when that file was last looked for
        self.owner = os.getpid()
        self.counts = {}  # kind of a loader to its training batches so far
        self.where = asked.get("where")
        self.ours = weakref.WeakSet()  # iterators of the loader there
        self.began = None
        self.over = False
        self.interrupted = False

    def is_over(self, key):
        """Return whether the loop has had what it was to get."""
        if self.over:
            return True
        at = time.monotonic()
        ours = not self.where or key == THERE
        if self.began is None and ours:
            self.began = at
        enough = ours and (self.counts.get(key, 0) >= self.batches or at - self.began >= self.seconds)
        if not enough and not self._is_left(at) and not self._is_stopped(at):
            return False
        if enough:
            self._finish()
        self.end(max(self.counts.values(), default=0))
        return True

    @staticmethod
    def _finish():
        """Wait until the device has done what was queued for it: no step follows, and those are to be timed."""
        try:
            device.finish(30_000_000_000)  # that the device may be behind at the end of a trial
        except Exception as error:
            ring.failed(error)

    def _is_left(self, at):
        """Return whether the host is gone."""
        if not self.host or at - self.looked < 2.0:  # s between looks whether the host lives
            return False
        self.looked = at
        try:
            os.kill(self.host, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return False

    def _is_stopped(self, at):
        """Return whether the host wants no more of it."""
        if not self.stop or at - self.asked < LOOK_S:
            return False
        self.asked = at
        return os.path.exists(self.stop)

    def end(self, batches):
        """Have every `next()` of training end the script from here on."""
        self.over = True
        ring.note(n="trial", batches=batches)

    def leave(self):
        """End the script through its own doors: SystemExit here, and from another thread a Ctrl-C for the main one.

        A SystemExit ends only the thread that raises it, and the main one may wait for its batches for ever.
        """
        if threading.current_thread() is not threading.main_thread() and not self.interrupted:
            self.interrupted = True
            if threading.main_thread().is_alive() and callable(signal.getsignal(signal.SIGINT)):
                ring.note(n="trial", interrupted=True)
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # wakes it where it waits for a lock
        raise SystemExit(0)


class Replayed:
    """The first batch of a loader, handed out again as it was, whatever the script did to it meanwhile.

    In page-locked memory where it is there, or is to be (`pin`).
    """

    def __init__(self, batch, pin=False):
        import torch

        self.tensor = torch.Tensor
        self.pinned = _has_device() and (pin or any(t.is_pinned() for t in self._tensors(batch)))
        self.pristine = copy.deepcopy(batch)
        self.lent = []  # (lent tensor, its version then) in the order in which they are met
        self.position = 0

    def again(self):
        """Return the batch: its containers are new, its tensors are those of before unless they were written into."""
        self.position = 0
        return self._copied(self.pristine)

    def _tensors(self, what):
        if isinstance(what, self.tensor):
            yield what
        elif isinstance(what, dict):
            for value in what.values():
                yield from self._tensors(value)
        elif isinstance(what, (list, tuple)):
            for value in what:
                yield from self._tensors(value)

    def _copied(self, what):
        if isinstance(what, self.tensor):
            return self._lent(what)
        if type(what) is dict:
            return {key: self._copied(value) for key, value in what.items()}
        if isinstance(what, dict):
            made = copy.copy(what)
            made.update({key: self._copied(value) for key, value in what.items()})
            return made
        if isinstance(what, tuple) and hasattr(what, "_fields"):
            return type(what)(*map(self._copied, what))
        if type(what) in (list, tuple):
            return type(what)(map(self._copied, what))
        return copy.deepcopy(what)

    def _lent(self, pristine):
        at, self.position = self.position, self.position + 1
        if at < len(self.lent):
            lent, version = self.lent[at]
            if _version(lent) == version:
                return lent
        lent = pristine.clone()
        if self.pinned and lent.device.type == "cpu":
            lent = lent.pin_memory()
        self.lent[at : at + 1] = [(lent, _version(lent))]
        return lent


def _version(tensor):
    """Return a number that grows whenever a tensor is written into; one that tells nothing is taken for unwritten."""
    try:
        return tensor._version
    except RuntimeError:  # made in inference mode
        return 0


def _has_device():
    import torch

    return torch.cuda.is_available() and torch.cuda.is_initialized()


def _next(original, trial):
    """Wrap `__next__` below all that is measured, so that what happens here is waiting for data like the rest."""
    import torch

    enabled = torch.is_grad_enabled
    firsts = {}  # id of a dataset to (what says whether it lives, its first batch)
    wrapping.at_last(firsts.clear)
    wrapping.at_last(trial.counts.clear)

    def following(original, self):
        if not enabled() or os.getpid() != trial.owner or ring.is_worker():  # an evaluation, or somebody else's loader
            return original(self)
        kind = THERE if self in trial.ours else _kind(self)
        if trial.is_over(kind):
            trial.leave()
        dataset = getattr(self, "_dataset", None)
        first = firsts[id(dataset)][1] if trial.replay and id(dataset) in firsts else None
        batch = _replayed(self, first) if first is not None else original(self)
        trial.counts[kind] = trial.counts.get(kind, 0) + 1
        if trial.replay and first is None:
            try:
                _keep(firsts, dataset, batch)
            except Exception as error:  # a batch that cannot be copied
                trial.replay = False
                ring.note(n="trial", refused="its batches cannot be copied: %s" % str(error)[:200])
        return batch

    return wrapping.instead(original, following)


def _there(loader, trial):
    """Have the iterators of loaders that are built at `trial.where` known to it."""
    built = weakref.WeakSet()

    def itself(args, _kwargs):
        return args[0]

    def is_built(theirs, _result, error):
        if error is None and places.caller(0)[0] == trial.where:
            built.add(theirs)

    def iterates(theirs, found, error):
        if error is None and theirs in built:
            trial.ours.add(found)

    wrapping.put(loader, "__init__", lambda original: wrapping.around(original, itself, is_built))
    wrapping.put(loader, "_get_iterator", lambda original: wrapping.around(original, itself, iterates))


def _kind(theirs):
    """Return what tells the loaders of one step apart, and is the same for one that is built anew every epoch."""
    return type(getattr(theirs, "_dataset", None)), _length(theirs)


def _length(theirs):
    try:
        return len(theirs)
    except TypeError:  # a stream that does not know
        return sys.maxsize


def _keep(firsts, dataset, batch):
    key = id(dataset)
    try:
        life = wrapping.when_gone(dataset, firsts.pop, key, None)
    except TypeError:  # a list: it is kept alive, so that no other gets its id
        life = dataset
    firsts[key] = (life, Replayed(batch))


def _replayed(theirs, first):
    """Return the first batch as the next of this iterator, which ends when it would have ended."""
    yielded = getattr(theirs, "_num_yielded", 0)
    if yielded >= _length(theirs):
        raise StopIteration
    theirs._num_yielded = yielded + 1
    return first.again()


def _listen(trial):
    """Keep the names of the files that this process opens for reading: once each, written when it ends."""
    seen = set()
    state = {"pid": os.getpid(), "file": None}

    def hook(event, args):
        if event != "open":
            return
        path, mode, flags = args
        if not isinstance(path, str) or (isinstance(mode, str) and mode.strip("rbtU")) or path in seen:
            return
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_DIRECTORY):
            return
        seen.add(path)
        if len(seen) < 200000:  # names kept by one process
            _append(state, trial.files, path)

    wrapping.listen(hook)


def _append(state, target, path):
    try:
        if state["file"] is None:
            state["file"] = os.open(
                target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
        os.write(state["file"], os.fsencode(os.path.abspath(path)) + b"\n")
    except Exception:
        state["file"] = -1  # nowhere to write: the host finds no names


def leave(batches):
    """End the script here, in the `next()` after so many batches, through its own doors."""
    current.end(batches)
    current.leave()


def _begin():
    asked = json.loads(os.environ["GPUTUNE_TRIAL"])
    if not isinstance(asked, dict):
        raise ValueError("GPUTUNE_TRIAL is no object")
    return _Trial(asked)


def _hook(module):
    import torch

    global current
    current = trial = _begin()
    if trial.seed is not None:
        random.seed(int(trial.seed))
        torch.manual_seed(int(trial.seed))
    if trial.files:
        _listen(trial)
    if trial.where:
        _there(module.DataLoader, trial)
    base = module._BaseDataLoaderIter
    wrapping.put(base, "__next__", lambda original: _next(original, trial))


def _numpy(module):
    """Begin the numbers that all of numpy draws from; workers have been given a seed each by torch."""
    seed = (current or _begin()).seed
    if seed is not None and not ring.is_worker():
        module.seed(int(seed) % (1 << 32))  # that numpy knows


HOOKS = {"torch.utils.data.dataloader": _hook, "numpy.random": _numpy}
