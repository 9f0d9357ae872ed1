"""Memory of the device, as torch's allocator has it: what is live between two steps, and that it has run out.

Reading the allocator's counters is a call on the host that takes 10 us, so it is made as often as costs a thousandth of
the run at most, and once a second in the long run. That memory ran out is told by the allocator itself, just before it
raises, whether anybody catches that or not; torch initialises CUDA where it is asked to tell, so it is asked as soon
as somebody else has initialised it. Nothing here touches the device.
"""

import os
import sys

from gputune_guest import places, ring, spans, sync, wrapping
from gputune_guest.words import EXPANDABLE, MEMORY, OOM

now = ring.now
NEVER = 1 << 62
CONFIGURED = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
MOST_DEVICE = 0xFF

due = 0  # when the next look is, ns
_first = 0
_cards = set()


def look(clock):
    """Write what is live and what is reserved, where the training thread is between two steps and a device in use."""
    global due, _first
    try:
        if not clock.usable():
            return
        t = now()
        native = sys.modules["torch"]._C
        device = native._cuda_getDevice()
        if device not in _cards:
            _card(clock.cuda, device)
        stats = native._cuda_memoryStats(device)
        live, retries = stats["allocated_bytes"]["all"], stats["num_alloc_retries"]
        reserved = stats["reserved_bytes"]["all"]["current"]
        ring.record(MEMORY, min(device, MOST_DEVICE), t, t, live["current"], reserved, live["peak"], retries)
        _first = _first or t
        done = now()
        # 1000 times what a look takes, that pass at the least before the next one
        # 32 is the part of what has passed since the first look that passes as well
        # 1_000_000_000 ns that pass at the most
        due = done + min(1_000_000_000, max(1000 * (done - t), (t - _first) // 32))
    except Exception:  # an allocator that does not count, or another torch's names: not measured then
        due = NEVER


def _card(cuda, device):
    """Say which device this is: CUDA's numbers are those of CUDA_VISIBLE_DEVICES."""
    _cards.add(device)
    properties = cuda.get_device_properties(device)
    uuid = getattr(properties, "uuid", None)  # since torch 2.5
    total = getattr(properties, "total_memory", 0)
    ring.note(n="card", device=device, uuid="" if uuid is None else "GPU-%s" % uuid, total=total)


def _ran_out(device, asked, _total, free):
    """Take it that the allocator is about to raise: it calls on the thread that asked, and holds no lock meanwhile."""
    try:
        t = now()
        torch = sys.modules["torch"]
        if device not in _cards:
            _card(torch.cuda, device)
        stats = torch._C._cuda_memoryStats(device)
        live, reserved = (stats[kind]["all"]["current"] for kind in ("allocated_bytes", "reserved_bytes"))
        code = min(device, MOST_DEVICE) | (EXPANDABLE if _expandable() else 0)
        place = spans.site(_frame(), "out of memory")
        ring.record(OOM, code, t, t, asked, live, reserved, free, place)
    except Exception as error:
        ring.failed(error)


def _frame():
    """Return the innermost frame of the thread, or where it has none of its own (a backward pass) the training's."""
    frame = places.outside(sys._getframe().f_back)
    return frame if frame is not None else sys._current_frames().get(ring.here.trainer)


def _expandable():
    return any("expandable_segments:true" in os.environ.get(name, "").lower() for name in CONFIGURED)


def _attach():
    """Ask to be called when memory runs out. Some allocators tell nobody."""
    try:
        sys.modules["torch"]._C._cuda_attach_out_of_memory_observer(wrapping.quiet(_ran_out))
    except Exception:
        return


def _hook(module):
    queue = getattr(module, "_queued_calls", None)  # what torch calls as soon as it has initialised CUDA
    if not sync.has_device(sys.modules["torch"]):
        return
    if module.is_initialized():
        _attach()
    elif queue is not None:
        queue.append((_attach, []))  # with the stack of who asked for it


def _forked():
    global due, _first
    due = _first = 0
    _cards.clear()


wrapping.after_fork(_forked)

HOOKS = {"torch.cuda": _hook}
