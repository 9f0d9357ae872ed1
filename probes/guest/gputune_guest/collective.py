"""Collectives that the training thread calls. Those of DistributedDataParallel run inside backward, out of sight."""

import functools
import os
import sys

from gputune_guest import patching, ring, spans
from gputune_guest.words import COLLECTIVE

NAMES = (
    "all_gather all_gather_into_tensor all_gather_object all_reduce all_to_all all_to_all_single barrier broadcast "
    "broadcast_object_list gather gather_object monitored_barrier recv reduce reduce_scatter reduce_scatter_tensor "
    "scatter scatter_object_list send"
)


def _joined(original):
    """Wrap `init_process_group`: say which rank this is, which the environment may not know."""

    @functools.wraps(original)
    def wrapper(*args, **kwargs):
        result = original(*args, **kwargs)
        try:
            dist = sys.modules["torch.distributed"]
            rank = os.environ.get("LOCAL_RANK")
            ring.note(
                n="process",
                rank=dist.get_rank(),
                world_size=dist.get_world_size(),
                local_rank=int(rank) if rank else None,
            )
        except Exception as error:
            ring.failed(error)
        return result

    return wrapper


def _hook(module):
    package = sys.modules.get("torch.distributed")
    for name in NAMES.split():
        patching.patch(module, name, spans.timed(COLLECTIVE, "torch.distributed." + name, marked=True), package)
    patching.patch(module, "init_process_group", _joined, package)


HOOKS = {"torch.distributed.distributed_c10d": _hook}
