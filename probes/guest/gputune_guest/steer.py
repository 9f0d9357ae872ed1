"""A training that the host steers while it runs: orders come through the file in `GPUTUNE_STEER` (docs/steering.md).

What is patched here stays patched when the guest steps back: an iterator that others serve needs them to the end.
Without the variable this module is not even imported.
"""

import os

from gputune_guest import draining, iterators, loader, loader_proxy, ring, samplers, wrapping
from gputune_guest.orders import Orders


def _hook(module):
    live = not os.environ.get("GPUTUNE_TRIAL")
    try:
        orders = Orders(os.environ["GPUTUNE_STEER"], live)
        maker = iterators.Maker(module)
    except Exception as error:  # no such file, a torch of another kind
        ring.note(n="steer", seq=0, state="refused", why="%s: %s" % (type(error).__name__, error))
        return
    loader.describe = loader_proxy.described
    draining.makes_its_own = _makes_its_own
    base, several = maker.base, maker.several
    wrapping.put(base, "__next__", lambda original: _next(original, orders))
    wrapping.put(maker.single, "__init__", lambda original: _constructed(original, maker, orders))
    wrapping.put(several, "__init__", lambda original: _constructed_several(original, maker, orders))
    wrapping.put(several, "_reset", _reset)
    if live:
        wrapping.put(base, "_next_index", samplers.watched)


def _makes_its_own(theirs):
    """Return whether an iterator of theirs makes its batches itself, and nothing is about to change that."""
    shell = loader_proxy.shells.get(id(theirs))
    return shell is None or (shell.behind is None and not shell.busy)


def _next(original, orders):
    known, word = loader_proxy.shells, orders.word

    def following(original, self):
        shell = known.get(id(self))
        if shell is None:
            return original(self)
        if word[0] != orders.seen:
            orders.look()
        if shell.busy or shell.turn != orders.turn:
            draining.before_reset(self)
            return shell.step(self, original)
        if shell.behind is None:
            return original(self)
        return shell.take(self, original)

    return wrapping.instead(original, following)


def _constructed(original, maker, orders):
    def before(args, _kwargs):
        theirs, loader = args[:2]
        if orders.live:
            samplers.observe(theirs, loader)
        return theirs, loader

    def after(begun, _result, error):
        if error is None:
            loader_proxy.Shell(*begun, maker, orders)

    return wrapping.around(original, before, after)


def _constructed_several(original, maker, orders):
    def init(original, self, loader, *args, **kwargs):
        found = None
        try:
            orders.look()
            found = loader_proxy.served_from_the_start(self, loader, maker, orders)
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
            loader_proxy.Shell(self, loader, maker, orders).begin(self, wanted, order)

    return wrapping.instead(original, init)


def _know(theirs, of, maker, orders):
    try:
        loader_proxy.Shell(theirs, of, maker, orders)
    except Exception as error:
        ring.failed(error)


def _reset(original):
    def again(original, self, loader, *args, **kwargs):
        shell = loader_proxy.shells.get(id(self))
        if shell is None:  # inside its construction, or one of ours
            return original(self, loader, *args, **kwargs)
        draining.before_reset(self)
        return shell.reset(self, loader, original)

    return wrapping.instead(original, again)


HOOKS = {"torch.utils.data.dataloader": _hook}
