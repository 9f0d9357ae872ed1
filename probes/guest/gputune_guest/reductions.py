"""When DistributedDataParallel met the other ranks: its reductions run inside backward, where no Python sees them.

DDP keeps clocks of its own around them (`torch/csrc/distributed/c10d/logger.cpp`): when its backward pass was done with
the gradients, and when the last of them was reduced. They are read, in pairs of iterations, at the following forward
pass. No gradient is touched and no communication hook is installed. To read them waits for a device: on one, which is
what a training on it must not do, the device's own stream is timed instead (standing.py).

In a forward pass nothing is exchanged: what the thread queues for a CPU there, it would queue without an exchange, too.
"""

import sys
import time

from gputune_guest import fetch, patching, ring, spans, standing, wrapping
from gputune_guest.words import CALM_PARTS, ON_DEVICE, QUEUED_BITS, RENDEZVOUS

LATEST = 32  # forward passes; of more, the earlier ones count half
MOST = 0xFFFF  # buckets, ranks

now = ring.now
_known = {}  # id of a model to its _Model


class _Model:
    """What is kept of one DDP model: how often it went forward, its last meeting that was read, its forward passes."""

    __slots__ = (
        *("calm", "count", "end", "forward", "iteration", "on_device", "queued", "read", "reference"),
        "standing",
    )

    def __init__(self, model):
        self.reference = wrapping.when_gone(model, _known.pop, id(model), None)
        self.count = self.iteration = self.end = self.read = self.queued = 0
        self.calm = (0, 0, 0)  # forward passes, ns of them, ns queued for a CPU in them
        self.forward = None  # (ns, ns queued so far) at the beginning of the one under way, if it is timed
        self.on_device = getattr(model, "device_type", "cpu") != "cpu"
        self.standing = standing.begin() if self.on_device else None
        if not self.on_device:
            model._set_ddp_runtime_logging_sample_rate(1)


def _new(model):
    mine = _known[id(model)] = _Model(model)
    return mine


def _forward(original):
    def before(args, _kwargs):
        return None if spans.silent else args[0]

    def after(model, _result, error):
        if error is not None:
            return
        mine = _known.get(id(model)) or _new(model)
        # As DDP counts them: an evaluation meets nobody.
        if model.require_backward_grad_sync and sys.modules["torch"].is_grad_enabled():
            mine.count = count = mine.count + 1
            if mine.standing is not None:
                _reduces(model, mine.standing)
            elif _is_read(mine, count):
                _read(model, mine)
                if not mine.on_device:
                    mine.forward = now(), fetch._queued(inline=True)

    return wrapping.traced(original, before, after)


def _forwarded(original):
    def before(args, _kwargs):
        mine = None if spans.silent else _known.get(id(args[0]))
        if mine is not None and mine.forward is not None:
            _calm(mine, now(), fetch._queued(inline=True))

    return wrapping.traced(original, before)


def _calm(mine, t, queued):
    """Count a forward pass that is over at `t` (ns), and for how long its thread stood in the queue meanwhile."""
    (began, before), mine.forward = mine.forward, None
    if before < 0 or queued < 0:
        return
    count, took, waited = mine.calm if mine.calm[0] < LATEST else [part // 2 for part in mine.calm]
    mine.calm = count + 1, took + t - began, waited + queued - before


def _told(mine):
    """Return the share of forward passes that was queued for a CPU, as a code tells it; 0 where it is not known."""
    _count, took, waited = mine.calm
    return (1 + round(CALM_PARTS * min(1.0, waited / took))) << QUEUED_BITS if took > 0 else 0


def _is_read(mine, count):
    """Return whether DDP's clocks are read: without ours, on a device, when it reads them itself."""
    if mine.on_device:
        # 100: DDP's default sampling, left alone on a device, where a sample waits for the device's events
        return count <= standing.DENSE or count % 100 < standing.PAIR
    return standing.sampled(count)


def _reduces(model, device):
    """Have the backward pass that follows timed. Of the first ones DDP tells what it reduced beside them."""
    device.met = device.reduces = True
    if device.round is not None and device.rounds <= standing.DENSE:
        told = model.logger._get_ddp_logging_data().ints_map
        hidden = max(0, told.get("backward_compute_comm_overlap_time", 0))
        device.told = told.get("total_parameter_size_bytes", 0), told.get("num_buckets_reduced", 0), hidden


def _read(model, mine):
    """Tell the meeting before this forward pass, if it is one that DDP has timed and we have not told."""
    told = model.logger._get_ddp_logging_data().ints_map
    t = now()
    iteration = told.get("iteration", 0)
    earlier, end, read, before = mine.iteration, mine.end, mine.read, mine.queued
    if iteration <= earlier:
        return
    mine.iteration, mine.end, mine.read = iteration, told.get("backward_comm_time_end", 0), t
    mine.queued = queued = fetch._queued(inline=True)
    if not earlier or not mine.end:
        return
    hidden = max(0, told.get("backward_compute_comm_overlap_time", 0))
    if mine.on_device:  # the device's own clocks tell how long it reduced while it had nothing else to do
        apart = max(0, told.get("backward_comm_time", 0) - hidden)
        own = max(0, (t - read) // (iteration - earlier) - apart)
        t0, t1 = t - apart, t
    else:
        if iteration != earlier + 1:
            return
        wall = time.time_ns()
        shift = t - wall if abs(mine.end - wall) < abs(mine.end - t) else 0  # which clock DDP's is
        t0, t1 = sorted((told["backward_compute_time_end"] + shift, mine.end + shift))
        own = max(0, t0 - end - shift)
    code = ON_DEVICE if mine.on_device else min(1000, max(0, queued - before) * 1000 // max(1, own)) | _told(mine)
    ranks = min(MOST, told.get("world_size", 0)) | min(MOST, told.get("num_buckets_reduced", 0)) << 16
    ring.record(RENDEZVOUS, code, t0, t1, iteration, told.get("total_parameter_size_bytes", 0), own, hidden, ranks)


def _hook(module):
    ddp = module.DistributedDataParallel
    if hasattr(ddp, "_set_ddp_runtime_logging_sample_rate"):
        patching.patch(ddp, "_pre_forward", _forward)
        patching.patch(ddp, "_post_forward", _forwarded)
        patching.patch(ddp, "_sync_buffers", standing.stand)


wrapping.after_fork(_known.clear)

HOOKS = {"torch.nn.parallel.distributed": _hook}
