"""A training that the host steers while it runs: orders come through the file in `GPUTUNE_STEER` (docs/steering.md).

What is patched here stays patched when the guest steps back: an iterator that others serve needs them to the end.
Without the variable this module is not even imported.
"""

import functools
import os

from gputune_guest import loader, making, ring, samplers, shells
from gputune_guest.orders import Orders


def _hook(module):
    live = not os.environ.get("GPUTUNE_TRIAL")
    try:
        orders = Orders(os.environ["GPUTUNE_STEER"], live)
        maker = making.Maker(module)
    except Exception as error:  # no such file, a torch of another kind
        ring.note(n="steer", seq=0, state="refused", why="%s: %s" % (type(error).__name__, error))
        return
    loader.describe = shells.described
    base, several = maker.base, maker.several
    base.__next__ = _next(base.__next__, orders)
    maker.single.__init__ = _constructed(maker.single.__init__, maker, orders)
    several.__init__ = _constructed_several(several.__init__, maker, orders)
    several._reset = _reset(several._reset)
    if live:
        base._next_index = samplers.watched(base._next_index)


def _next(original, orders):
    known, word = shells.shells, orders.word

    @functools.wraps(original)
    def following(self):
        shell = known.get(id(self))
        if shell is None:
            return original(self)
        if word[0] != orders.seen:
            orders.look()
        if shell.busy or shell.turn != orders.turn:
            return shell.step(self, original)
        if shell.behind is None:
            return original(self)
        return shell.take(self, original)

    return following


def _constructed(original, maker, orders):
    @functools.wraps(original)
    def init(self, loader, *args, **kwargs):
        if orders.live:
            samplers.observe(self, loader)
        original(self, loader, *args, **kwargs)
        _know(self, loader, maker, orders)

    return init


def _constructed_several(original, maker, orders):
    @functools.wraps(original)
    def init(self, loader, *args, **kwargs):
        found = None
        try:
            orders.look()
            found = shells.served_from_the_start(self, loader, maker, orders)
        except Exception as error:
            ring.failed(error)
        if found is None:
            if orders.live:
                samplers.observe(self, loader)
            original(self, loader, *args, **kwargs)
            _know(self, loader, maker, orders)
        else:
            maker.bare(self, loader)
            order, wanted = found
            shells.Shell(self, loader, maker, orders).begin(self, wanted, order)

    return init


def _know(theirs, of, maker, orders):
    try:
        shells.Shell(theirs, of, maker, orders)
    except Exception as error:
        ring.failed(error)


def _reset(original):
    @functools.wraps(original)
    def _reset(self, loader, *args, **kwargs):
        shell = shells.shells.get(id(self))
        if shell is None:  # inside its construction, or one of ours
            return original(self, loader, *args, **kwargs)
        return shell.reset(self, loader, original)

    return _reset


HOOKS = {"torch.utils.data.dataloader": _hook}
