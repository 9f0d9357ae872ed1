"""Settings of DataLoaders, changed as they are built: for those who asked for it in `GPUTUNE_OVERRIDE`.

The variable holds JSON: a list of rules `{"where": "train.py:41", "set": {"num_workers": 6}, "duplicates": false}`.
A rule without `where` is for every loader that draws its samples in random order, which is how training ones are told
from others before either has been iterated. `"most": {"num_workers": 2}` in a rule lowers what is higher, of every
loader. The loader keeps its type, its dataset, its samplers and its order; what would be wrong for it is refused, with
the reason, in the note `override`, and then it stays as its script has it.

Without the variable this module is not even imported.
"""

import inspect
import json
import os

from gputune_guest import places, ring, wrapping

SETTINGS = (
    "num_workers",
    "prefetch_factor",
    "pin_memory",
    "persistent_workers",
    "batch_size",
    "in_order",
)
NEED_WORKERS = ("prefetch_factor", "persistent_workers", "in_order")  # meaningless in the training process itself
FLAGS = ("pin_memory", "persistent_workers", "in_order")
LEAST = {"num_workers": 0}  # of the others: 1
OF_WORKERS = {"prefetch_factor": None, "persistent_workers": False, "multiprocessing_context": None, "timeout": 0}
ITERABLE = "its dataset is a stream: unless it shares itself out, each worker would return all of it"


_said = set()  # what was told already


class Refused(Exception):  # noqa: N818 - named for what happened
    """A setting would be wrong for this loader; the message says why."""


def rules(text):
    """Return the rules in `text`. Raises ValueError where it is not what the module's docstring describes."""
    found = json.loads(text)
    if not isinstance(found, list):
        raise ValueError("GPUTUNE_OVERRIDE is no list")
    for rule in found:
        if not isinstance(rule, dict) or not isinstance(rule.get("set"), dict) or not set(rule["set"]) <= set(SETTINGS):
            raise ValueError("GPUTUNE_OVERRIDE has a rule that sets nothing known: %r" % (rule,))
        most = rule.get("most", {})
        if not isinstance(most, dict) or not set(most) <= {"num_workers"}:
            raise ValueError("GPUTUNE_OVERRIDE has a rule that bounds nothing known: %r" % (rule,))
    return found


def _hook(module):
    _put_into(module.DataLoader)


def _hook_stateful(module):
    _put_into(module.StatefulDataLoader)  # its constructor does not call torch's


def _put_into(kind):
    told = rules(os.environ["GPUTUNE_OVERRIDE"])
    if told:
        wrapping.put(kind, "__init__", lambda original: _changed(original, told))


def _changed(original, told):
    """Wrap `DataLoader.__init__`. What a subclass hands up arrives here, and `wraps` keeps the signature."""
    signature = inspect.signature(original)

    def ours(original, self, *args, **kwargs):
        try:
            where, _file = places.caller(0)
            theirs = signature.bind(self, *args, **kwargs)
            wanted, duplicates = _wanted(told, where, theirs)
            change, ours, refused = _planned(theirs, wanted, signature, duplicates)
        except Exception as error:  # their own mistake in the call, or one of ours: torch has the word
            if not isinstance(error, TypeError):
                ring.failed(error)
            return original(self, *args, **kwargs)
        result = None
        try:
            if change:
                result = original(*ours.args, **ours.kwargs)
        except Exception as error:  # what torch says of the changed settings is not the user's to read
            refused.update(dict.fromkeys(change, "torch refuses it: %s" % str(error)[:200]))
            change = {}
        if wanted:
            _say(where, change, refused, theirs.arguments)
        return result if change else original(self, *args, **kwargs)

    return wrapping.instead(original, ours)


def _say(where, change, refused, arguments):
    """Tell what was done, or that there was nothing to do; once, of a loader that is built again every epoch."""
    before = {name: arguments.get(name) for name in change}
    note = {"where": where, "change": change, "before": before, "refused": refused}
    key = repr(note)
    if key not in _said:
        _said.add(key)
        ring.note(n="override", **note)


