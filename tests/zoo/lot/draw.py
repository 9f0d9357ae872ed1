"""Loops drawn by lot: a seed gives a script with a cause or two that are planted, or none, and its repaired twins.

    python tests/zoo/lot/draw.py 17     # prints the script of seed 17

What is drawn: workers, prefetch, batch size, how long a sample takes, how that varies and how much of it is computing,
the step, the device it waits for, passes, pauses, the shape of the loop. Sizes are chosen in seconds of a nominal loop,
not after what gputune has for thresholds; nothing here knows an advisor but by the name of the cause.
"""

import math
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

TEMPLATE = Template((Path(__file__).parent / "loop.py.txt").read_text())
SPACE = 2  # version of what is drawn from: a seed means nothing without it
HEALTHY = 0.3  # share of draws without a cause
TWO = 0.25  # of those with one, that have a second
LOOP_S = 9.0  # nominal length of a loop: half a minute for a script and its twin
ROUNDS = 80, 1200  # batches, at the least and at the most
CPUS = 2  # that a draw is made for: workers beyond them wait for something else


@dataclass
class Draw:
    """One loop. Times are seconds: of a batch in a worker, of a step."""

    seed: int
    making: float = 0.0
    cpu: float = 0.0  # share of making that computes
    spread: str = "constant"
    step: float = 0.0
    device: float = 0.0  # share of the step in which the host waits
    workers: int = 0
    prefetch: int = 2
    batch: int = 8
    passes: int = 1
    persistent: bool = True
    shuffle: bool = True
    stream: bool = False  # an IterableDataset that shares its samples out
    by_batch: bool = False  # the data set has `__getitems__`
    shape: str = "for"  # of the loop
    causes: list[str] = field(default_factory=list)
    fixes: dict[str, dict[str, object]] = field(default_factory=dict)  # of each cause: options of the script
    others: list[str] = field(default_factory=list)  # causes that may stand first in place of the first one
    extra: dict[str, object] = field(default_factory=dict)  # settings that make the causes
    neighbours: int = 0

    def round_s(self) -> float:
        """Return about how long a batch takes, for the length of the loop alone."""
        step, making = self.step, self.making
        fetched = making + step if not self.workers else max(step, making / self.workers)
        extra = {name: value for name, value in self.extra.items() if isinstance(value, float)}
        paused = extra.get("pause", 0.0) / max(1, int(self.extra.get("every", 1)))
        return fetched + paused + sum(extra.get(name, 0.0) for name in ("inside", "after", "python", "picking"))


def _between(lot: random.Random, low: float, high: float) -> float:
    """Return a number, each ratio as likely."""
    return math.exp(lot.uniform(math.log(low), math.log(high)))


# ---- loops without a cause


def _hidden(lot: random.Random, draw: Draw) -> None:
    """Workers have more batches ready than the steps take."""
    draw.workers, draw.cpu = lot.choice([1, 2, 3, 4]), lot.choice([0.0, 0.2, 0.5])
    draw.step, draw.device = _between(lot, 0.015, 0.08), lot.choice([0.0, 0.4, 0.9])
    most = (CPUS - (1 - draw.device)) / max(draw.cpu, 0.01)  # workers that the free CPUs feed
    draw.making = draw.step * min(draw.workers, most) * lot.uniform(0.15, 0.6)
    draw.spread = lot.choice(["constant", "gamma", "blocks"])
    draw.prefetch = lot.choice([2, 2, 4])


def _inline(lot: random.Random, draw: Draw) -> None:
    """Samples that cost next to nothing, without workers."""
    draw.step, draw.device = _between(lot, 0.01, 0.08), lot.choice([0.0, 0.5])
    draw.making, draw.cpu = draw.step * lot.uniform(0.001, 0.015), 1.0


def _rare(lot: random.Random, draw: Draw) -> None:
    """Pauses that cost two percent and less."""
    _hidden(lot, draw)
    every = lot.choice([50, 100])
    draw.extra |= {"pause": draw.step * every * lot.uniform(0.002, 0.02), "every": every, "kind": lot.choice(PAUSES)}


