"""The settings of a DataLoader, as they are when it is iterated, and the line of the user's code that built it."""

import multiprocessing

from gputune_guest import places, ring, wrapping

MOST = 64  # loaders of one key that are told apart; a script that keeps more alive at once shares their last id

_built = {}  # id of a loader to (weak reference, where, file)
_told = {}  # id of a loader to (settings, what of() returned)
_iterated = set()  # ids of loaders that had an iterator
_ids = {}  # settings to [(id, weak reference to the loader that has it)]
_count = 0
_default_collate = None
_of_their_own = []  # classes of loaders that make other iterators than torch's
UNKNOWN = (0, 0, False, 0)  # what of() would say of a loader that nobody knows


def prepare(torch):
    """Learn what torch's own collate function is."""
    global _default_collate
    _default_collate = torch.utils.data._utils.collate.default_collate


def has_its_own(kind):
    """Learn of a class whose iterators are no torch's: they cannot be served under other settings."""
    _of_their_own.append(kind)


def remember(original):
    """Wrap `DataLoader.__init__`: remember who called it. `wraps` keeps the signature that frameworks inspect."""

    def before(args, kwargs):
        _remember(args[0], 1, args[1] if len(args) > 1 else kwargs.get("dataset"))

    return wrapping.opaque(wrapping.around(original, before))


def _remember(loader, depth, dataset=None):
    where, file = places.caller(depth)
    if dataset is not None and places.in_library(depth):
        where, file = _over(dataset) or (where, file)
    built_at(loader, where, file)


def _over(dataset):
    """Return the place of a loader over a dataset: a framework that builds it anew has the settings from there."""
    for known, where, file in list(_built.values()):
        if getattr(known(), "dataset", None) is dataset:
            return where, file
    return None


def first(loader):
    """Return whether a loader has its first iterator now. Asked once an iterator, after `of`."""
    key = id(loader)
    if key in _iterated or key not in _built:
        return False
    _iterated.add(key)
    return True


class Stranger:
    """Stands for a loader of which only an iterator is seen, as that was made before us: it keeps the settings."""

    def __init__(self, theirs):
        self.dataset, self.collate_fn, self.drop_last = theirs._dataset, theirs._collate_fn, theirs._drop_last
        self.num_workers, self.pin_memory, self._dataset_kind = (
            theirs._num_workers,
            theirs._pin_memory,
            theirs._dataset_kind,
        )
        self.persistent_workers = bool(getattr(theirs, "_persistent_workers", False))
        self.prefetch_factor = getattr(theirs, "_prefetch_factor", None)
        self.in_order = getattr(theirs, "_in_order", True)
        self.batch_sampler = theirs._index_sampler if theirs._auto_collation else None
        self.batch_size = getattr(self.batch_sampler, "batch_size", None)
        self.sampler = getattr(self.batch_sampler, "sampler", None) if self.batch_sampler else theirs._index_sampler
        self._index_sampler = theirs._index_sampler


def place(loader):
    """Return (where, file) of the code that built a loader, empty where that was not seen."""
    return _built.get(id(loader), (None, "", ""))[1:]


def built_at(loader, where, file):
    """Remember where a loader, or what stands for one under other settings, was built."""
    key = id(loader)
    _built[key] = (wrapping.when_gone(loader, _forget, key), where, file)


def _forget(key):
    _built.pop(key, None)
    _told.pop(key, None)
    _iterated.discard(key)


def of(loader, depth):
    """Return (id of the loader, batch size or 0, whether torch's own function collates, batches or 0 if unknown).

    Says the settings in a note when they are new. A loader that is built again with the same settings on the
    same line, after the earlier one is gone, is the same loader. `depth` is the caller's distance from the user's code.
    """
    key = id(loader)
    if key not in _built:  # unpickled, copied, or built before us: the line that iterates it is the next best
        _remember(loader, depth)
    mine = _settings(loader)
    told = _told.get(key)
    if told is not None and told[0] == mine:
        return told[1]
    number, length = _number(loader, mine, key)
    sized = loader.collate_fn is _default_collate
    # out of order, the batch that is not full may come at any time
    result = (number, mine["batch_size"] or 0, sized, length or 0 if mine["in_order"] else 0)
    _told[key] = (mine, result)
    return result


