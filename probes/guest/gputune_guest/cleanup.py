"""Memory that a script cleans up itself: Python's garbage, and what torch's allocator keeps of a device's."""

import sys

from gputune_guest import patching, spans
from gputune_guest.words import CLEANUP

LEAST = 20_000  # ns: garbage of the youngest generation may be collected at every step


def _hook_gc(module):
    patching.patch(module, "collect", spans.timed(CLEANUP, "gc.collect", LEAST, anywhere=False))


def _hook_cuda(module):
    make = spans.timed(CLEANUP, "torch.cuda.empty_cache", LEAST, anywhere=False)
    patching.patch(module, "empty_cache", make, sys.modules.get("torch.cuda"))


HOOKS = {"gc": _hook_gc, "torch.cuda.memory": _hook_cuda}