def _wanted(told, where, theirs):
    """Return (settings that the rules want for this loader, whether samples may come twice)."""
    wanted, duplicates = {}, False
    for rule in told:
        place = rule.get("where")
        if place == where or (not place and _is_shuffled(theirs.arguments)):
            wanted.update(rule["set"])
            duplicates = duplicates or bool(rule.get("duplicates"))
        most = rule.get("most", {}).get("num_workers")
        workers = wanted.get("num_workers", theirs.arguments.get("num_workers", 0))
        if most is not None and workers > most:
            wanted["num_workers"] = most
    return wanted, duplicates


def _is_shuffled(arguments):
    """Return whether a loader draws its samples in random order, as far as its arguments tell."""
    if arguments.get("shuffle"):
        return True
    sampler = arguments.get("sampler") or getattr(arguments.get("batch_sampler"), "sampler", None)
    name = type(sampler).__name__
    return "Random" in name or ("Distributed" in name and bool(getattr(sampler, "shuffle", False)))


def _planned(theirs, settings, signature, duplicates):
    """Return (settings that change, bound arguments with them, refused settings with the reason)."""
    change, refused = {}, {}
    ours = signature.bind(*theirs.args, **theirs.kwargs)
    arguments = ours.arguments
    workers = settings.get("num_workers", arguments.get("num_workers", 0))
    for name in SETTINGS:  # the number of workers first: others hang on it
        if name not in settings:
            continue
        try:
            value = _checked(name, settings[name], arguments, workers, signature, duplicates)
            if _present(theirs.arguments, name, signature) == value:
                continue
            _put(name, value, ours)
            change[name] = value
        except Refused as reason:
            refused[name] = str(reason)
            if name == "num_workers":
                workers = arguments.get("num_workers", 0)
    if not workers:
        for name, none in OF_WORKERS.items():  # torch takes these for mistakes without workers
            if arguments.pop(name, none) != none and name in change:
                del change[name]
    return change, ours, refused


def _checked(name, value, arguments, workers, signature, duplicates):  # noqa: PLR0913, PLR0917 - what reasons hang on
    """Return a setting's value if it may be had for this loader. Raises Refused."""
    if name not in signature.parameters:
        raise Refused("this torch has no such setting")
    if name in FLAGS:
        if not isinstance(value, bool):
            raise Refused("%r is neither true nor false" % (value,))
    elif isinstance(value, bool) or not isinstance(value, int) or value < LEAST.get(name, 1):
        raise Refused("%r is no such number" % (value,))
    if name in NEED_WORKERS and not workers:
        raise Refused("it needs workers")
    more = name == "num_workers" and value > max(1, arguments.get("num_workers", 0))
    if more and not duplicates and _is_stream(arguments.get("dataset")):
        raise Refused(ITERABLE)
    if name == "batch_size":
        _check_batches(arguments)
    if name == "pin_memory" and value and not _has_device():
        raise Refused("there is no device here to pin memory for")
    return value


def _check_batches(arguments):
    """Raise Refused unless the loader's batches are made by torch's own sampler."""
    sampler = arguments.get("batch_sampler")
    if sampler is None and arguments.get("batch_size", 1) is None:
        raise Refused("its dataset makes the batches")
    if sampler is not None and not _is_plain(sampler):
        raise Refused("its batch sampler decides: %s" % type(sampler).__name__)


def _is_stream(dataset):
    from torch.utils.data import IterableDataset

    return isinstance(dataset, IterableDataset)


def _is_plain(sampler):
    from torch.utils.data import BatchSampler

    return type(sampler) is BatchSampler


def _has_device():
    import torch

    accelerator = getattr(torch, "accelerator", None)
    return bool(accelerator.is_available() if accelerator is not None else torch.cuda.is_available())


def _present(arguments, name, signature):
    """Return the value that the script has given a setting, or its default."""
    if name == "batch_size" and arguments.get("batch_sampler") is not None:
        return getattr(arguments["batch_sampler"], "batch_size", None)
    value = arguments.get(name, signature.parameters[name].default)
    if name == "prefetch_factor" and value is None and arguments.get("num_workers", 0):
        return 2  # what torch takes then
    return value


def _put(name, value, ours):
    arguments = ours.arguments
    batches = arguments.get("batch_sampler")
    if name == "batch_size" and batches is not None:
        arguments["batch_sampler"] = type(batches)(batches.sampler, value, batches.drop_last)  # a plain one: _is_plain
    else:
        arguments[name] = value


HOOKS = {
    "torch.utils.data.dataloader": _hook,
    "torchdata.stateful_dataloader.stateful_dataloader": _hook_stateful,
}
