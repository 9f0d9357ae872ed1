"""What `import horovod.torch as hvd` gives."""

from horovod.torch.mpi_ops import allreduce, init, size, synchronize
from horovod.torch.optimizer import DistributedOptimizer

__all__ = ["DistributedOptimizer", "allreduce", "init", "size", "synchronize"]
