"""Which rank of a job this process is, as its launcher says in the environment.

The names are those of docs/ranks.md.
"""

import os
import sys

# (rank, size, local rank, launcher), the innermost launcher first: a torchrun inside of an srun has the last word
VARIABLES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "torch"),  # torchrun, accelerate, Ray Train, a PyTorchJob
    ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "horovod"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "openmpi"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "mpi"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "slurm"),
)


def told():
    """Return (rank, size, local rank) as ints, each None where it was not said."""
    for rank, size, local, _launcher in VARIABLES:
        here = number(rank)
        if here is not None:
            return here, number(size), number(local)
    group = _joined()
    return (None, None, number("LOCAL_RANK")) if group is None else (*group, number("LOCAL_RANK"))


def _joined():
    """Return (rank, size) of a group of several that this process has joined, None where it is in none.

    A launcher of a framework's own says nothing of ranks, and the process may have joined before we came.
    """
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    try:
        if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
            return distributed.get_rank(), distributed.get_world_size()
    except Exception:  # no torch yet, or a group that is going down
        return None
    return None


def alone():
    """Return whether this process is known to meet no other: by its launcher, and by a group that it has joined."""
    if (told()[1] or 1) > 1:
        return False
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    joined = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return not joined or distributed.get_world_size() == 1


def number(name):
    """Return a variable as an int, None where it is none."""
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        return None
