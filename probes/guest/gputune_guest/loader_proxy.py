"""The iterators that the script holds, and who makes their batches: they themselves, or one of ours behind them.

What the script holds keeps its identity, its type and its place in the sampler. A `Shell` is what we know of one. Where
it is to be served under other settings, `switching.Change` puts an iterator of ours behind it; one that fails there,
however it fails, is taken away again, and the script's own settings make the batches that it did not hand out.

Over 300 lines because every call that the script can make of an iterator must find it in one of few states.
"""

import sys
import weakref

from gputune_guest import iterators, loader, ring, samplers, settings, wrapping
from gputune_guest.switching import LOADER, SETTINGS, Change, SwitchRefused, object_to

ODD = 0x9E3779B97F4A7C15  # between seeds of workers: 2**64 over the golden ratio, so that they lie far apart
LIVE = "samples would come twice: this is a training that counts"

shells = {}  # id of an iterator of theirs to its Shell
_kept = {}  # id of a loader to (weak reference, workers for its next pass or None, the settings of that pass)
_inherited = []  # of a forked parent: what is freed here would end the workers there


class Asked:
    """An order, or with `back` the end of one, whose first batch is to be told of."""

    __slots__ = ("back", "order", "t0")

    def __init__(self, order, t0, back=False):
        self.order, self.t0, self.back = order, t0, back


class Replay:
    """A batch that is handed out again: `copies` once there is one, `left` how often yet, `order` and since when."""

    __slots__ = ("copies", "left", "order", "t0")

    def __init__(self, order, t0):
        self.order, self.t0, self.left = order, t0, order.left
        self.copies = None


