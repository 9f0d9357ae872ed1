"""Putting a function of ours in place of one of theirs, and taking all of them back."""

from gputune_guest import ring

_done = []  # (owner, name, what stood in owner's own namespace or _ABSENT, ours)
_ABSENT = object()


def patch(owner, name, make, *others):
    """Replace `owner.name` by `make(original)`, and in `others` where the very same object goes by that name.

    `owner` is a module or a class; a name that a class inherits is put into the class itself. Does nothing where
    there is no such name, or ours stands there already.
    """
    original = getattr(owner, name, None)
    if original is None or any(done[0] is owner and done[1] == name for done in _done):
        return
    ours = make(original)
    _put(owner, name, ours)
    for other in others:
        if other is not None and vars(other).get(name) is original:
            _put(other, name, ours)


def _put(owner, name, ours):
    own = vars(owner).get(name, _ABSENT)
    setattr(owner, name, ours)
    _done.append((owner, name, own, ours))


def replace(ours, others):
    """Put another one of ours where this one stands."""
    for place, (owner, name, own, there) in enumerate(_done):
        if there is ours and vars(owner).get(name) is ours:
            setattr(owner, name, others)
            _done[place] = (owner, name, own, others)


def restore():
    """Take back every patch that nobody has put another one on."""
    while _done:
        _restore(*_done.pop())


def take_back(original):
    """Take back what stands in the place of one of theirs."""
    for done in [done for done in _done if done[2] is original]:
        _done.remove(done)
        _restore(*done)


def _restore(owner, name, own, ours):
    if vars(owner).get(name) is not ours:
        return
    if own is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, own)


ring.at_farewell(restore)
