"""What a tool does in a step of a training: nobody's, the guest's, or TraceML's side of it.

What is theirs (the loader's `__next__`, the model, backward, the optimizer) does nothing on all sides, so that what is
left is what the tool adds.

Of TraceML counts what its manual has one use, `init(mode="auto")` and `trace_step`: the loader's iteration, entering
and leaving the step, the call of the model, backward, the hooks around the optimizer's step. Not counted, in its
favour: what it adds to the call of every module inside of the model and to every `Tensor.to`, torch's way through the
hooks of an optimizer as soon as there is one, and its own thread.
"""

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
import torch.utils.data
from torch.optim import optimizer as hooks


def nothing(*_args: object, **_kwargs: object) -> None:
    """Stand for what a framework does."""


class Batches:
    """An iterator like one with workers; its batches come at no cost.

    torch's own looks at two attributes that the guest has looked at just before: so does this one, on all sides.
    """

    def __init__(self) -> None:
        self._task_info: dict[int, object] = {}
        self._tasks_outstanding = 0

    def __iter__(self) -> Iterator[object]:
        return self

    def __next__(self) -> object:
        self._next_index()
        return self._task_info, self._tasks_outstanding

    def _next_index(self) -> None:
        """Stand for the batch sampler, which torch asks in each `next()`."""


class Model(torch.nn.Module):
    """A model that does nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(4))

    def forward(self) -> None:
        """Do nothing."""


class BareModel(Model):
    """The same, called as torch does it: no tool has patched anything yet."""

    __call__ = torch.nn.Module.__call__


class BareSGD(torch.optim.SGD):
    """An optimizer without what the guest has put into all."""

    _optimizer_step_code = inspect.unwrap(torch.optim.Optimizer._optimizer_step_code)


class Side(NamedTuple):
    """What a training step meets, in its order. All that is called here of no tool's is C or the same on all sides."""

    batches: Iterator[object]
    step: Callable[[Model], AbstractContextManager[object]]
    model: Model
    backward: Callable[[object], object]
    before: Sequence[Callable[..., object]]  # hooks around the optimizer's step, as torch calls them
    optimizer: torch.optim.Optimizer
    after: Sequence[Callable[..., object]]


def bare() -> Side:
    """Return a side where no tool is."""
    model = BareModel()
    return Side(Batches(), _entered(model), model, nothing, (), _made(BareSGD), ())


def guest() -> Side:
    """Return the side of the guest, which is in this process."""
    from gputune_guest import loader, picks, step  # noqa: PLC0415 - only there under the guest

    class Watched(Batches):
        __next__ = loader._next(Batches.__next__)
        _next_index = picks.timed(Batches._next_index)

    model, after = BareModel(), tuple(hooks._global_optimizer_post_hooks.values())
    return Side(Watched(), _entered(model), model, step._backward(nothing), (), _made(torch.optim.SGD), after)


def traceml() -> Side:
    """Return the side of TraceML 0.5, whose `traceml run` runs this process."""
    import traceml_ai  # noqa: PLC0415 - only there in TraceML's interpreter
    from traceml_ai.instrumentation.patches import backward_auto_timer_patch as passes  # noqa: PLC0415 - as above
    from traceml_ai.instrumentation.patches import dataloader_patch as loading  # noqa: PLC0415 - as above

    around = (hooks._global_optimizer_pre_hooks, hooks._global_optimizer_post_hooks)
    others = [set(kept) for kept in around]
    traceml_ai.init(mode="auto")
    own, loading._ORIG_DATALOADER_ITER = loading._ORIG_DATALOADER_ITER, iter
    batches = torch.utils.data.DataLoader.__iter__(Batches())
    next(batches)
    loading._ORIG_DATALOADER_ITER = own
    passes._ORIG_TENSOR_BACKWARD = nothing
    model = Model()
    with traceml_ai.trace_step(model):  # the first one puts its hooks on optimizers
        pass
    before, after = (
        [kept[key] for key in kept if key not in known] for kept, known in zip(around, others, strict=True)
    )
    if not (before and after):
        raise RuntimeError("TraceML has put no hooks on optimizers: was its runtime started?")
    return Side(batches, traceml_ai.trace_step, model, torch.Tensor.backward, before, _made(BareSGD), after)


def _entered(model: Model) -> Callable[[Model], AbstractContextManager[object]]:
    """Return what gives a context manager for the model, both in C: nobody who uses no tool has one there."""
    return {model: threading.Lock()}.__getitem__


def _made(kind: Any) -> torch.optim.Optimizer:
    return kind([torch.nn.Parameter(torch.zeros(4))], lr=0.1)
