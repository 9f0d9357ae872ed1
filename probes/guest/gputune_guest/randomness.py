"""Random states: those of this process that everybody shares, and those of generators that an object holds."""

import pickle
import random
import sys
from functools import partial
from itertools import islice
from types import FunctionType, MethodType, ModuleType

WIDE = 100  # of the elements of one container: lists of file names hold none


def randomness():
    """Return the states of torch's default generator, of `random` and, where it is loaded, of numpy, by their names."""
    states = {"random": random.getstate()}
    torch_state = getattr(sys.modules["torch"], "get_rng_state", None)
    if torch_state is not None:
        states["torch"] = torch_state().tolist()
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        states["numpy"] = pickle.dumps(numpy.get_state(legacy=False))
    return states


def held(root):
    """Return the states of the generators that an object holds, through its attributes, containers and closures.

    Nothing of the user's is run for it: no property, no method of theirs.
    """
    states, todo, seen = [], [root], set()
    while todo and len(seen) < 2000:  # objects that are looked through for generators
        each = todo.pop()
        if id(each) in seen or issubclass(type(each), _PLAIN):
            continue
        seen.add(id(each))
        state = _state(each)
        if state is not None:
            states.append(state)
        else:
            todo.extend(_parts(each))
    return states


_PLAIN = (type(None), bool, int, float, complex, str, bytes, bytearray, type, ModuleType)
_SEQUENCES = (list, tuple, set, frozenset)


def _state(each):
    """Return the state of a generator, None of anything else."""
    kind = type(each)
    if issubclass(kind, random.SystemRandom):  # the system's: it has none, and never repeats itself
        return None
    if issubclass(kind, random.Random):
        return random.Random.getstate(each)
    generator = getattr(sys.modules["torch"], "Generator", None)
    if generator is not None and issubclass(kind, generator):
        return each.get_state().tolist()
    numpy = sys.modules.get("numpy.random")
    if numpy is not None and issubclass(kind, numpy.Generator):
        return pickle.dumps(each.bit_generator.state)
    if numpy is not None and issubclass(kind, numpy.RandomState):
        return pickle.dumps(each.get_state(legacy=False))
    return None


def _parts(each):
    """Return what an object holds."""
    kind = type(each)
    if issubclass(kind, dict):
        return list(islice(dict.values(each), WIDE))
    for sequence in _SEQUENCES:
        if issubclass(kind, sequence):
            return list(islice(sequence.__iter__(each), WIDE))
    if kind is MethodType:
        return [each.__self__, each.__func__]
    if kind is FunctionType:
        return [cell.cell_contents for cell in each.__closure__ or () if _is_filled(cell)] + list(
            each.__defaults__ or ()
        )
    parts = [each.func, each.args, each.keywords] if kind is partial else []
    try:
        attributes = object.__getattribute__(each, "__dict__")
    except AttributeError:
        return parts
    return parts + list(islice(dict.values(attributes), WIDE))


def _is_filled(cell):
    try:
        cell.cell_contents  # noqa: B018 - an empty one raises
    except ValueError:
        return False
    return True
