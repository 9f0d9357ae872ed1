"""Whether a dataset asks which worker it runs in: an iterable one that does not gives every worker all its samples."""

import functools
import os
import sys

from gputune_guest import patching, ring

OWN = "torch.utils.data."  # torch's collate function asks as well, to know where to put a batch

_asked = False


def _get_worker_info(original):
    @functools.wraps(original)
    def get_worker_info():
        global _asked
        if not _asked:
            try:
                if not sys._getframe(1).f_globals.get("__name__", "").startswith(OWN):
                    _asked = True
                    ring.note(n="shards")
            except Exception as error:
                ring.failed(error)
        return original()

    return get_worker_info


def _hook(module):
    exported = [sys.modules.get(name) for name in ("torch.utils.data", "torch.utils.data.dataloader")]
    patching.patch(module, "get_worker_info", _get_worker_info, *exported)


def _forked():
    """In a forked child, which is to tell of itself."""
    global _asked
    _asked = False


os.register_at_fork(after_in_child=_forked)
HOOKS = {"torch.utils.data._utils.worker": _hook}
