"""Keras's `fit` over a tf.data pipeline: its steps get their batches inside of a traced function, where no Python runs.

What can be seen from Python is when each step begins. How long passed from one batch to the next one being asked for
TensorFlow keeps itself, of the last 100 (`tfdata.read`). What is left of a step between the two is the wait; so the
records of some batches are written together, a little later. Where TensorFlow does not say it, batches are counted, and
their record says that nothing is known of their wait.

With Keras's other backends the batches are got in Python, and `tfdata.py` or `loader.py` see them.
"""

import sys
import weakref

from gputune_guest import patching, ring, spans, tfdata, wrapping
from gputune_guest.words import BATCH, END, EVALUATION, UNTIMED

now = ring.now
record = ring.record

MOST = 4 * tfdata.ENOUGH  # beginnings that are kept where TensorFlow does not say more

_fits = {}  # id of an epoch iterator to its _Fit


class _Fit:
    """One pass over a pipeline: when its steps began, from step `base` on, and how many batches were told."""

    __slots__ = ("base", "gone", "iterator", "mine", "times", "told")

    def __init__(self, epochs, theirs, mine):
        self.mine = mine
        self.iterator = weakref.ref(theirs)
        self.base = self.told = 0
        self.times = []
        key = id(epochs)
        self.gone = wrapping.when_gone(epochs, _fits.pop, key, None)
        _fits[key] = self

    @property
    def begun(self):
        """Return how many steps have begun."""
        return self.base + len(self.times)


def _epoch_next(original):
    def before(args, _kwargs):
        fit = _fits.get(id(args[0]))
        theirs = fit.iterator() if fit is not None else None  # alive for this call: the epoch's last times are in it
        return args[0], fit, theirs, now()

    def after(call, result, error):
        epochs, fit, theirs, t = call
        if error is None:
            _begun(epochs, fit, theirs, result, t)
        elif fit is not None and isinstance(error, StopIteration):
            _ended(epochs, fit, theirs, t)

    return wrapping.around(original, before, after)


def _begun(epochs, fit, theirs, result, t):
    """Take notice of a step that is about to begin."""
    if spans.silent:
        return
    current = result[2]
    if fit is None or current is not theirs:
        if fit is not None:
            _ended(epochs, fit, theirs, t)
        mine = tfdata.known(current)
        if mine is None:
            return
        fit, theirs = _Fit(epochs, current, mine), current
    t = now()
    fit.times.append(t)
    if not fit.mine.count and (tfdata.due(fit.mine, fit.begun - 1 - fit.told, t) or len(fit.times) > MOST):
        _flush(fit, theirs, t, over=False)


class _Caught:
    """Stands around what Keras puts around a pass, whose end the steps of a pipeline of unknown length do not tell."""

    __slots__ = ("_enter", "_exit")

    def __init__(self, theirs, epochs):
        def over(_args, _kwargs):
            t = now()
            fit = _fits.get(id(epochs))
            if fit is not None:
                _ended(epochs, fit, fit.iterator(), t)

        self._enter, self._exit = theirs.__enter__, wrapping.around(theirs.__exit__, over)

    def __enter__(self):
        return self._enter()

    def __exit__(self, *error):
        return self._exit(*error)


def _catch(original):
    def caught(original, self):
        return _Caught(original(self), self)

    return wrapping.instead(original, caught)


def _ended(epochs, fit, theirs, t):
    """Tell the rest of a pass that is over."""
    _fits.pop(id(epochs), None)
    if fit.mine.count:  # its batches were got in Python, and told there
        return
    count = _flush(fit, theirs, t, over=True)
    record(BATCH, END, t, t, fit.mine.number, count, -1)


def _flush(fit, theirs, t, over):
    """Tell the batches that are known by now, and return how many there are."""
    mine = fit.mine
    found = None if mine.mute or theirs is None else tfdata.read(mine, theirs, t)
    steps = fit.begun if over else fit.begun - 1
    taken, gaps = found if found is not None else (steps, [])
    extra = over and found is not None and taken == steps - 1  # the last step found that there was nothing left
    newest = taken - 1 if extra else taken - 2  # the latest batch of which it is known when the next was asked for
    timed = taken == (steps - 1 if extra else steps)  # else several batches make a step
    end = taken if over or not (gaps and timed) else newest + 1
    for index in range(fit.told, end):
        held = mine.last if over and index == taken - 1 and mine.last else mine.batch_size
        place = index - newest - 1
        if timed and -len(gaps) <= place < 0:
            t0, t1 = _waited(fit, index, gaps[place] * 1000, t)
            record(BATCH, 0, t0, t1, mine.number, index, -1, 0, held)
        else:
            t0 = _began(fit, index, t)
            record(BATCH, UNTIMED, t0, t0, mine.number, index, -1, 0, held)
    fit.told = max(fit.told, end)
    drop = min(fit.told - fit.base if timed else len(fit.times), len(fit.times) - 1)
    if drop > 0:
        del fit.times[:drop]
        fit.base += drop
    return taken


def _began(fit, index, t):
    place = index - fit.base
    return fit.times[place] if 0 <= place < len(fit.times) else fit.times[-1] if fit.times else t


def _waited(fit, index, gap, t):
    """Return from when to when a step waited: it began, and `gap` ns before the next one began it had its batch.

    The first step of a pipeline is traced and compiled before it asks for its batch: it has not waited for longer than
    that takes to make.
    """
    t0 = _began(fit, index, t)
    following = index + 1 - fit.base
    t1 = max(t0, (fit.times[following] if following < len(fit.times) else t) - gap)
    if index == 0 and fit.mine.first and fit.mine.making:
        t0 = max(t0, t1 - fit.mine.making)
    return t0, t1


def _evaluates(original):
    def before(_args, _kwargs):
        return None if spans.silent else now()

    def after(t0, _result, _error):
        spans.write(EVALUATION, t0, now(), original.__name__, sys._getframe().f_back)

    return wrapping.around(original, before, after)


def _hook(module):
    patching.patch(module.TFEpochIterator, "__next__", _epoch_next)
    patching.patch(module.TFEpochIterator, "catch_stop_iteration", _catch)
    patching.patch(module.TensorFlowTrainer, "evaluate", _evaluates)
    patching.patch(module.TensorFlowTrainer, "predict", _evaluates)


def _forked():
    _fits.clear()


wrapping.after_fork(_forked)
HOOKS = {"keras.src.backend.tensorflow.trainer": _hook}
