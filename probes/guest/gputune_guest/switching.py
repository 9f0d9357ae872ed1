"""Other settings for an iterator in the middle of its pass: no sample lost, none twice, the order is the sampler's.

New workers begin while those that are there go on. Once they listen, the sampler's next indices go to them, while the
old ones hand out, in order, what they have under way; then the new ones serve. Never are more batches under way than
the larger of the two settings allows, so that memory which holds either holds the change. Another prefetch alone needs
no new workers: more is handed out at once, or nothing until less is under way.
"""

import re
import sys
import time

from gputune_guest import iterators, samplers, settings
from gputune_guest.randomness import randomness

LOADER, SETTINGS, NOT_YET = "loader", "settings", "not-yet"  # what a refusal is a fault of: docs/steering.md
BEGIN_S = 60.0  # for workers to begin
AT_ONCE_S = 0.1  # worth waiting for them where this process would make the next batch itself meanwhile
STREAM = "its dataset is a stream, which other workers would begin anew: start the script again with these settings"
OWN_KIND = "its iterator is of a kind of its own: %s"
PIPES = "its dataset is a DataPipe, which is sharded as iterators are made"
SET_UP = "its `worker_init_fn` would not be called without workers"
UNGUARDED = "each worker would run the script anew: it has no `if __name__ == '__main__':`"
UNSEEN = "its sampler is the script's own: a whole pass has to show first that it draws no random numbers as it goes"
DRAWS = "its sampler draws random numbers as it goes: with more or fewer batches under way it would draw others"
_GUARD = re.compile(r"__name__\s*==\s*['\"]__main__['\"]|['\"]__main__['\"]\s*==\s*__name__")


class SwitchRefused(Exception):  # noqa: N818 - named for what happened
    """The settings would be wrong for this iterator, or could not be had; the message says why.

    `of` says what that is a fault of: see docs/steering.md.
    """

    def __init__(self, why, of=LOADER):
        super().__init__(why)
        self.of = of


