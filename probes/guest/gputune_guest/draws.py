"""Whether samples draw random numbers where they are made: then another number of workers makes other samples of them.

Looked at in the first batches of each process that makes any, of a training that may be steered (`GPUTUNE_STEER`): the
states that everybody shares, of torch, `random` and numpy, before and after. A generator that a dataset holds for
itself is not seen. In the training process itself such draws also move what the training draws.
"""

import functools
import os

from gputune_guest import ring
from gputune_guest.randomness import randomness

LOOKS = 4  # batches of a process that are looked at

_looks = LOOKS
_drawn = set()


def _fetch(original):
    @functools.wraps(original)
    def fetch(self, index):
        global _looks
        if not _looks:
            return original(self, index)
        _looks -= 1
        before = _looked()
        try:
            return original(self, index)
        finally:
            _compare(before, _looked())

    return fetch


def _looked():
    try:
        return randomness()
    except Exception as error:
        ring.failed(error)
        return {}


def _compare(before, after):
    moved = {name for name in after if after[name] != before.get(name, after[name])}
    if moved - _drawn or (not _looks and not _drawn):
        _drawn.update(moved)
        ring.note(n="draws", of=sorted(_drawn), inline=not ring.is_worker())


def _hook(module):
    for kind in (module._MapDatasetFetcher, module._IterableDatasetFetcher):
        kind.fetch = _fetch(kind.fetch)


def _forked():
    global _looks
    _looks = LOOKS
    _drawn.clear()


os.register_at_fork(after_in_child=_forked)
HOOKS = {"torch.utils.data._utils.fetch": _hook}
