"""The day's trainings: `training.py KIND [--num-workers N] [--pin-memory 1] [--depth N] [--truth] [--syncs]`.

An ordinary loop that knows nothing of gputune. It prints one JSON object: samples/s and s a step of the timed steps,
the device caught up at both ends, and the median step by the host. `GPU_DAY_SECONDS`: how long these last.

With `--truth` it says how long the device takes for a step that is queued as a whole before it begins, without copies,
and what torch.profiler (CUPTI) saw of its kernels; or, under the simulated runtime, when these steps were, so that its
trace can be read. Then KIND may be several, by commas, an object each: it takes longest to start torch. With `--syncs`
torch says of every synchronization that somebody asks for, from whatever thread.
"""

import argparse
import json
import os
import statistics
import time
import warnings
from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WARM = 25  # steps before anything is timed: allocator, cuBLAS's choice, the loader's queue
TRUE = 40  # steps that the profiler sees: it slows the host, so it sees few
SIDE = 192
ENDLESS = 10_000_000
KINDS = ("device", "tiny", "item", "pageable", "pinned", "starved", "images", "short")
JOINED = ("item", "pageable")  # the host waits within a step: it cannot be queued as a whole
HELD = 20  # steps that are
CYCLES = 20_000_000  # of torch.cuda._sleep, by which its rate is measured


class Kept(Dataset):
    """Whole batches that lie in memory, pinned or not."""

    def __init__(self, batch: torch.Tensor) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return ENDLESS

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.batch


class Decoded(Dataset):
    """Samples that take `seconds` each of waiting, as for a remote decoder, and no CPU."""

    def __init__(self, sample: torch.Tensor, seconds: float) -> None:
        self.sample, self.seconds = sample, seconds

    def __len__(self) -> int:
        return ENDLESS

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.seconds:
            time.sleep(self.seconds)
        return self.sample


class Blocks(nn.Module):
    """Wide layers one after the other, and a head."""

    def __init__(self, wide: int, depth: int, first: nn.Module | None = None) -> None:
        super().__init__()
        self.first = first or nn.Identity()
        self.body = nn.ModuleList(nn.Linear(wide, wide) for _ in range(depth))
        self.head = nn.Linear(wide, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ten numbers a sample."""
        x = self.first(x)
        for layer in self.body:
            x = x + torch.relu(layer(x))
        return self.head(x)


def made(asked: argparse.Namespace) -> tuple[nn.Module, DataLoader]:
    """Return the model and the loader of a kind of training."""
    kind, workers, pin = asked.kind, asked.num_workers, asked.pin_memory
    patches = nn.Sequential(nn.Conv2d(3, 512, 16, 16), nn.Flatten(2), nn.AdaptiveAvgPool1d(1), nn.Flatten())
    if kind == "tiny":
        return Blocks(64, asked.depth or 25), DataLoader(Kept(torch.randn(32, 64)), batch_size=None)
    if kind in {"pageable", "pinned"}:
        images = torch.randn(64, 3, SIDE, SIDE)
        images = images.pin_memory() if kind == "pinned" else images
        return Blocks(512, asked.depth or 24, patches), DataLoader(Kept(images), batch_size=None)
    if kind in {"starved", "images"}:
        starved = kind == "starved"
        images = torch.randint(256, (3, SIDE, SIDE), dtype=torch.uint8)
        data = Decoded(torch.randn(512), 0.001) if starved else Decoded(images, 0.0)
        more = {"pin_memory": pin, "persistent_workers": asked.persistent_workers}
        number, ahead = workers or (1 if starved else 2), asked.prefetch_factor
        loader = DataLoader(data, 32 if starved else 64, num_workers=number, prefetch_factor=ahead, **more)
        return Blocks(512, asked.depth or (24 if starved else 40), None if starved else patches), loader
    wide = 1024 if kind == "short" else 2048
    return Blocks(wide, asked.depth or 12), DataLoader(Kept(torch.randn(2048, wide).pin_memory()), batch_size=None)


class Loop:
    """The loop: one step a call. Of the images each step multiplies some more, so that the device has to work."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.kind = asked.kind
        self.model, self.loader = made(asked)
        self.model = self.model.cuda()
        slow = {"foreach": False} if self.kind == "tiny" else {"fused": True}
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, **slow)
        self.heavy = torch.randn(6144, 6144, device="cuda") if self.kind in {"images", "pageable", "pinned"} else None
        self.lost = 0.0

    def steps(self) -> Iterator[int]:
        """Train, and yield the samples of each step."""
        for batch in self.loader:
            on = batch.to("cuda", non_blocking=self.kind != "pageable")
            loss = self.model(on if on.is_floating_point() else on.float() / 255).square().mean()
            if self.heavy is not None:
                loss = loss + (self.heavy @ self.heavy).mean() * 0
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if self.kind == "item":
                self.lost += loss.item()
            yield len(batch)


def timed(steps: Iterator[int], seconds: float) -> dict[str, float]:
    """Return samples/s and s a step of `seconds` of steps."""
    warmed(steps)
    ends, samples = [time.perf_counter()], 0
    while ends[-1] - ends[0] < seconds:
        samples += next(steps)
        ends.append(time.perf_counter())
    torch.cuda.synchronize()
    took, count = time.perf_counter() - ends[0], len(ends) - 1
    median = statistics.median(after - before for before, after in pairwise(ends))
    return {"samples_per_s": samples / took, "step_s": took / count, "median_s": median, "steps": count}


