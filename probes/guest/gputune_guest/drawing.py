"""Whether a pause of the training draws from random generators: then one that comes more rarely changes what follows.

The states of the generators that everybody shares (torch's, those of devices, `random`, numpy) and of those that the
loaders of the training have are compared before a pause and after it, and from there to the next one, in which the
training draws. A look takes some 50 µs; there are at most four a second of each kind of pause.
"""

import ctypes
import itertools
import pickle
import random
import sys
import weakref

from gputune_guest import ring, wrapping

APART_NS = (
    250_000_000  # between looks at pauses of one kind: two states each are then less than a thousandth of the time
)
LOADERS = 8  # of the training, whose own generators are looked at: those that came last

now = ring.now
_kinds = {}  # code of a span to its _Kind
_loaders = []  # (name of what it has of its own, weak reference)
_numbers = itertools.count(1)
OWN = "own"  # of a loader


class _Kind:
    """What is known of the pauses of one kind, and the states at the end of the last one, None if it was not seen."""

    __slots__ = ("due", "left", "moved", "told", "training", "unsure")

    def __init__(self):
        self.due = 0
        self.left = self.told = None
        self.moved, self.training = set(), set()
        self.unsure = False


class Look:
    """The states before a pause that goes on; `latest` those at a later moment that was surely still in it."""

    __slots__ = ("before", "code", "latest")

    def __init__(self, code, before):
        self.code, self.before, self.latest = code, before, None

    def still(self):
        """Take notice that the training does not draw yet."""
        self.latest = states() or self.latest


def trains(loader):
    """Take notice of a loader that is not iterated by a pause."""
    try:
        if not any(known() is loader for _name, known in _loaders):
            _loaders.append(("%s.%d" % (OWN, next(_numbers)), weakref.ref(loader)))
            del _loaders[:-LOADERS]
    except TypeError:  # one that cannot be referred to
        return


def begin(code, before=None):
    """Return a Look at a pause that begins, None where none is due; `before`: the states, where they were taken."""
    t = now()
    kind = _kinds.get(code) or _new(code)
    if t < kind.due:
        kind.left = None
        return None
    before = before or states()
    kind.due = t + APART_NS
    if before is None:
        kind.left = None
        return None
    if kind.left is not None:
        kind.training |= _differ(kind.left, before)
    return Look(code, before)


def is_due(code):
    """Return whether the next pause of a kind is to be looked at."""
    kind = _kinds.get(code)
    return kind is None or now() >= kind.due


def _new(code):
    _kinds[code] = kind = _Kind()
    return kind


def end(look, surely=True):
    """Compare after a pause. Not `surely`: the training may have drawn since, but not before `look.still()`."""
    if look is None:
        return
    kind = _kinds.get(look.code)
    after = states()
    if kind is None or after is None:  # of a parent
        return
    last = after if surely else look.latest
    moved = _differ(look.before, last) if last is not None else set()
    kind.moved |= moved
    kind.unsure = kind.unsure or (not surely and bool(_differ(look.before, after) - moved))
    kind.left = after if surely else None
    told = (_names(kind.moved), kind.unsure, _names(kind.moved & kind.training))
    if told != kind.told:
        kind.told = told
        ring.note(n="drew", span=look.code, of=told[0], unsure=told[1], shared=told[2])


def _names(found):
    return sorted({name.partition(".")[0] if name.startswith(OWN) else name for name in found})


def _differ(before, after):
    """Return the names of the states that are in both, and are not the same."""
    return {name for name, state in after.items() if before.get(name, state) != state}


def states():
    """Return a hash of the state of each generator by its name, None where it cannot be told."""
    try:
        torch = sys.modules["torch"]
        found = {"random": hash(random.getstate())}
        with torch._C.DisableTorchFunction():  # no mode is told of it, of theirs or of ours
            found.update(_of_torch(torch))
        numpy = sys.modules.get("numpy.random")
        if numpy is not None:
            found["numpy"] = hash(pickle.dumps(numpy.get_state(legacy=False)))
    except Exception:  # another torch, or a capture of a graph is under way
        return None
    return found


def _of_torch(torch):
    found = {"torch": _hash(torch.default_generator)}
    if torch.cuda.is_initialized():
        found["torch.cuda"] = hash(tuple(map(_hash, torch.cuda.default_generators)))
    for name, known in _loaders:
        own = _own(known())
        if own:
            found[name] = hash(tuple(map(_hash, own)))
    return found


def _hash(generator):
    state = generator.get_state()
    return hash(ctypes.string_at(state.data_ptr(), state.numel()))


def _own(loader):
    """Return the generators that a loader and its samplers have."""
    if loader is None:
        return []
    batches = vars(loader).get("batch_sampler")
    holders = (loader, vars(loader).get("sampler"), getattr(batches, "__dict__", {}).get("sampler"))
    found = {id(each): each for each in (getattr(one, "__dict__", {}).get("generator") for one in holders)}
    return [each for each in found.values() if each is not None]


def _forked():
    _kinds.clear()


wrapping.after_fork(_forked)
