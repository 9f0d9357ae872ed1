"""A torch module whose work runs on a simulated GPU: forward and backward queue kernels and return at once.

Only for scripts started by `tests/simgpu/run.py`. Like a real device, it runs behind the training: a step waits for it
only where the script reads a result (`net.wait()`, or `loss.item()` of an `awaited` loss), or when the queue is full.
"""

import sys
from pathlib import Path

import kit
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "simgpu"))
import simgpu

GIB = 1 << 30


class _Work(torch.autograd.Function):
    """Two thirds of a step's kernels are its backward pass."""

    @staticmethod
    def forward(ctx, weight, net, samples):
        ctx.net, ctx.samples = net, samples
        net.queue(samples, 1 / 3)
        return weight.sum() / samples

    @staticmethod
    def backward(ctx, grad):
        ctx.net.queue(ctx.samples, 2 / 3)
        return grad.expand(ctx.net.weight.shape).clone(), None, None


class _Awaited(torch.Tensor):
    """A result that lies on the card: reading it waits until the card has come so far."""

    card = None  # the one that it lies on

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in READING:
            cls.card.synchronize()
        return super().__torch_function__(func, types, args, kwargs or {})


READING = frozenset({"item", "cpu", "tolist", "numpy"})


class _OnHost(torch.Tensor):
    """A batch in the host's memory: `to` moves it over the card's link, and waits for that as CUDA does."""

    card = None  # the one that it is moved to
    pinned = False  # it lies in page-locked memory

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name == "is_pinned":
            return args[0].pinned
        if name == "to":
            batch = args[0]
            size = batch.element_size() * batch.nelement()
            cls.card.copy_h2d(size, pinned=batch.pinned, non_blocking=kwargs.get("non_blocking", False))
            return super().__torch_function__(torch.Tensor.as_subclass, types, (batch, _OnCard))
        return super().__torch_function__(func, types, args, kwargs)


class _OnCard(_OnHost):
    """The same on the card."""

    is_cuda = True


class SimNet(torch.nn.Module):
    """A network of `kernels` kernels a step that keep the card busy for `fixed + per_sample * samples` seconds.

    `tensor` is the share of that time in which they use tensor cores, as half precision does; `launching` the CPU
    seconds a step that it takes to launch them; an `awaited` loss is one that waits for the card when it is read.
    """

    def __init__(
        self,
        per_sample: float,
        *,
        fixed: float = 0.0,
        kernels: int = 240,
        memory: int = 4 * GIB,
        tensor: float = 0.4,
        launching: float = 0.0,
        awaited: bool = False,
    ) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2, 4))
        self.per_sample, self.fixed, self.kernels = per_sample, fixed, kernels
        self.tensor, self.launching, self.awaited = tensor, launching, awaited
        self.card = simgpu.Device()
        self.card.alloc(memory)
        _Awaited.card = _OnHost.card = self.card

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        loss = _Work.apply(self.weight, self, len(batch))
        return loss.as_subclass(_Awaited) if self.awaited else loss

    def held(self, batch: torch.Tensor, *, pinned: bool) -> torch.Tensor:
        """Return a batch as it lies on a host with a card: `.to("cuda")` moves it there."""
        held = batch.as_subclass(_OnHost)
        held.pinned = pinned
        return held

    def queue(self, samples: int, part: float) -> None:
        """Put this part of a step's kernels on the card."""
        count = max(1, round(self.kernels * part))
        if self.launching:
            kit.burn(self.launching * part)
        per_sample, fixed = self.per_sample * part, self.fixed * part
        self.card.step(samples, per_sample=per_sample, fixed=fixed, kernels=count, tensor=self.tensor)

    def wait(self) -> None:
        """Wait until the card has finished all that was queued, as reading a loss does."""
        self.card.synchronize()