def warmed(steps: Iterator[int]) -> None:
    """Take the first steps, and let the device catch up."""
    for _ in range(WARM):
        next(steps)
    torch.cuda.synchronize()


def truth(steps: Iterator[int], kind: str) -> dict[str, float]:
    """Return what the device works in a step, ns, or when the steps were."""
    warmed(steps)
    if os.environ.get("SIMCUDA_TRACE"):
        t0 = time.monotonic_ns()
        for _ in range(TRUE):
            next(steps)
        torch.cuda.synchronize()
        return {"t0": t0, "t1": time.monotonic_ns(), "steps": TRUE}
    found = profiled(steps)
    return found if kind in JOINED else {**found, "compute": queued(steps) - found["copied"]}


def profiled(steps: Iterator[int]) -> dict[str, float]:
    """Return what CUPTI says of a step: ns of `kernels`, without what one waits for the next, and of `copied`."""
    profiler = torch.profiler
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as seen:
        for _ in range(TRUE):
            next(steps)
        torch.cuda.synchronize()
    on_device = [e for e in seen.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    copies = [e for e in on_device if "HtoD" in e.name or "DtoH" in e.name]
    everything, copied = (1e3 * sum(e.time_range.elapsed_us() for e in each) / TRUE for each in (on_device, copies))
    if not everything > copied:
        raise RuntimeError("torch.profiler saw no kernel: CUPTI is not to be had here")
    return {"compute": everything - copied, "kernels": everything - copied, "copied": copied}


def queued(steps: Iterator[int]) -> float:
    """Return the ns of the device for a step, the median of some that were queued before it began with them."""
    paced = [held(steps, CYCLES) for _ in range(WARM)]
    hold, took = (statistics.median(each) for each in list(zip(*paced, strict=True))[:2])
    tried = [held(steps, int(4 * CYCLES / hold * took)) for _ in range(HELD)]
    whole = [step for _, _, step, lasted in tried if lasted]
    if len(whole) < HELD / 2:
        raise RuntimeError("a step cannot be queued as a whole here: the device came to it while the host was in it")
    return statistics.median(whole)


def held(steps: Iterator[int], cycles: int) -> tuple[float, float, float, bool]:
    """Hold the device for so many cycles and queue a step.

    Returns ns of the hold, and of host and device for the step, and whether the hold lasted until it was queued.
    """
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
    torch.cuda.synchronize()
    marks[0].record()
    torch.cuda._sleep(cycles)
    marks[1].record()
    began = time.perf_counter_ns()
    next(steps)
    took, lasted = time.perf_counter_ns() - began, not marks[1].query()
    marks[2].record()
    torch.cuda.synchronize()
    hold, step = (1e6 * before.elapsed_time(after) for before, after in pairwise(marks))
    return hold, took, step, lasted


def synchronizations(steps: Iterator[int], seconds: float) -> dict[str, float]:
    """Return how many synchronizations torch warned of in `seconds` of steps, and of one that is asked for then."""
    warmed(steps)
    calls = []
    for owner, name in (
        (torch.cuda, "synchronize"),
        (torch.cuda.Event, "synchronize"),
        (torch.cuda.Stream, "synchronize"),
    ):
        original = getattr(owner, name)
        setattr(owner, name, lambda *given, original=original: (calls.append(1), original(*given))[1])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        del said[:]
        until, count = time.perf_counter() + seconds, 0
        while time.perf_counter() < until:
            next(steps)
            count += 1
        found = len(calls) + sum("synchronizing" in str(one.message) for one in said)
        torch.ones(1, device="cuda").item()
        control = len(calls) + sum("synchronizing" in str(one.message) for one in said) - found
        torch.cuda.set_sync_debug_mode("error")  # and a while in which nobody could ask for one and go on
        for _ in range(WARM):
            next(steps)
        torch.cuda.set_sync_debug_mode("default")
    return {"synchronizations": found, "control": control, "steps": count}


def kinds(word: str) -> list[str]:
    """Return the kinds that a word names, by commas. Raises argparse's error of others."""
    named = word.split(",")
    if unknown := set(named) - set(KINDS):
        raise argparse.ArgumentTypeError(f"there is no {', '.join(sorted(unknown))}")
    return named


def main() -> None:
    """Train as asked for, and say how it went."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("kind", type=kinds, metavar="|".join(KINDS))
    options.add_argument("--num-workers", type=int, default=0)
    options.add_argument("--prefetch-factor", type=int, default=2)
    for name in ("--pin-memory", "--persistent-workers"):
        options.add_argument(name, type=lambda word: word.lower() in {"1", "true"}, default=False)
    options.add_argument("--depth", type=int, default=0)
    options.add_argument("--truth", action="store_true")
    options.add_argument("--syncs", action="store_true")
    asked = options.parse_args()
    torch.set_num_threads(1)
    seconds = float(os.environ.get("GPU_DAY_SECONDS", "5"))
    chosen = asked.kind
    for asked.kind in chosen:
        steps = Loop(asked).steps()
        if asked.truth:
            try:
                found = truth(steps, asked.kind)
            except RuntimeError as error:  # one kind's truth that is not to be had costs no other's
                found = {"error": str(error)}
            found = {"kind": asked.kind, **found}
        else:
            found = synchronizations(steps, seconds) if asked.syncs else timed(steps, seconds)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
