"""What a step does before its first module call: the time from getting a batch to `model(batch)`, on sampled steps.

A global forward pre-hook is put in place for one call and takes itself away: the modules of all other steps run on
torch's short path, and nothing is compiled, traced or guarded differently. Needs torch 2, whose modules look at a copy
of their hooks while they call them.
"""

from gputune_guest import ring
from gputune_guest.words import FORWARD

now = ring.now
record = ring.record

KEY = "gputune"
OFTEN = 128  # steps at a run's beginning of which every fourth is looked at; later every 64th is

iterators = {}  # the iterators that are alive: loader.py puts its own here
_hooks = None  # torch's global forward pre-hooks
_steps = 0  # optimizer steps without a batch from a DataLoader


def after_batch(mine, index, t1):
    """Look at the step that begins with this batch, the `index`-th (every fourth) of the iterator `mine`."""
    if _hooks is None or ring.here.phase is not None or (index >= OFTEN and index & 63):
        return

    def first(_module, _args):
        _hooks.pop(KEY, None)
        if mine.count == index + 1:  # else it belongs to a later batch: this step had no module call
            record(FORWARD, 0, t1, now())

    _hooks[KEY] = first


def after_step(t1):
    """Look at what comes after an optimizer step in a loop that gets its batches without a DataLoader."""
    global _steps
    _steps += 1
    here = _steps
    if _hooks is None or iterators or (here & 3 if here < OFTEN else here & 63):
        return

    def first(_module, _args):
        _hooks.pop(KEY, None)
        if here == _steps:
            record(FORWARD, 1, t1, now())

    _hooks[KEY] = first


def _hook(torch):
    global _hooks
    if int(torch.__version__.split(".")[0]) >= 2:
        _hooks = getattr(torch.nn.modules.module, "_global_forward_pre_hooks", None)
        ring.at_farewell(lambda: _hooks is not None and _hooks.pop(KEY, None))


HOOKS = {"torch": _hook}
