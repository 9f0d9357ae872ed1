"""A torch in pure Python, for interpreters that have none: only the shape that the guest hooks into.

Real worker processes, real queues, the names and attributes of torch 2; nothing is computed.
"""

import types

__version__ = "2.0.0+fake"
_grad = [True]


def is_grad_enabled():
    return _grad[0]


class no_grad:  # noqa: N801 - torch's name
    def __enter__(self):
        _grad.append(_grad[0])
        _grad[0] = False

    def __exit__(self, *error):
        _grad[0] = _grad.pop()


def get_num_threads():
    return 1


class Tensor:
    is_cuda = False

    def item(self):
        return 1.0

    def backward(self):
        pass

    def to(self, device, non_blocking=False):
        there = Tensor()
        there.is_cuda = device != "cpu"
        return there

    def copy_(self, other, non_blocking=False):
        return self

    def is_pinned(self):
        return False

    def element_size(self):
        return 4

    def nelement(self):
        return 1000


from torch import autograd, cuda, nn, optim, serialization, utils, version  # noqa: E402
from torch import overrides as overrides  # noqa: E402
from torch.serialization import save  # noqa: E402

_C = cuda._C
OutOfMemoryError = cuda.OutOfMemoryError
compiler = types.SimpleNamespace(is_dynamo_compiling=lambda: False)
__all__ = ["autograd", "cuda", "nn", "optim", "save", "serialization", "utils", "version"]
