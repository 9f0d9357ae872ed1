"""Whether a dataset asks how many workers there are: an iterable one that does not gives every worker all its samples.

Who asks for the rest alone, its seed say, shares nothing out by it.
"""

import sys

from gputune_guest import patching, places, ring, wrapping

OWN = "torch.utils.data."  # torch's collate function asks as well, to know where to put a batch
REST = {"seed", "id", "dataset"}  # what else the description of a worker has

_asked = False


def _get_worker_info(original):
    def before(_args, _kwargs):
        global _asked
        if not _asked:
            asks = places.outside(sys._getframe().f_back)
            if not asks.f_globals.get("__name__", "").startswith(OWN) and _shares(asks.f_code.co_names):
                _asked = True
                ring.note(n="shards")

    return wrapping.around(original, before)


def _shares(names):
    """Return whether code that uses these names may share samples out: it hands that on, or reads how many."""
    return "num_workers" in names or not REST.intersection(names)


def _hook(module):
    exported = [sys.modules.get(name) for name in ("torch.utils.data", "torch.utils.data.dataloader")]
    patching.patch(module, "get_worker_info", _get_worker_info, *exported)


def _forked():
    """In a forked child, which is to tell of itself."""
    global _asked
    _asked = False


wrapping.after_fork(_forked)
HOOKS = {"torch.utils.data._utils.worker": _hook}