class Change:
    """One change under way, of the iterator that `shell` knows, for `order`; `t0`: when it was asked for, ns."""

    __slots__ = ("_draining", "_new", "_shell", "_until", "built", "order", "t0", "wanted")

    def __init__(self, shell, order, wanted, t0):
        self.order, self.wanted, self.t0 = order, wanted, t0
        self._shell = shell
        self._new = None
        self._draining = False
        self.built = (t0, t0)  # when its workers were started, ns
        self._until = time.monotonic() + BEGIN_S

    def begin(self, theirs):
        """Do what can be done at once. Raises SwitchRefused, and then nothing has changed."""
        shell = self._shell
        in_place = self._in_place(theirs)
        if not in_place:
            object_to(theirs, shell.view, shell.own, self.wanted, shell.maker)
        if shell.orders.live and _under_way(self.wanted) != _under_way(shell.force) and _draws(shell, theirs):
            raise SwitchRefused(DRAWS)
        old = shell.serving(theirs)
        if in_place:
            self._another_prefetch(theirs, old)
            return
        self._new, self.built = shell.started(theirs, self.wanted)
        self._new.knock()
        if not iterators.several(old):
            until = time.monotonic() + AT_ONCE_S
            while not self._new.up(AT_ONCE_S) and time.monotonic() < until:
                pass
        self.advance(theirs)

    def _in_place(self, theirs):
        """Return whether the workers that are there can go on."""
        force, wanted = self._shell.force, self.wanted
        same = all(force[name] == wanted[name] for name in ("num_workers", "pin_memory"))
        lasts = force["persistent_workers"] == wanted["persistent_workers"]
        known = self._shell.behind is not None or type(theirs) is self._shell.maker.several
        return bool(same and wanted["num_workers"] and known and (lasts or self._shell.behind is not None))

    def _another_prefetch(self, theirs, old):
        wanted = self.wanted
        old._persistent_workers = wanted["persistent_workers"]
        if wanted["prefetch_factor"] >= old._prefetch_factor:
            old._prefetch_factor = wanted["prefetch_factor"]
            iterators.fill(old, iterators.capacity(old))
            self._shell.take_over(theirs, self._shell.behind, self)
        else:
            self._shell.source_of(theirs)
            old._sampler_iter = iterators.NOTHING
            self.advance(theirs)

    def advance(self, theirs):
        """Go on as far as it goes before the next batch. Raises SwitchRefused."""
        old, new = self._shell.serving(theirs), self._new
        left = iterators.under_way(old)
        if new is None:  # less prefetch
            if left <= _under_way(self.wanted):
                old._prefetch_factor = self.wanted["prefetch_factor"]
                old._sampler_iter = self._shell.source
                self._shell.take_over(theirs, self._shell.behind, self)
            return
        if not new.living():
            raise SwitchRefused("one of its workers died as it began", SETTINGS)
        if not self._draining and not new.up():
            if time.monotonic() > self._until:
                raise SwitchRefused("its workers did not begin within %.0f s" % BEGIN_S, SETTINGS)
            return
        if not self._draining:
            self._drain(theirs, old, new)
        most = iterators.capacity(new)
        if most:
            iterators.fill(new, min(most, max(most, iterators.capacity(old)) - left))
        if not left:
            self._shell.take_over(theirs, new, self)

    def _drain(self, theirs, old, new):
        """Hand no more indices to the old ones, and the next to the new ones."""
        self._draining = True
        source = self._shell.source_of(theirs)
        old._sampler_iter = iterators.NOTHING
        yielded = theirs._num_yielded
        if not new.used:
            new._sampler_iter, new.used = source, True
        else:  # of an earlier pass: what is left of it is thrown away, which asks its workers to listen once more
            new.begin(iterators.Source(iterators.NOTHING), self._shell.view)
            new._sampler_iter = source
        new._num_yielded = yielded

    def undelivered(self):
        """Return the indices that new workers hold."""
        return self._new.undelivered() if self._draining else []

    def abandon(self, theirs):
        """Have the old ones go on as if nothing had been asked."""
        shell = self._shell
        old = shell.serving(theirs)
        if old._sampler_iter is iterators.NOTHING:
            shell.source.give_back(self.undelivered())
            old._sampler_iter = shell.source
        self.dismiss()
        if self._draining and iterators.capacity(old):
            iterators.fill(old, iterators.capacity(old))

    def dismiss(self):
        """End the new workers: what they hold is made by others."""
        if self._new is not None:
            iterators.kill(self._new)

    def ready_made(self):
        """Return new workers that have no indices yet, for the next pass, or None."""
        return None if self._draining or self._new is None else self._new


def _under_way(wanted):
    return wanted["num_workers"] * (wanted["prefetch_factor"] or 0)


def object_to(theirs, view, own, wanted, maker):
    """Raise SwitchRefused where other workers, or pinning, would be wrong for an iterator with the script's `own`."""
    if type(theirs) not in (maker.single, maker.several):
        raise SwitchRefused(OWN_KIND % type(theirs).__name__)
    if view._dataset_kind != 0:  # _DatasetKind.Map
        raise SwitchRefused(STREAM)
    pipes = getattr(maker.module, "MapDataPipe", None)
    if pipes is not None and isinstance(view.dataset, pipes):
        raise SwitchRefused(PIPES)
    if not wanted["num_workers"] and getattr(view, "worker_init_fn", None) is not None:
        raise SwitchRefused(SET_UP)
    first = wanted["num_workers"] and not own["num_workers"]
    if first and settings.start_method(view) != "fork" and not _guarded():
        raise SwitchRefused(UNGUARDED)


def _guarded():
    """Return whether a process that imports the main script again does not run it."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if path is None:  # `python -c`, a prompt: there is nothing to import
        return True
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return _GUARD.search(file.read()) is not None
    except OSError:
        return False


def _draws(shell, theirs):
    """Return whether drawing an index from the sampler moves a random state that the training may share.

    Raises SwitchRefused where that is not known yet.
    """
    drew = samplers.draws(shell.view, shell.where)
    if drew is None:
        raise SwitchRefused(UNSEEN, NOT_YET)
    if drew:
        return True
    source = shell.source_of(theirs)
    if not iterators.several(shell.serving(theirs)) and not theirs._num_yielded:
        source.ahead()  # the first draw of a pass is made here and now in any case
    before = randomness()
    source.ahead()
    return before != randomness()
