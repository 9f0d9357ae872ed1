"""For how long a device stands still for others that the same process uses: a model over two cards, DataParallel.

Where a tensor goes from one device to another, the streams of both wait for each other, and neither call nor backward
pass waits on the host. So in timed steps events are recorded on the stream of the device that is timed, before and
behind what has it wait: `Tensor.to` and `Tensor.cuda`, the nodes that these leave behind for the backward pass, and the
functions by which DataParallel passes things around. What lies between two of them is waiting and the transfer itself.

To such a node two hooks are added, for this one pass: they look at no gradient, and change none.
"""

import sys

from gputune_guest import dynamo, patching, spans, wrapping

now = spans.now
here = spans.here
PASSES = ("broadcast", "broadcast_coalesced", "reduce_add_coalesced", "scatter", "gather")


class Crossing:
    """What the device that is timed in a `step` may have to wait for: once in a call, and once in its backward pass."""

    __slots__ = ("clock", "mark", "step")

    def __init__(self, clock, step):
        self.clock, self.step, self.mark = clock, step, None

    def begins(self, *_gradients):
        """Mark that what makes it wait is about to be queued."""
        self.mark = self._mark()

    def ends(self, *_gradients):
        """Mark that it is queued."""
        before, self.mark = self.mark, None
        after = None if before is None else self._mark()
        if after is not None:
            self.step.crossed(before, after)

    def drop(self):
        """Nothing was queued."""
        if self.mark is not None:
            self.clock.pool.append(self.mark)

    def _mark(self):
        """Return a mark on the stream of the device that is timed, on any thread; None once the step is over."""
        clock = self.clock
        if clock.current is not self.step or clock.capturing():
            return None
        came = now()
        try:
            return clock.mark(on=clock.home)
        except Exception as error:
            clock.failed(error)
            return None
        finally:
            clock.spent += now() - came


def before(tensor, target):
    """Begin to look at a tensor that goes to `target`: None unless it crosses to or from the device that is timed."""
    clock = spans.meeting.clock
    source, there = tensor.get_device(), _index(clock, target)
    if there is None or there == source or clock.home not in {source, there} or spans.get_ident() != here.trainer:
        return None
    crossing = Crossing(clock, clock.current)
    crossing.begins()
    return crossing


def after(crossing, result):
    """Learn what came of it: the backward pass goes back the same way."""
    if result is None:
        crossing.drop()
        return
    crossing.ends()
    node = result.grad_fn
    if hasattr(node, "register_prehook") and not dynamo.compiles_passes():
        back = Crossing(crossing.clock, crossing.step)
        node.register_prehook(wrapping.quiet(back.begins))
        node.register_hook(wrapping.quiet(back.ends))


def _index(clock, target):
    """Return the number of the device that something goes to; None if it goes to none."""
    if isinstance(target, int):
        return target
    kind = sys.modules["torch"].device
    try:
        device = kind(target) if isinstance(target, str) else target
    except RuntimeError:  # no device has such a name, as their call is about to say
        return None
    if not isinstance(device, kind) or device.type != "cuda":  # a type of numbers, say
        return None
    return clock.device() if device.index is None else device.index


def _passed(original):
    """Wrap what passes tensors between devices, in a call or in its backward pass."""

    def begin(args, kwargs):
        clock = None if spans.meeting is None else spans.meeting.clock
        if clock is None or clock.current is None or spans.silent or not _on_device(*args, **kwargs):
            return None
        crossing = Crossing(clock, clock.current)
        crossing.begins()
        return crossing

    def end(crossing, _result, _error):
        crossing.ends()

    return wrapping.traced(original, begin, end)


def _on_device(given, *_args, **_kwargs):
    """Return whether a tensor, or the first of several, lies on a device: what comes from the host is a copy."""
    while isinstance(given, (list, tuple)) and given:
        given = given[0]
    return bool(getattr(given, "is_cuda", False))


def _hook(module):
    for name in PASSES:
        patching.patch(module, name, _passed)


HOOKS = {"torch.nn.parallel.comm": _hook}