# ---- causes


def _few(lot: random.Random, draw: Draw) -> None:
    """Samples that are waited for, and too few who wait."""
    draw.step, draw.device = _between(lot, 0.012, 0.06), lot.choice([0.0, 0.3, 0.9])
    draw.workers, draw.cpu = lot.choice([0, 1, 2, 3]), lot.choice([0.0, 0.1, 0.2])
    draw.making = draw.step * (lot.uniform(0.4, 2.5) if not draw.workers else draw.workers * lot.uniform(1.4, 3.5))
    draw.spread = lot.choice(["constant", "gamma", "heavy", "blocks"])
    draw.fixes["few-workers"] = {"num_workers": min(12, math.ceil(1.4 * draw.making / draw.step) + 1)}


def _few_computing(lot: random.Random, draw: Draw) -> None:
    """Samples that are computed in the training's own thread."""
    draw.step, draw.device = _between(lot, 0.01, 0.05), lot.choice([0.0, 0.5, 0.9])
    draw.making, draw.cpu = draw.step * lot.uniform(0.4, 1.4), lot.choice([0.8, 1.0])
    draw.spread = lot.choice(["constant", "gamma", "heavy"])
    draw.fixes["few-workers"] = {"num_workers": 2 if draw.device else 1}


def _bursts(lot: random.Random, draw: Draw) -> None:
    """One batch in so many takes long, and the queue is short."""
    draw.step, draw.device, draw.cpu = _between(lot, 0.01, 0.03), lot.choice([0.5, 0.9]), 0.0
    draw.workers, draw.prefetch, draw.shuffle, draw.by_batch = lot.choice([2, 3]), lot.choice([1, 2]), False, True
    draw.making = draw.step * draw.workers * lot.uniform(0.6, 0.8)
    draw.spread = "bursts"
    draw.fixes["low-prefetch"] = {"prefetch_factor": 16}
    draw.others = ["straggling-worker"]


def _restart(lot: random.Random, draw: Draw) -> None:
    """Short passes that start their workers anew."""
    draw.step, draw.device = _between(lot, 0.01, 0.03), lot.choice([0.0, 0.5])
    draw.workers, draw.cpu, draw.persistent = lot.choice([1, 2, 3]), lot.choice([0.0, 0.3]), False
    draw.making = draw.step * draw.workers * lot.uniform(0.3, 0.7)
    draw.passes = lot.choice([10, 16, 24])
    draw.fixes["worker-restart"] = {"persistent_workers": True}


def _locked(lot: random.Random, draw: Draw) -> None:
    """Workers that stand in line."""
    draw.step, draw.device, draw.cpu = _between(lot, 0.012, 0.04), lot.choice([0.4, 0.8]), 0.0
    draw.workers, draw.by_batch = lot.choice([2, 3, 4, 6]), True
    draw.making = draw.step * lot.uniform(1.4, 2.5)
    draw.spread = lot.choice(["constant", "gamma"])
    draw.extra["lock"] = lot.choice(["file", "semaphore"])
    draw.fixes["serialized-workers"] = {"lock": "none"}


def _heavy(lot: random.Random, draw: Draw) -> None:
    """Computing that fills the CPUs, whoever does it."""
    draw.step, draw.device = _between(lot, 0.015, 0.04), lot.choice([0.3, 0.8])
    draw.workers, draw.cpu = lot.choice([2, 2, 3]), 1.0
    draw.making = draw.step * CPUS * lot.uniform(1.5, 2.5)
    draw.fixes["heavy-preprocessing"] = {"cheaper": 0.5}
    draw.others = ["oversubscribed-workers"] if draw.workers > CPUS else []


