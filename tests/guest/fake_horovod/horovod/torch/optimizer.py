"""An optimizer whose gradients are exchanged while the backward pass goes on, and waited for before its step."""

import torch

from horovod.torch.mpi_ops import allreduce_async_, synchronize


class _DistributedOptimizer(torch.optim.Optimizer):
    def __init__(self, params):
        super(self.__class__, self).__init__(params)
        self._handles, self._kept = {}, []
        for group in self.param_groups:
            for each in group["params"]:
                accumulator = each.expand_as(each).grad_fn.next_functions[0][0]
                accumulator.register_hook(self._make_hook(each))
                self._kept.append(accumulator)

    def _make_hook(self, each):
        def hook(*_ignored):
            self._handles[each] = allreduce_async_(each.grad)

        return hook

    def synchronize(self):
        for each, handle in self._handles.items():
            each.grad.set_(synchronize(handle))
        self._handles.clear()

    def step(self, closure=None):
        self.synchronize()
        return super(self.__class__, self).step(closure)


def DistributedOptimizer(optimizer, named_parameters=None):  # noqa: N802 - Horovod's own name
    name, parents = optimizer.__class__.__name__, (optimizer.__class__,)
    return type(name, parents, dict(_DistributedOptimizer.__dict__))(optimizer.param_groups)
