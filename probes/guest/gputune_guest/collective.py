"""Collectives that the training thread calls, numbered so that ranks can be compared call by call.

Those of DistributedDataParallel run inside backward, out of sight: `reductions.py` asks torch's own clocks for them.
"""

import functools
import sys

from gputune_guest import patching, ranks, ring, spans, standing, wrapping
from gputune_guest.words import COLLECTIVE

# every rank of the group makes the same calls of these, in the same order
SHARED = (
    "all_gather all_gather_into_tensor all_gather_object all_gather_single all_reduce all_to_all all_to_all_single "
    "barrier broadcast broadcast_object_list gather gather_object monitored_barrier reduce reduce_scatter "
    "reduce_scatter_single reduce_scatter_tensor scatter scatter_object_list"
)
APART = "recv send"  # two ranks talk, the others do not know

now = spans.now
local = spans.local
_count = 0  # collectives of all ranks together so far


def _met(original, what, *, shared):
    """Wrap one function of `torch.distributed`: a span, with the bytes, the call's number and the number of ranks."""

    def before(args, kwargs):
        t0 = entered()
        if t0 is None:
            return None
        device = standing.here
        return t0, args, kwargs, device, None if device is None else device.begins()

    def after(begun, _result, _error):
        t0, args, kwargs, device, stand = begun
        if stand is not None:
            device.ends(stand)
        t1 = now()
        local.depth = 0
        _tell(what, t0, t1, sys._getframe().f_back, args, kwargs, shared=shared)

    return wrapping.traced(original, before, after)


def _tell(what, t0, t1, frame, args, kwargs, *, shared):  # noqa: PLR0913, PLR0917 - what is known of one call
    try:
        ident = spans.get_ident()
        alone = ident == spans.here.trainer
        number = ranks_met = 0
        handed = args[:2] or tuple(kwargs.values())
        size = _size(handed)
        if shared and _of_all(kwargs.get("group")):  # the numbering of a part of the ranks is its own
            if alone:
                number = numbered()
                # 0xFFFF ranks that fit beside the record's other fields
                ranks_met = min(0xFFFF, sys.modules["torch.distributed"].get_world_size())
            if _on_device(handed):
                device = standing.begin()
                if device is not None:
                    device.counted(size)
        site = spans.site(frame, what)
        ring.record(spans.SPAN, COLLECTIVE, t0, t1, site, size, number, 0 if alone else ident, ranks_met)
    except Exception as error:
        ring.failed(error)


def entered():
    """Begin a span, and return when; None within another one, in a next(), or where nothing is told."""
    if spans.silent or local.depth or spans.in_next():
        return None
    local.depth = COLLECTIVE
    t0 = now()
    spans.mark(spans.SPAN, COLLECTIVE, t0)
    return t0


def numbered():
    """Return the number of the next call that all ranks make."""
    global _count
    _count += 1
    return _count


def _of_all(group):
    """Return whether a group is of all ranks: FSDP names one in any case."""
    if group is None:
        return True
    size = sys.modules["torch.distributed"].get_world_size()
    return size > 1 and group.size() == size


def _on_device(handed):
    """Return whether what is handed over lies on a device."""
    parts = (part for one in handed for part in (one if isinstance(one, list) else (one,)))
    return any(getattr(part, "is_cuda", False) for part in parts)


def _size(handed):
    """Return the bytes of the largest tensor, or list of them, that was handed over."""
    return max(map(bytes_of, handed), default=0)


def bytes_of(argument):
    """Return the bytes of a tensor, or of a list of them; 0 of anything else."""
    if isinstance(argument, (list, tuple)):
        return sum(map(bytes_of, argument))
    try:
        return int(argument.element_size() * argument.nelement())
    except (AttributeError, TypeError):
        return 0


def _joined(original):
    """Wrap `init_process_group`: say which rank this is, which the environment may not know."""

    def after(_begun, _result, error):
        if error is None:
            dist = sys.modules["torch.distributed"]
            ring.note(n="process", rank=dist.get_rank(), world_size=dist.get_world_size(), local_rank=ranks.told()[2])

    return wrapping.around(original, wrapping.always, after)


def _hook(module):
    package = sys.modules.get("torch.distributed")
    for names, shared in ((SHARED, True), (APART, False)):
        for name in names.split():
            make = functools.partial(_met, what="torch.distributed." + name, shared=shared)
            patching.patch(module, name, make, package)
    work = getattr(module, "Work", None)
    if work is not None:  # where a call with async_op=True is waited for
        patching.patch(work, "wait", functools.partial(_met, what="Work.wait", shared=False))
    patching.patch(module, "init_process_group", _joined, package)


def _forked():
    global _count
    _count = 0


wrapping.after_fork(_forked)

HOOKS = {"torch.distributed.distributed_c10d": _hook}