def _many(lot: random.Random, draw: Draw) -> None:
    """More workers that compute than there are CPUs."""
    draw.step, draw.device = _between(lot, 0.01, 0.03), 0.0
    draw.workers, draw.cpu = lot.choice([6, 8, 12]), 1.0
    draw.making = draw.step * lot.uniform(0.5, 0.9)
    draw.fixes["oversubscribed-workers"] = {"num_workers": 1}
    draw.others = ["oversubscribed-threads", "heavy-preprocessing"]


def _straggler(lot: random.Random, draw: Draw) -> None:
    """One sample in many takes a second, and is waited for in its turn."""
    draw.step, draw.device, draw.cpu = _between(lot, 0.01, 0.03), lot.choice([0.4, 0.9]), 0.0
    draw.workers, draw.shuffle, draw.by_batch = lot.choice([3, 4]), False, True
    draw.making, draw.spread = draw.step * draw.workers * lot.uniform(0.3, 0.6), "rare"
    draw.fixes["straggling-worker"] = {"in_order": False}
    draw.others = ["low-prefetch"]


def _paused(cause: str, kind: str) -> Callable[[random.Random, Draw], None]:
    def plant(lot: random.Random, draw: Draw) -> None:
        if not draw.step:
            _hidden(lot, draw)
        every = lot.choice([5, 10, 25, 40])
        draw.extra |= {"pause": draw.step * every * lot.uniform(0.15, 0.7), "every": every, "kind": kind}
        draw.fixes[cause] = {"every": 10 * every}
        if kind == "logging":  # most of it is making the text that is logged
            draw.others.append("work-after-step")

    return plant


def _worked(cause: str, place: str) -> Callable[[random.Random, Draw], None]:
    def plant(lot: random.Random, draw: Draw) -> None:
        if not draw.step:
            _hidden(lot, draw)
        draw.extra[place] = draw.step * lot.uniform(0.2, 0.9)
        draw.fixes[cause] = {"moved": True, "num_workers": max(1, draw.workers)} if place == "inside" else {place: 0.0}

    return plant


def _anew(lot: random.Random, draw: Draw) -> None:
    """Each pass begins with work of its own."""
    if not draw.step:
        _hidden(lot, draw)
    draw.passes = max(draw.passes, lot.choice([3, 4, 6]))
    draw.extra["anew"] = LOOP_S / draw.passes * lot.uniform(0.2, 0.7)
    draw.fixes["work-between-passes"] = {"anew": 0.0}


def _threads(lot: random.Random, draw: Draw) -> None:
    """More of torch's threads than CPUs."""
    draw.step, draw.device = _between(lot, 0.02, 0.05), 0.0
    draw.making, draw.cpu = draw.step * 0.01, 1.0
    draw.extra["threads"] = lot.choice([8, 16])
    draw.fixes["oversubscribed-threads"] = {"threads": CPUS}


def _crowded(lot: random.Random, draw: Draw) -> None:
    """Somebody else's processes on the CPUs."""
    _few_computing(lot, draw)
    draw.fixes = {"busy-host": {}}
    draw.workers, draw.device, draw.neighbours = 1, 0.0, CPUS
    draw.others = ["few-workers", "oversubscribed-workers", "heavy-preprocessing"]


def _producing(lot: random.Random, draw: Draw) -> None:
    """A thread of the script's own makes the batches, and a queue hands them over."""
    _few(lot, draw)
    draw.workers, draw.making, draw.cpu = 1, draw.step * lot.uniform(1.4, 3.0), 0.0
    draw.extra["source"] = "thread"
    draw.fixes = {"slow-producer": {"makers": math.ceil(1.4 * draw.making / draw.step) + 1}}


def _direct(lot: random.Random, draw: Draw) -> None:
    """No loader: the loop makes its batches itself."""
    _few_computing(lot, draw)
    draw.extra["source"] = "none"
    draw.fixes = {"preprocessing-in-loop": {"source": "loader", "num_workers": 2}}