def _settings(loader):
    where, file = _built[id(loader)][1:]
    sampler = type(getattr(loader, "sampler", None)).__name__
    batch_size = loader.batch_size
    if batch_size is None:
        batch_size = getattr(getattr(loader, "batch_sampler", None), "batch_size", None)
    more = {"replay": True} if "_gputune_replay" in vars(loader) else {}  # see loader_proxy.py
    if any(isinstance(loader, kind) for kind in _of_their_own):
        more["own_kind"] = type(loader).__name__
    return {
        "where": where,
        "file": file,
        "num_workers": loader.num_workers,
        "prefetch_factor": loader.prefetch_factor if loader.num_workers else None,
        "pin_memory": bool(loader.pin_memory),
        "persistent_workers": bool(getattr(loader, "persistent_workers", False)),
        "batch_size": batch_size if type(batch_size) is int else None,
        "in_order": bool(getattr(loader, "in_order", True)),
        "iterable": loader._dataset_kind == 1,  # _DatasetKind.Iterable
        "drop_last": bool(loader.drop_last),
        "shuffle": {"RandomSampler": True, "SequentialSampler": False}.get(sampler),
        "order": _order(loader),
        "dataset": type(loader.dataset).__name__,
        "start_method": start_method(loader),
        "worker_init": getattr(loader, "worker_init_fn", None) is not None,
        "collate": getattr(loader.collate_fn, "__qualname__", type(loader.collate_fn).__name__),
        **more,
    }


def _order(loader):
    """Return how the order of samples comes about, None where no sampler of torch's makes it.

    `fixed`: no random number is drawn that anybody else draws; `own`: drawn from the loader's generator; `shared`: from
    the one of the process.
    """
    batches = getattr(loader, "batch_sampler", None)
    sampler = getattr(loader, "sampler", None)
    if batches is not None:
        sampler = getattr(batches, "sampler", None) if _is_torch_s(batches, ("BatchSampler",)) else None
    if _is_torch_s(sampler, ("SequentialSampler", "DistributedSampler")):
        return "fixed"
    if not _is_torch_s(sampler, ("RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler")):
        return None
    generator = getattr(sampler, "generator", None)
    if generator is None:
        return "shared"
    if type(sampler).__name__ == "RandomSampler" and sampler.replacement:  # it draws as it goes
        return None
    return "own" if generator is getattr(loader, "generator", None) else "fixed"


def _is_torch_s(sampler, names):
    return type(sampler).__name__ in names and type(sampler).__module__.startswith("torch.")


def start_method(loader):
    """Return how its workers start, without deciding it: asking multiprocessing for the default would fix it."""
    context = getattr(loader, "multiprocessing_context", None)
    name = getattr(context, "_name", None)
    return name or multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]


def _number(loader, mine, key):
    """Return the id for these settings, and say them if they are new."""
    length, samples = _lengths(loader, mine)
    same = _ids.setdefault((length, samples, *sorted(mine.items(), key=str)), [])
    for index, (told, owner) in enumerate(same):
        if owner() is None or owner() is loader or index == MOST - 1:
            same[index] = (told, _built[key][0])
            return told, length
    same.append((number(), _built[key][0]))
    beside, idle = _beside(loader, mine)
    ring.note(n="loader", id=_count, length=length, samples=samples, beside=beside, idle=idle, **mine)
    return _count, length


def _beside(loader, mine):
    """Return (loaders over other data that the same line has built by now, and that live; of these, never iterated).

    What stands for a loader under other settings is no loader: nobody iterates it.
    """
    place = mine["where"], mine["file"]
    others = [known() for known, where, file in list(_built.values()) if (where, file) == place]
    others = [other for other in others if getattr(other, "dataset", loader.dataset) is not loader.dataset]
    others = [other for other in others if hasattr(type(other), "__iter__")]
    return len(others), sum(id(other) not in _iterated for other in others)


def number():
    """Return the id of the next loader, or pipeline, that is told of."""
    global _count
    _count += 1
    return _count


def _lengths(loader, mine):
    """Return (batches, samples), None where unknown; not asked of an iterable dataset: torch remembers being asked."""
    if mine["iterable"]:
        return None, None
    return _length(getattr(loader, "_index_sampler", None)), _length(loader.dataset)


def _length(what):
    try:
        return len(what)
    except Exception:  # theirs to raise, or there is none
        return None


def _forked():
    """In a forked child: what the parent's ring was told, its own was not."""
    _told.clear()
    _iterated.clear()
    _ids.clear()


wrapping.after_fork(_forked)
