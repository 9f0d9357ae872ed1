"""Steps of environments, in a training that learns from what a policy does in them: gymnasium, stable-baselines3.

What stands here is timed on the training thread, the outermost call alone: a step of many environments at once, or of
one with all its wrappers. A rollout comes by as one record, or as several of `spans.LONGEST`: the time in steps, and
what lies between them, in which the policy says what to do next.

Each class that has a `step` or a `reset` of its own is patched, as nobody says which one is the outermost; one that is
mostly called from inside another is let go again after `INNER` calls, so that nothing is paid for layers of wrappers.
Classes of the script may be pickled by value, to environments in processes of their own: what stands in their methods'
place is pickled as theirs is (`_Method`).

A process that has learnt nothing yet tells nothing: it may be one that only steps environments for another.
"""

import contextlib
import operator
import sys
from types import MethodType

from gputune_guest import evaluation, patching, ring, spans, wrapping
from gputune_guest.words import ENVIRONMENT

now = ring.now
here = ring.here
get_ident = spans.get_ident

INNER = 64  # calls from inside another environment after which a class may be let go
MOST_PROCESSES = 0xFFFF  # processes that a record has room for
LIBRARIES = frozenset(["gymnasium", "gym", "stable_baselines3"])  # whose classes are pickled by name

_inside = False  # the training thread is in a step
_layouts = {}  # id of an environment to how many it steps at once, and in how many processes of their own


class _Rollout:
    """Steps in a row, of which nothing was told yet: ns in them, ns `between` them, and how many `calls`.

    It is a burst of the ring's (`spans.Burst`): written when anything else is, such as the evaluation that a rollout of
    a model in eval mode is taken for, and lies in.
    """

    __slots__ = ("between", "calls", "layout", "learnt", "site", "t0", "t1", "took")

    def __init__(self):
        self.layout, self.site = (1, 0), 0
        self._anew()

    def _anew(self):
        self.calls = self.took = self.between = self.t0 = self.t1 = self.learnt = 0

    def begins(self, t0, environment):
        """Take notice of a step that begins, for who stands in its place."""
        first = evaluation.first_optimizer
        learnt = here.passes + (here.passes if first is None else first.count)
        if here.burst is not self or learnt != self.learnt or t0 - self.t0 > spans.LONGEST:
            ring.end_burst()
            self._anew()
            self.learnt, self.layout, self.site = learnt, _layout(environment), spans.site(sys._getframe(2), "step")
        else:
            self.between += t0 - self.t1

    def ended(self, t0, t1, steps):
        """Take a step that is over, or a reset (`steps` 0). What it has written itself has ended the burst."""
        if here.burst is not self:
            ring.end_burst()
            self.calls = self.took = self.between = 0
            here.burst = self
        self.t0 = self.t0 if self.took else t0
        self.took += t1 - t0
        self.t1 = t1
        self.calls += steps

    def takes(self, _code, _t0, _what):
        """Return that nothing else is a part of it."""
        return False

    def fields(self):
        """Return those of its record; steps and passes that were made meanwhile are told before it."""
        here.flush()
        many, processes = self.layout
        return (
            *(ENVIRONMENT, min(processes, MOST_PROCESSES), self.t0, self.t1, self.took, self.calls, self.between),
            *(self.site, many),
        )


_rollout = _Rollout()


def _learns():
    """Return whether this process has learnt anything: else it makes no ring for the steps that it makes."""
    return here.passes or evaluation.first_optimizer is not None


def _layout(environment):
    """Return how many environments one step steps, and how many of them are in processes of their own."""
    key = id(environment)
    if key not in _layouts:
        if len(_layouts) >= INNER:
            _layouts.clear()
        many, processes = 1, ()
        with contextlib.suppress(Exception):  # attributes of theirs may run their code
            base = getattr(environment, "unwrapped", environment)
            many, processes = getattr(environment, "num_envs", 1), getattr(base, "processes", ())
        _layouts[key] = many if isinstance(many, int) else 1, len(processes) if isinstance(processes, list) else 0
    return _layouts[key]


class _Timed:
    """Times the `step` or the `reset` of one class, and sees whether others mostly call it."""

    def __init__(self, owner, name):
        self.owner, self.original, self.steps = owner, vars(owner)[name], int(name == "step")
        self.outer = self.inner = 0

    def before(self, args, _kwargs):
        """Begin a step of the training thread, unless it is one inside another."""
        global _inside
        if get_ident() != here.trainer:
            return None
        if _inside:
            self.inner += 1
            if self.inner >= INNER and self.inner > 2 * self.outer:  # times as many of them as of others: then it is
                patching.take_back(self.original)
            return None
        self.outer += 1
        t0 = now()
        if _learns():
            _rollout.begins(t0, args[0])
            (ring.mark if here.buffer is None else here.mark)(ENVIRONMENT, 0, t0)  # the former makes the ring
        _inside = True  # once nothing of ours can fail any more: else nobody would take it back
        return t0

    def after(self, t0, _result, error):
        """End it. One that a Ctrl-C got out of has not returned: it stays the last that is known to have begun."""
        global _inside
        _inside = False
        if (error is None or isinstance(error, Exception)) and _learns():
            (ring.mark if here.buffer is None else here.mark)(0, 0, 0)
            _rollout.ended(t0, now(), self.steps)


class _Method(wrapping.Stand):
    """Stands for a method of a class of the script's own, and is pickled as that."""

    def __get__(self, owner, kind=None):
        return self if owner is None else MethodType(self, owner)

    def __reduce__(self):
        return operator.getitem, ([self._original], 0)


def _standing(timed):
    def make(original):
        if timed.owner.__module__.partition(".")[0] in LIBRARIES:
            return wrapping.around(original, timed.before, timed.after)
        return _Method(original, wrapping.collected(original, timed.before, timed.after))

    return make


def _own(kind):
    for name in ("step", "reset"):
        own = vars(kind).get(name)
        if callable(own) and not isinstance(own, _Method):
            with contextlib.suppress(TypeError):  # a class that is written in C lets nobody change it
                patching.patch(kind, name, _standing(_Timed(kind, name)))


def _all(base):
    """Stand in the steps of all classes of environments that there are, and that will be."""
    own = wrapping.quiet(_own)

    def make(_original):
        def __init_subclass__(kind, **kwargs):  # noqa: N807 - it is that one
            super(base, kind).__init_subclass__(**kwargs)
            own(kind)

        return classmethod(__init_subclass__)

    found = [base]
    while found:
        kind = found.pop()
        own(kind)
        found += type.__subclasses__(kind)
    patching.patch(base, "__init_subclass__", make)


def _gymnasium(module):
    _all(module.Env)


def _vector(module):
    _all(module.VectorEnv)


def _stable_baselines(module):
    _own(module.VecEnv)


def _forked():
    """In a forked child: it may well be an environment's own process."""
    global _inside, _rollout
    _inside, _rollout = False, _Rollout()
    _layouts.clear()


wrapping.after_fork(_forked)
HOOKS = {
    "gymnasium.core": _gymnasium,
    "gymnasium.vector.vector_env": _vector,
    "gym.core": _gymnasium,
    "stable_baselines3.common.vec_env.base_vec_env": _stable_baselines,
}