class Shell:
    """One iterator of theirs. `force`: the settings that serve it; `own`: the script's; `turn`: how far it obeys."""

    __slots__ = (
        *("behind", "busy", "change", "force", "maker", "orders", "own", "source", "turn", "view", "where"),
        *("_builds", "_due", "_file", "_gone", "_limited", "_loader", "_over", "_replay", "_stands", "_tried_out"),
    )

    def __init__(self, theirs, of, maker, orders):
        key = id(theirs)
        self._gone = wrapping.when_gone(theirs, _freed, key)
        self._loader = weakref.ref(of)
        self.maker, self.orders = maker, orders
        self.view = iterators.View(of)
        self.where, self._file = settings.place(of)
        self.own = maker.effective(self.view.settings())
        self.force = self.own
        self._stands = None  # the view that stands for the loader in the notes
        self.behind = self.change = self.source = self._due = self._replay = self._limited = None
        self._builds = 1 if self.own["num_workers"] else 0  # how many seeds are taken
        self._tried_out = None  # an order of so many batches that is over
        self._over = False
        self.turn = orders.turn if orders.once is None and orders.standing(self.where) is None else -1
        self.busy = False
        shells[key] = self

    def serving(self, theirs):
        """Return the iterator that makes the batches."""
        return theirs if self.behind is None else self.behind

    def source_of(self, theirs):
        """Return the indices that are left of this pass as a `Source`."""
        serving = self.serving(theirs)
        at = serving._sampler_iter
        if at is not self.source and at is not iterators.NOTHING:
            self.source = iterators.Source(at)
            serving._sampler_iter = self.source
        return self.source

    # every batch

    def step(self, theirs, original):
        """Return the next batch, and do before it what is to be done; `original` is torch's `__next__`."""
        if self._over:
            raise StopIteration
        try:
            self._before(theirs)
        except SwitchRefused as reason:
            self._refuse(theirs, reason)
        except Exception as error:
            if self.source is not None and error is self.source.error:  # the script's sampler has failed
                raise
            ring.failed(error)
            self._refuse(theirs, SwitchRefused("%s: %s" % (type(error).__name__, error)))
        self.busy = True
        batch = self.take(theirs, original)
        self.busy = bool(self.change or self._due or self._replay or self._limited or iterators.leaving())
        return batch

    def take(self, theirs, original):
        """Return the next batch of whoever makes it."""
        if self._replay is not None and self._replay.copies is not None:
            return self._again(theirs)
        if self._over:
            raise StopIteration
        serving = self.serving(theirs)
        failure = None
        try:
            batch = original(serving)
        except StopIteration:
            self._end(serving is not theirs)
            raise
        except Exception as error:
            if serving is theirs or serving.own or error is self.source.error:
                raise
            failure = error
        if failure is not None:  # outside of the handler: what the script's own settings raise has no other cause
            try:
                self._recover(theirs, failure)
            finally:
                failure = None  # this frame is in its traceback: else both live, and an iterator with them, as garbage
            return self.take(theirs, original)
        if serving is not theirs:
            serving.delivered()
            self._mirror(theirs)
        if self.busy:
            self._handed(theirs, batch)
        return batch

    def _mirror(self, theirs):
        """Have the numbers that torch and the loader family read of an iterator be those of the one behind it."""
        behind, shown = self.behind, vars(theirs)
        shown["_num_yielded"] = behind._num_yielded
        if iterators.several(behind):
            shown["_task_info"], shown["_tasks_outstanding"] = behind._task_info, behind._tasks_outstanding

    def _handed(self, theirs, batch):
        """Do what waited for a batch."""
        due, self._due = self._due, None
        if due is not None:
            self._answer(theirs, "back" if due.back else "serving", due.order, due.t0)
            due.order.served.add(self.where)
        if self._limited is not None and self.change is None and self.orders.count(self._limited):
            self._tried_out, self._limited = self._limited, None
        if self._replay is not None:
            self._copy(theirs, batch)

    def _end(self, ours):
        """End a pass that has no more batches."""
        self._over = ours
        try:
            self._leave_change()
            if ours and self._keep():
                self.behind = None
        except Exception as error:
            ring.failed(error)

    # orders

    def _before(self, theirs):
        iterators.bury()
        if self._replay is not None:
            if not self._replay.left:
                self._replay = None
                t0 = ring.now()
                self._describe(theirs, (t0, t0), fresh=False)
        elif self.change is not None:
            self.change.advance(theirs)
        elif self.turn != self.orders.turn and _trains():
            self.turn = self.orders.turn
            self._obey(theirs)

    def _obey(self, theirs):
        t0 = ring.now()
        once = self.orders.once
        if once is not None and once.means(self.where) and self.where not in once.served | once.refused:
            self._at_once(theirs, once, t0)
        order, wanted = self._wanted()
        self._limited = order if order is not None and order.left is not None else None
        if wanted == self.force:
            if order is not None and self.where not in order.served:
                self._due = Asked(order, t0)
            return
        self.change = Change(self, order, wanted, t0)
        self.change.begin(theirs)

    def _wanted(self):
        """Return (the order that stands or None, the settings that it asks for)."""
        order = self.orders.standing(self.where)
        return order, self.own if order is None else self.maker.effective(order.over(self.own))

    def _at_once(self, theirs, order, t0):
        order.served.add(self.where)
        if self.orders.live:
            self._answer(theirs, "refused", order, t0, SwitchRefused(LIVE))
        elif order.do == "end":
            from gputune_guest import trial

            self._answer(theirs, "ended", order, t0)
            trial.leave(theirs._num_yielded)
        else:
            self._replay = Replay(order, t0)

    def take_over(self, theirs, new, change):
        """Have `new` serve from now on, for `change`; where the same iterator goes on, its settings have changed."""
        if new is not self.behind:
            iterators.farewell(self.serving(theirs))
            new._num_yielded = theirs._num_yielded
        fresh, self.behind = new is not self.behind, new
        self.force, self.change = change.wanted, None
        if new is not None:
            self._mirror(theirs)
        order, self._due = change.order, None
        if order is not None and self.where not in order.served:
            self._due = Asked(order, change.t0)
        elif self._tried_out is not None:
            self._due = Asked(self._tried_out, change.t0, back=True)
        self._tried_out = None
        self._describe(theirs, change.built, fresh)

    def started(self, theirs, wanted):
        """Return an iterator of ours made in a `next()`, and when that began and ended, ns. Raises SwitchRefused."""
        t0 = ring.now()
        made = self.worker_iterator(theirs, wanted)
        built = (t0, ring.now())
        loader.started(*built)
        return made, built

    def worker_iterator(self, theirs, wanted):
        """Return an iterator of ours under these settings. Raises SwitchRefused."""
        found = _taken(self._loader(), wanted)
        if found is not None:
            return found
        seed = (theirs._base_seed + self._builds * ODD) % (1 << 63)
        self._builds += 1
        try:
            return self.maker.make(iterators.View(self.view, **wanted), seed, own=wanted == self.own)
        except Exception as error:
            why = "its workers cannot be started: %s: %s" % (type(error).__name__, error)
            raise SwitchRefused(why, SETTINGS) from None

    def _refuse(self, theirs, reason):
        """Have things stay as they are, or be again as the script has them."""
        change, self.change = self.change, None
        if change is None:
            return
        order = change.order or self.orders.last
        if change.order is not None:
            order.refused.add(self.where)
        self._limited = None
        self._answer(theirs, "refused", order, change.t0, reason)
        change.abandon(theirs)

    def _recover(self, theirs, failure):
        """Have the script's own settings make what an iterator of ours, which has failed, did not hand out."""
        t0 = ring.now()
        failed, change, self.change = self.behind, self.change, None
        left = failed.undelivered()
        if change is not None:
            left = left + change.undelivered()
            change.dismiss()
        self.source.give_back(left)
        iterators.kill(failed)
        order = self.orders.refuse(self.where) or self.orders.last
        self._due = self._limited = None
        try:
            own, built = self.started(theirs, self.own)
        except SwitchRefused:
            raise failure from None
        own.begin(self.source, self.view)
        own._num_yielded = theirs._num_yielded
        self.behind, self.force = own, self.own
        self._mirror(theirs)
        self._describe(theirs, built, fresh=True)
        reason = SwitchRefused("under it: %s: %s" % (type(failure).__name__, failure), SETTINGS)
        self._answer(theirs, "refused", order, t0, reason)

    # passes

    def begin(self, theirs, wanted, order):
        """Have an iterator of ours make the whole pass that begins."""
        t0 = ring.now()
        self.source = iterators.Source(theirs._sampler_iter)
        self._over = False
        self.turn = self.orders.turn
        self._limited = order if order is not None and order.left is not None else None
        failure = self._tried(theirs, wanted)
        if failure is None:
            if order is not None and self.where not in order.served:
                self._due = Asked(order, t0)
        elif failure is self.source.error or wanted == self.own:
            raise failure
        else:
            self.behind, self.force, self._limited = self._begun(theirs, self.own), self.own, None
            order.refused.add(self.where)
            reason = SwitchRefused(str(failure), getattr(failure, "of", LOADER))
            self._answer(theirs, "refused", order, t0, reason)
        self._mirror(theirs)
        self.busy = True

    def _tried(self, theirs, wanted):
        """Begin a pass; return what has failed."""
        try:
            self.behind, self.force = self._begun(theirs, wanted), wanted
        except Exception as error:
            return error
        return None

    def _begun(self, theirs, wanted):
        behind, self.behind = self.behind, None
        lasts = behind is not None and wanted == self.force and wanted["persistent_workers"]
        if not lasts or not behind.living():
            if behind is not None:
                iterators.farewell(behind)
            behind = self.worker_iterator(theirs, wanted)
        if not iterators.several(behind) and iterators.several(theirs):
            self.source.ahead()  # the script's own workers would be handed indices now, and the sampler begin to draw
        try:
            behind.begin(self.source, self.view)
        except Exception:
            self.source.give_back(behind.undelivered())
            iterators.kill(behind)
            raise
        behind._num_yielded = 0
        return behind

    def reset(self, theirs, of, original):
        """Begin another pass of workers that last by the script's will; `original` is torch's own way."""
        self._leave_change()
        order, wanted = self._wanted()
        if self.behind is None and (wanted == self.own or not ready_for(of, wanted)):
            self.source, self._over = None, False
            if self.orders.live:
                samplers.observe(theirs, of)
            return original(theirs, of)
        iterators.farewell(theirs)
        self.maker.base._reset(theirs, of)
        return self.begin(theirs, wanted, order)

    def _leave_change(self):
        """Have the next pass begin with the settings of a change that this one will not see through, if it can.

        Its workers make that pass only where the script's own would: else it has workers of its own, for the script may
        tell its dataset something between two passes, and a worker knows what was told before it began.
        """
        change, self.change = self.change, None
        if change is None:
            return
        ready = change.ready_made()
        of = self._loader()
        if ready is None or of is None:
            change.dismiss()
        elif self.own["persistent_workers"]:
            _put(of, ready, change.wanted)
        else:
            iterators.farewell(ready)
            _put(of, None, change.wanted)

    def _keep(self):
        """Have workers that are to last wait for the script's next iterator; return whether there are any."""
        of = self._loader()
        lasting = self.force["persistent_workers"] and not self.own["persistent_workers"]
        if of is None or not lasting or self.behind._shutdown:
            return False
        _put(of, self.behind, self.force)
        return True

    def freed(self):
        """Take notice that the script has let go of it."""
        self._leave_change()
        if self.behind is not None and not self._keep():
            iterators.close(self.behind)

    # what is told

    def _answer(self, theirs, state, order, t0, reason=None):
        """Tell what came of an order; `reason`: the SwitchRefused of one that is refused."""
        fields = {"seq": order.seq, "state": state, "where": self.where, "set": self.force}
        if reason is not None:
            fields["why"], fields["of"] = str(reason)[:300], reason.of  # characters of a reason
        batch = theirs._num_yielded - (state in ("serving", "back"))
        ring.note(n="steer", **fields, batch=batch, iterator=loader.number_of(theirs), start_ns=t0, ready_ns=ring.now())

    def _describe(self, theirs, built, fresh):
        """Tell that from the next batch on others make them, or, not `fresh`, the same under other settings."""
        done = theirs._num_yielded
        try:
            loader.switched(theirs, self.description(), self.serving(theirs), built, 0 if fresh else done, done)
        except Exception as error:
            ring.failed(error)

    def description(self, **more):
        """Return what describes the settings in force as a loader does."""
        of = self._loader()
        if self.force == self.own and of is not None and not more:
            return of
        self._stands = iterators.View(self.view, **self.force, **more)
        settings.built_at(self._stands, self.where, self._file)
        return self._stands

    # replay, in a trial only

    def _copy(self, theirs, batch):
        from gputune_guest import trial

        replay = self._replay
        try:
            replay.copies = trial.Replayed(batch, replay.order.pin)
        except Exception as error:
            self._replay = None
            reason = SwitchRefused("its batches cannot be copied: %s" % error)
            self._answer(theirs, "refused", replay.order, replay.t0, reason)

    def _again(self, theirs):
        replay = self._replay
        batch = replay.copies.again()
        if replay.left == replay.order.left:
            t0 = ring.now()
            loader.switched(theirs, self.description(_gputune_replay=True), None, (t0, t0), 0, 1 << 62)
            self._answer(theirs, "replaying", replay.order, replay.t0)
        replay.left -= 1
        if not replay.left:
            replay.copies = None
        return batch


