"""For how long a device stands still for other ranks: events on its stream around what makes it wait for them.

NCCL's calls return at once. What follows them on the same stream waits on the device, and that wait (a *stand*) lies
between two events: one recorded when all that the rank does by itself is queued, and one behind the wait. In sampled
rounds, and in the steps that the device's clock times, they are recorded around the calls of `torch.distributed`,
around the places where FSDP waits, and for DistributedDataParallel from the callback that the autograd engine runs when
all gradients are computed, which is before DDP's own, to the end of the backward pass. For that callback a hook that
returns nothing is put on the loss's own node for this one pass: no gradient is touched. Nothing here waits for the
device: events are read when they have passed. What a device stands in a step is none of the step's work (joins.py).

A round ends with the last stand of a backward pass with a collective, and is numbered by these, as on all ranks.
"""

import collections
import sys

from gputune_guest import device, dynamo, joins, patching, ring, spans, wrapping
from gputune_guest.words import GATHERED, ON_DEVICE, RENDEZVOUS, STOOD

DENSE = 32  # first rounds that are all timed
PAIR = 2  # afterwards so many of EACH are, and of LATER once there were MANY: a round begins where another one ended
EACH, LATER, MANY = 7, 31, 1024  # primes: what users do every 4 or 10 steps is met as often as it comes
MOST_STANDS = 512  # in a round: one with more is not timed
MOST = 0xFFFF  # calls, ranks

here = None  # the one of this process, once a device meets other ranks


def sampled(number):
    """Return whether this round is timed: the same ones on every rank."""
    return number <= DENSE or number % (EACH if number <= MANY else LATER) < PAIR


class _Round:
    """One round under way: its stands, and what ran on other streams, as pairs of marks."""

    __slots__ = ("beside", "calls", "gathered", "number", "size", "stands")

    def __init__(self, number):
        self.number, self.stands, self.beside = number, [], []
        self.size = self.calls = self.gathered = 0