def _managed(lot: random.Random, draw: Draw) -> None:
    """Samples lie in a process that hands them out."""
    draw.step, draw.device = _between(lot, 0.012, 0.03), lot.choice([0.4, 0.8])
    draw.workers, draw.cpu, draw.making = lot.choice([2, 3, 4]), 0.0, draw.step * 0.2
    draw.extra["managed"] = lot.choice([200_000, 600_000])
    draw.fixes["shared-manager"] = {"managed": 0}
    draw.others = ["serialized-workers"]


def _cleaned(lot: random.Random, draw: Draw) -> None:
    """Garbage is collected every few steps."""
    if not draw.step:
        _hidden(lot, draw)
    draw.extra["collect"] = lot.choice([5, 10, 20])
    draw.fixes["frequent-cleanup"] = {"collect": 0}


def _anomalous(lot: random.Random, draw: Draw) -> None:
    """torch looks for anomalies."""
    if not draw.step:
        _hidden(lot, draw)
    draw.extra["anomaly"] = True
    draw.fixes["anomaly-detection"] = {"anomaly": False}


def _late(lot: random.Random, draw: Draw) -> None:
    """One of two ranks waits longer for its batches."""
    draw.step, draw.device, draw.cpu = _between(lot, 0.02, 0.05), 0.9, 0.0
    draw.workers = lot.choice([1, 2])
    draw.making = draw.step * draw.workers * lot.uniform(0.3, 0.6)
    draw.extra |= {"ranks": 2, "late": lot.uniform(2.0, 4.0)}
    draw.fixes["straggling-rank"] = {"late": 0.0}
    draw.others = ["few-workers"]


PAUSES = ("checkpoint", "evaluation", "evaluation in eval mode", "logging")
SECOND = {
    "frequent-checkpoint": _paused("frequent-checkpoint", "checkpoint"),
    "frequent-eval": _paused("frequent-eval", "evaluation"),
    "frequent-eval ": _paused("frequent-eval", "evaluation in eval mode"),
    "frequent-logging": _paused("frequent-logging", "logging"),
    "preprocessing-in-loop": _worked("preprocessing-in-loop", "inside"),
    "work-after-step": _worked("work-after-step", "after"),
    "python-in-step": _worked("python-in-step", "python"),
    "slow-sampler": _worked("slow-sampler", "picking"),
    "work-between-passes": _anew,
    "frequent-cleanup": _cleaned,
    "anomaly-detection": _anomalous,
}
FIRST = {
    "few-workers": _few,
    "few-workers ": _few,
    "few-workers  ": _few_computing,
    "low-prefetch": _bursts,
    "worker-restart": _restart,
    "serialized-workers": _locked,
    "heavy-preprocessing": _heavy,
    "oversubscribed-workers": _many,
    "straggling-worker": _straggler,
    "oversubscribed-threads": _threads,
    "busy-host": _crowded,
    "slow-producer": _producing,
    "preprocessing-in-loop ": _direct,
    "shared-manager": _managed,
    "straggling-rank": _late,
    **SECOND,
}
SOUND = (_hidden, _hidden, _inline, _rare)


def drawn(seed: int) -> Draw:
    """Return the loop of this seed."""
    lot, draw = random.Random(f"lot {SPACE} {seed}"), Draw(seed)
    draw.batch = lot.choice([4, 8, 16, 32])
    draw.shape = lot.choice(["for", "enumerate", "iterator"])
    draw.passes = lot.choice([1, 1, 2, 3])
    if lot.random() < HEALTHY:
        lot.choice(SOUND)(lot, draw)
    else:
        _plant(lot, draw)
    draw.by_batch = draw.by_batch or lot.random() < 0.3
    plain = draw.shuffle and not {"picking", "source", "managed"} & set(draw.extra)
    draw.stream = not draw.by_batch and plain and lot.random() < 0.2
    draw.persistent = draw.persistent and (draw.passes > 1 or lot.random() < 0.5)
    return draw


