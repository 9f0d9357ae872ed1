"""A small real training whose watching can be switched on and off, block by block. Runs under the tool it measures.

Blocks come in fours, as on, off, off, on or the other way round, by lot, so that nothing that has a beat of its own
falls on one side. Under gputune, "off" takes the guest's patches out and stops the recorder; under TraceML, it leaves
`trace_step` away and takes out what `init(mode="auto")` has put in, but for the generator around the loader's iterator.
Both sides run in one process and on one CPU, whose choice would else be most of the noise; the worker and whoever
watches go where the system puts them.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import torch
from torch.optim import optimizer
from torch.utils.data import DataLoader, TensorDataset

BLOCK = 40  # steps: a third of a second, so that drifts of the machine hit both sides
SETTLE = 3  # steps after a switch that are not timed
SEED = 7
EVERYWHERE = os.sched_getaffinity(0)
WIDTH = 512


class Switch(Protocol):
    """Something that can be on or off around a step."""

    def set(self, *, on: bool) -> None:
        """Switch."""

    def step(self, model: torch.nn.Module) -> contextlib.AbstractContextManager[object]:
        """Return what a step runs in."""


class GuestSwitch:
    """Takes every patch of the guest out and puts it back, and stops and continues the recorder."""

    def __init__(self) -> None:
        from gputune_guest import patching  # noqa: PLC0415 - only there under `gputune watch`

        self.done = list(patching._done)
        self.absent = patching._ABSENT
        self.hooks = [optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks]
        self.kept = [dict(h) for h in self.hooks]
        self.on = True

    def set(self, *, on: bool) -> None:
        """Switch everything on or off; twice the same is once."""
        if on is self.on:
            return
        self.on = on
        for owner, name, own, ours in self.done:
            if on:
                setattr(owner, name, ours)
            elif own is self.absent:
                delattr(owner, name)
            else:
                setattr(owner, name, own)
        for hooks, kept in zip(self.hooks, self.kept, strict=True):
            hooks.clear()
            hooks.update(kept if on else {})
        for pid in recorder_pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT if on else signal.SIGSTOP)

    def step(self, model: torch.nn.Module) -> contextlib.AbstractContextManager[object]:  # noqa: ARG002 - TraceML's wants it
        """Return what a step runs in: nothing."""
        return contextlib.nullcontext()


class TraceMLSwitch:
    """Runs steps as TraceML's manual has it, or with next to nothing of it. To be made before the loader's iterator."""

    def __init__(self) -> None:
        import traceml_ai  # noqa: PLC0415 - only there in TraceML's interpreter
        from traceml_ai.instrumentation.patches import dataloader_patch  # noqa: PLC0415 - as above

        places = [(torch.nn.Module, "__call__"), (torch.autograd, "backward")]
        places += [(torch.Tensor, "backward"), (torch.Tensor, "to")]
        own = [getattr(owner, name) for owner, name in places]
        traceml_ai.init(mode="auto")
        self.trace = traceml_ai.trace_step
        self.silence = dataloader_patch.suppress_dataloader_timing()
        self.hooks = [optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks]
        with self.trace(torch.nn.Linear(1, 1)):  # the first one puts its hooks on optimizers
            pass
        self.kept = [dict(h) for h in self.hooks]
        self.done = [(*place, mine, getattr(*place)) for place, mine in zip(places, own, strict=True)]
        self.on = True

    def set(self, *, on: bool) -> None:
        """Switch everything on or off; twice the same is once."""
        if on is self.on:
            return
        self.on = on
        for owner, name, own, theirs in self.done:
            setattr(owner, name, theirs if on else own)
        for hooks, kept in zip(self.hooks, self.kept, strict=True):
            hooks.clear()
            hooks.update(kept if on else {})
        if on:
            self.silence.__exit__(None, None, None)
        else:
            self.silence.__enter__()

    def step(self, model: torch.nn.Module) -> contextlib.AbstractContextManager[object]:
        """Return what a step runs in."""
        return self.trace(model) if self.on else contextlib.nullcontext()


def recorder_pids() -> list[int]:
    """Return the recorder's processes: what the supervisor, our parent, started beside us, and their children."""
    found, todo = [], [p for p in _children(os.getppid()) if p != os.getpid()]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo.extend(_children(pid))
    return found


def _children(pid: int) -> list[int]:
    try:
        return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def anywhere(_worker: int) -> None:
    """Let a worker run on all CPUs: it was forked from a process that is bound to one."""
    os.sched_setaffinity(0, EVERYWHERE)


class Training:
    """The model, its data and one step of about `step_ms`."""

    def __init__(self, step_ms: float) -> None:
        torch.set_num_threads(1)
        os.sched_setaffinity(0, {max(EVERYWHERE)})
        self.model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(4)))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.batches = self._batches()
        self.repeat = 1
        x = next(self.batches)
        began = time.perf_counter()
        for _ in range(10):
            self.step(x)
        self.repeat = max(1, round(step_ms / 1e3 / ((time.perf_counter() - began) / 10)))

    @staticmethod
    def _batches() -> Iterator[torch.Tensor]:
        data = TensorDataset(torch.randn(64 * 400, WIDTH))
        while True:
            for (x,) in DataLoader(data, batch_size=64, num_workers=1, worker_init_fn=anywhere):
                yield x

    def step(self, x: torch.Tensor) -> None:
        """Train on one batch."""
        self.optimizer.zero_grad()
        y = x
        for _ in range(self.repeat):
            y = self.model(y)
        y.square().mean().backward()
        self.optimizer.step()

    def block(self, switch: Switch) -> list[float]:
        """Return the times of the steps of one block in s, their batches included."""
        times = []
        for number in range(SETTLE + BLOCK):
            began = time.perf_counter()
            x = next(self.batches)
            with switch.step(self.model):
                self.step(x)
            if number >= SETTLE:
                times.append(time.perf_counter() - began)
        return times


def main() -> None:
    """Train, toggling, and write the steps of the blocks: by fours, whether it was on and the times in s."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tool", required=True)
    options.add_argument("--fours", type=int, required=True)
    options.add_argument("--step-ms", type=float, required=True)
    chosen = options.parse_args()
    before = TraceMLSwitch() if chosen.tool == "traceml" else None
    training = Training(chosen.step_ms)
    switch: Switch = before or GuestSwitch()
    chance = random.Random(SEED)
    fours = []
    try:
        for _ in range(chosen.fours):
            first = chance.random() < 0.5
            blocks = []
            for on in (first, not first, not first, first):
                switch.set(on=on)
                blocks.append((on, training.block(switch)))
            fours.append(blocks)
    finally:
        switch.set(on=True)
    Path(os.environ["SLOWDOWN_OUT"]).write_text(json.dumps(fours))


if __name__ == "__main__":
    main()