class Standing:
    """Times the rounds of a process with the marks of the device's clock."""

    def __init__(self, clock):
        self.clock = clock
        self.cuda = clock.cuda
        self.rounds = 0  # that are over
        self.met = False  # a collective was called since the last one was
        self.reduces = False  # DDP will reduce in the next backward pass
        self.told = (0, 0, 0)  # of DDP: bytes, buckets, ns that it reduced beside its backward pass
        self.round = _Round(1)
        self.began = None  # the mark at which the round under way began, where it is known
        self.stream = None  # on which the training computes
        self.inside = False
        self.opened = None  # (mark, GATHERED or 0) of a stand of FSDP's that is not over
        self.pending = collections.deque()

    def wanted(self):
        """Return whether stands are timed now: for the round that is under way, or for the step."""
        return self.round is not None or self.clock.current is not None

    def usable(self):
        """Return whether a mark may be recorded now."""
        return self.wanted() and not self.inside and not self.clock.capturing()

    def enter(self):
        """Mark that all of a rank's own work is queued; None where nothing is timed."""
        if not self.wanted() or self.inside:
            return None
        try:
            if self.clock.capturing() or not self.cuda.is_initialized():
                return None
            self.inside = True
            return self._mark()
        except Exception as error:
            self._failed(error)
            return None

    def open(self, gathered):
        """Begin a stand that `close` ends. Returns whether it is timed."""
        mark = self.enter()
        if mark is not None:
            self.opened = mark, gathered
        return mark is not None

    def close(self):
        """End the stand that was opened, where it is not over yet."""
        opened, self.opened = self.opened, None
        if opened is not None:
            self.leave(*opened)

    def leave(self, before, gathered=0):
        """Mark that what the stream waits for is queued since `before`: with GATHERED it is FSDP's."""
        self.inside = False
        try:
            if not self.wanted():
                return
            after, step = self._mark(), self.clock.current
            if step is not None and before.t >= step.start.t and self.clock.device() == self.clock.home:
                step.met(before, after)
            if self.round is not None:
                self.round.gathered |= gathered
                self._stood(before, after)
        except Exception as error:
            self._failed(error)

    def _mark(self):
        """Return a mark on the current stream; what it costs counts as timing the step, if one is timed."""
        came, mark = device.now(), self.clock.mark()
        if self.clock.current is not None:
            self.clock.spent += device.now() - came
        return mark

    def _stood(self, before, after):
        if len(self.round.stands) < MOST_STANDS:
            self.round.stands.append((before, after))
        else:
            self._drop()

    def begins(self):
        """Mark that a collective is called, on whichever stream. Returns (mark, whether it is another stream)."""
        if not self.wanted() or self.inside or self.stream is None:
            return None
        try:
            aside = self.cuda.current_stream() != self.stream
            if aside and (self.round is None or self.clock.capturing()):
                return None
            mark = self.clock.mark() if aside else self.enter()
        except Exception as error:
            self._failed(error)
            return None
        return None if mark is None else (mark, aside)

    def ends(self, begun):
        """Mark that a collective was called."""
        before, aside = begun
        if not aside:
            self.leave(before)
            return
        try:
            if self.round is not None and len(self.round.beside) < MOST_STANDS:
                self.round.beside.append((before, self.clock.mark()))
        except Exception as error:
            self._failed(error)

    def counted(self, size):
        """Learn that all ranks meet in a call."""
        self.met = True
        if self.round is not None:
            self.round.calls += 1
            self.round.size += size

    def passed(self):
        """End the round with a backward pass, if ranks met since the last one. On the training thread."""
        if not self.met:
            return
        self.met = self.reduces = False
        self.rounds += 1
        done, began = self.round, self.began
        self.round = self.began = None
        if done is not None and done.stands:
            self.began = done.stands[-1][1]
            if began is not None and len(self.pending) < 64:  # rounds that have not passed
                self.pending.append((done, began))
        if sampled(self.rounds + 1) and self.clock.errors < device.TOO_MANY:
            self.round = _Round(self.rounds + 1)
            if self.stream is None or self.rounds < DENSE:
                self.stream = self.cuda.current_stream()
        self._collect()

    def _drop(self):
        self.round = self.began = None

    def _collect(self):
        """Tell the rounds whose events have passed."""
        while self.pending and self.pending[0][0].stands[-1][1].event.query():
            done, began = self.pending.popleft()
            self._tell(done, began)

    def _tell(self, done, began):
        marks = [mark for pair in done.stands + done.beside for mark in pair]
        if not all(after.event.query() for _, after in done.beside):
            return
        for mark in [began, *marks]:
            self.clock._place(mark)
        end = done.stands[-1][1]
        apart = sum(joins.stood(*pair, self.clock.low) for pair in done.stands)
        beside = sum(max(0, after.at - before.at) for before, after in done.beside)
        own = max(0, end.at - began.at - apart)
        size, calls, hidden = self.told if not done.calls else (done.size, done.calls, max(0, beside - apart))
        code = ON_DEVICE | STOOD | done.gathered | min(1000, hidden * 1000 // max(1, own))
        ranks = min(MOST, sys.modules["torch.distributed"].get_world_size()) | min(MOST, calls) << 16
        ring.record(RENDEZVOUS, code, began.t, end.t, done.number, size, own, apart, ranks)
        self.clock.reuse(mark for mark in [began, *marks] if mark is not end and mark is not self.clock.base)

    def _failed(self, error):
        self._drop()
        self.pending.clear()
        self.clock.failed(error)


def begin():
    """Return the one of this process, making it where a device's clock is at hand; None where there can be none."""
    global here
    if here is None and device.clock is not None:
        engine = sys.modules.get("torch.autograd")
        if engine is not None and hasattr(engine, "_engine_run_backward"):
            patching.patch(engine, "_engine_run_backward", _pass)
            here = Standing(device.clock)
    return here


def _pass(original):
    """Wrap the run of the autograd engine that `backward()` makes."""

    def before(args, kwargs):
        mine = here
        if mine is None or not mine.met or not kwargs.get("accumulate_grad") or spans.silent:
            return None
        marks, handle = [], None
        if mine.reduces and mine.wanted():
            handle = _first(mine, args[0], marks)
        return mine, marks, handle

    def after(begun, _result, _error):
        _over(*begun)

    return wrapping.traced(original, before, after)


def _first(mine, tensors, before):
    """Have the engine call us before it lets DDP wait, by a hook that queues the callback. Returns the hook."""
    try:
        node = next((t.grad_fn for t in tensors if getattr(t, "grad_fn", None) is not None), None)
        if node is None or not mine.usable() or dynamo.compiles_passes():
            return None
        queue = sys.modules["torch.autograd"].Variable._execution_engine.queue_callback

        def computed():
            mark = mine.enter()
            if mark is not None:
                before.append(mark)

        def begun(*_gradients):
            queue(wrapping.quiet(computed))

        return node.register_prehook(wrapping.quiet(begun))
    except Exception as error:
        mine._failed(error)
        return None


def _over(mine, before, handle):
    try:
        if handle is not None:
            handle.remove()
        if before:
            mine.leave(before[0])
        mine.passed()
    except Exception as error:
        mine._failed(error)


def gather(original):
    """Wrap a function of FSDP in which the stream waits for weights, or for gradients that were scattered."""
    return stand(original, GATHERED)


def stand(original, gathered=0):
    """Wrap a function in which the stream of the training is made to wait for other ranks.

    One that is called in another one parts the stand of that: work may be queued in it, before what it waits for.
    """

    def before(_args, _kwargs):
        mine = here or begin()
        if mine is None or spans.silent:
            return None
        outer = mine.opened
        mine.close()
        return (mine, outer) if mine.open(gathered) else None

    def after(begun, _result, _error):
        mine, outer = begun
        mine.close()
        if outer is not None:
            mine.open(outer[1])

    return wrapping.traced(original, before, after)


def aside(original):
    """Wrap what is done on other streams, and may have the host wait: a stand goes on, or rather begins, behind it."""

    def before(_args, _kwargs):
        mine = here
        if mine is None or spans.silent:
            return None
        opened = mine.opened
        mine.close()
        spans.meeting.deputy = spans.get_ident()  # in a backward pass a thread of the engine's
        return mine, opened

    def after(begun, _result, _error):
        mine, opened = begun
        spans.meeting.deputy = None
        if opened is not None:
            mine.open(opened[1])

    return wrapping.traced(original, before, after)


def over(original):
    """Wrap what is done with weights, or gradients, as soon as what was waited for is there: the stand is over."""

    def before(_args, _kwargs):
        if here is not None:
            here.close()

    return wrapping.traced(original, before)


def _hook_flat(module):
    for name in ("_pre_forward_unshard", "_pre_backward_hook", "_post_backward_final_callback"):
        patching.patch(module, name, gather)
    patching.patch(module, "_unshard", aside)
    for name in ("_prefetch_handle", "_finalize_params"):
        patching.patch(module, name, over)


def _hook_group(module):
    for name in ("wait_for_unshard", "post_backward"):  # in the latter for the gradients of the group before
        patching.patch(module.FSDPParamGroup, name, gather)
    patching.patch(module, "foreach_reduce", over)


def _hook_param(module):
    patching.patch(module.FSDPParam, "init_all_gather_outputs", over)


def _hook_state(module):
    patching.patch(module.FSDPState, "_root_post_backward_final_callback", gather)


HOOKS = {
    "torch.distributed.fsdp._runtime_utils": _hook_flat,
    "torch.distributed.fsdp._fully_shard._fsdp_param": _hook_param,
    "torch.distributed.fsdp._fully_shard._fsdp_param_group": _hook_group,
    "torch.distributed.fsdp._fully_shard._fsdp_state": _hook_state,
}
