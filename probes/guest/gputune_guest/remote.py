"""Calls of `torch.distributed.rpc` that the training thread waits for: a parameter server's pulls and pushes.

These are `rpc_sync`, `RRef.to_here` and `Future.wait` of a call without waiting. They are communication of two, and
make no rounds. `Future.wait` is left alone until `init_rpc` has run: without it, futures are of something else.

A process whose functions others call says so once: what its threads do then is the callers' step and not its own.
"""

import functools
import sys

from gputune_guest import patching, ring, spans, wrapping
from gputune_guest.words import COLLECTIVE

ITSELF = "torch.distributed.rpc.api"  # its calls are how processes come together, and leave
_serves = False


def _trains(_args):
    """Return True, once the thread that is about to wait is known for the one that trains.

    A trainer that was called by RPC itself runs in a thread of that; where its parameters are stepped elsewhere, no
    optimizer says so.
    """
    if ring.untrained and spans.here.passes and _serves:
        ring.untrained = False
        spans.train_here()
    return True


_waits = functools.partial(spans.timed, COLLECTIVE, least=spans.SHORT, wanted=_trains)


def _served(original):
    """Wrap what runs a function for another process."""

    def before(args, _kwargs):
        global _serves
        if not _serves and getattr(args[0].func, "__module__", "") != ITSELF:
            _serves = True
            ring.note(n="process", serves=True)

    return wrapping.around(original, before)


def _joined(original):
    def after(_begun, _result, error):
        if error is None:
            patching.patch(sys.modules["torch"]._C.Future, "wait", _waits("Future.wait"))

    return wrapping.around(original, wrapping.always, after)


def _hook(module):
    package = sys.modules.get("torch.distributed.rpc")
    patching.patch(module, "rpc_sync", _waits("torch.distributed.rpc.rpc_sync"), package)
    patching.patch(module, "shutdown", _waits("torch.distributed.rpc.shutdown"), package)
    patching.patch(module.PyRRef, "to_here", _waits("RRef.to_here"))  # `RRef` calls it as well


def _forked():
    global _serves
    _serves = False


wrapping.after_fork(_forked)
HOOKS = {
    "torch.distributed.rpc": lambda package: patching.patch(package, "init_rpc", _joined),
    "torch.distributed.rpc.api": _hook,
    "torch.distributed.rpc.internal": lambda module: patching.patch(module, "_run_function", _served),
}