def _plant(lot: random.Random, draw: Draw) -> None:
    name = lot.choice(list(FIRST))
    FIRST[name](lot, draw)
    draw.causes = [name.strip()]
    if lot.random() < TWO and not draw.neighbours and not {"source", "ranks"} & set(draw.extra):
        kinds = [kind for kind in SECOND if "kind" not in draw.extra or not kind.startswith("frequent")]
        second = lot.choice([kind for kind in kinds if kind.strip() != draw.causes[0]])
        SECOND[second](lot, draw)
        draw.causes.append(second.strip())


# ---- the script

LOOPS = {
    "for": "for batch in source:",
    "enumerate": "for number, batch in enumerate(source):",
    "iterator": "batches = iter(source)\n        while (batch := next(batches, None)) is not None:",
}


def script(draw: Draw) -> str:
    """Return the source of a draw, with the header that the zoo's judge reads."""
    rounds = min(ROUNDS[1], max(ROUNDS[0], round(LOOP_S / draw.round_s())))
    steps = math.ceil(rounds / draw.passes)
    fixes = {cause: dict(options) for cause, options in draw.fixes.items()}
    every = {name: value for options in fixes.values() for name, value in options.items()}
    about = {
        "cause": draw.causes[0] if draw.causes else None,
        "causes": draw.causes,
        "others": draw.others,
        "says": " and ".join(draw.causes) or "healthy",
        "fix": every,
        "fixes": fixes,
        "device": "none",
        "also": [],
    } | ({"neighbours": draw.neighbours} if draw.neighbours else {})
    settings = {
        "num_workers": draw.workers,
        "prefetch_factor": draw.prefetch,
        "persistent_workers": draw.persistent,
        "batch_size": draw.batch,
        "in_order": True,
        "every": 1,
        "cheaper": 1.0,
        "inside": 0.0,
        "moved": False,
        "after": 0.0,
        "python": 0.0,
        "picking": 0.0,
        "anew": 0.0,
        "threads": 1,
        "lock": "none",
        "source": "loader",
        "makers": 1,
        "managed": 0,
        "collect": 0,
        "anomaly": False,
        "late": 0.0,
    }
    settings |= {name: value for name, value in draw.extra.items() if name in settings}
    given = ", ".join(f"{name}={round(v, 5) if isinstance(v, float) else v!r}" for name, v in settings.items())
    return TEMPLATE.substitute(
        seed=draw.seed,
        zoo=repr(about),
        settings=given,
        making=f"{draw.making / draw.batch:.6f}",
        cpu=draw.cpu,
        spread=repr(draw.spread),
        compute=f"{draw.step * (1 - draw.device) / 3:.6f}",  # the backward pass takes twice as long
        device=f"{draw.step * draw.device:.6f}",
        samples=steps * draw.batch,
        passes=draw.passes,
        kind=repr(draw.extra.get("kind", "")),
        pause=f"{draw.extra.get('pause', 0.0):.6f}",
        base="IterableDataset" if draw.stream else "Dataset",
        method=METHODS["stream" if draw.stream else "batch" if draw.by_batch else "item"],
        shuffle=draw.shuffle and not draw.stream,
        loop=LOOPS[draw.shape],
        ranks=draw.extra.get("ranks", 0),
    )


METHODS = {
    "item": """def __getitem__(self, index):
        self.make(cost(index))
        return sample(index)""",
    "batch": """def __getitems__(self, indices):
        self.make(sum(map(cost, indices)))
        return [sample(index) for index in indices]""",
    "stream": """def __iter__(self):
        about = get_worker_info()
        for index in range(about.id if about else 0, SAMPLES, about.num_workers if about else 1):
            self.make(cost(index))
            yield sample(index)""",
}


def write(draw: Draw, folder: Path) -> Path:
    """Write a draw's script, and beside it what the zoo's scripts share."""
    path = folder / f"draw_{draw.seed}.py"
    path.write_text(script(draw))
    kit = folder / "kit.py"
    if not kit.exists():
        kit.symlink_to(Path(__file__).resolve().parents[1] / "kit.py")
    return path


if __name__ == "__main__":
    print(script(drawn(int(sys.argv[1]))))