def _trains():
    """Return whether what is iterated now is training: gradients are on, and no evaluation is under way."""
    return sys.modules["torch"].is_grad_enabled() and ring.here.phase is None and not ring.is_worker()


def described(theirs, of):
    """Return (what describes the settings of an iterator as a loader does, the iterator that has its workers)."""
    shell = shells.get(id(theirs))
    if shell is None or shell.behind is None:
        return of, theirs
    return shell.description(), shell.behind


def served_from_the_start(theirs, of, maker, orders):
    """Return (order, settings) where one of ours is to make all batches of a new iterator with workers, or None."""
    where = settings.place(of)[0]
    order = orders.standing(where)
    if order is None or type(theirs) is not maker.several or not _trains():
        return None
    view = iterators.View(of)
    own = maker.effective(view.settings())
    wanted = maker.effective(order.over(own))
    if wanted == own or not (where in order.served or ready_for(of, wanted)):
        return None
    try:
        object_to(theirs, view, own, wanted, maker)
    except SwitchRefused:
        return None
    return order, wanted


def ready_for(of, wanted):
    """Return whether the next pass of a loader is to begin with these settings."""
    found = _kept.get(id(of))
    return found is not None and found[2] == wanted


def _put(of, iterator, force):
    key = id(of)
    before = _kept.get(key)
    if before is not None and before[1] is not None and before[1] is not iterator:
        iterators.farewell(before[1])
    _kept[key] = (wrapping.when_gone(of, _left, key), iterator, force)


def _taken(of, wanted):
    """Return the workers that wait for this loader, if they have these settings and live."""
    found = _kept.pop(id(of), None)
    if found is None:
        return None
    _ref, iterator, force = found
    if iterator is None:
        return None
    if force == wanted and iterator.living():
        return iterator
    iterators.farewell(iterator)
    return None


def _freed(key):
    """Take notice that an iterator of theirs is gone."""
    shell = shells.pop(key, None)
    if shell is not None:
        shell.freed()


def _left(key):
    """Take notice that a loader is gone, whose next pass will never come."""
    found = _kept.pop(key, None)
    if found is not None and found[1] is not None:
        iterators.close(found[1])


def _forked():
    ours = [shell.behind for shell in shells.values()] + [workers for _loader, workers, _settings in _kept.values()]
    iterators.disown([iterator for iterator in ours if iterator is not None])
    _inherited.append((dict(shells), dict(_kept)))
    shells.clear()
    _kept.clear()


def _let_go():
    """Keep nothing of theirs: a dataset leads to the whole of a script."""
    shells.clear()
    _kept.clear()


wrapping.at_last(_let_go)
wrapping.after_fork(_forked)
