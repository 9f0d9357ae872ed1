"""A ledger out of stacks alone, of a process that nobody listens to from inside, and how sure it is.

Every stack is put under the word that the innermost known frame stands for, as in the ledger of spans; inside next()
everything is loader wait but the start of workers. What no frame is known of is `step`, but for what libraries do as
they are imported: that is start-up. Work that is done in C (a copy to the device, `.item()`) shows no frame of its own:
it is a part of the step here.
"""

import math
from dataclasses import dataclass, field

from gputune.core.figures import NORMAL, half_wilson

WAIT, START, IMPORT = "loader.wait", "loader.start", "startup"

# (a part of the file's path, functions or () for all of them, the word). The first that fits a frame counts.
KNOWN: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("torch/utils/data/dataloader.py", ("__iter__", "_get_iterator", "__init__", "_reset", "_shutdown_workers"), START),
    ("torch/utils/data/dataloader.py", (), WAIT),
    ("torch/utils/data/_utils/", (), WAIT),
    ("torchdata/", (), WAIT),
    ("webdataset/", (), WAIT),
    ("tensorflow/python/data/ops/iterator_ops.py", (), WAIT),
    ("nvidia/dali/plugin/", ("__next__", "_get_outputs"), WAIT),
    ("<frozen importlib", (), IMPORT),
    ("torch/serialization.py", ("save", "_save", "_legacy_save"), "checkpoint"),
    ("torch/jit/_serialization.py", ("save",), "checkpoint"),
    ("numpy/lib/", ("save", "savez", "savez_compressed"), "checkpoint"),
    ("torch/distributed/checkpoint/", (), "checkpoint"),
    ("safetensors/", ("save_file", "save_model"), "checkpoint"),
    ("transformers/", ("_save_checkpoint", "save_model", "save_pretrained"), "checkpoint"),
    ("", ("save_checkpoint",), "checkpoint"),
    ("torch/utils/tensorboard/", (), "reporting"),
    ("tensorboardX/", (), "reporting"),
    ("tensorboard/summary/", (), "reporting"),
    ("wandb/", (), "reporting"),
    ("mlflow/", (), "reporting"),
    ("comet_ml/", (), "reporting"),
    ("clearml/", (), "reporting"),
    ("requests/sessions.py", (), "reporting"),
    ("urllib3/", (), "reporting"),
    ("http/client.py", (), "reporting"),
    ("logging/__init__.py", (), "logging"),
    ("logging/handlers.py", (), "logging"),
    ("loguru/", (), "logging"),
    ("tqdm/", ("display", "refresh", "update", "sp", "status_printer", "close", "set_postfix"), "logging"),
    ("rich/progress.py", (), "logging"),
    ("torch/cuda/__init__.py", ("synchronize",), "sync"),
    ("torch/cuda/streams.py", ("synchronize", "wait"), "sync"),
    ("torch/distributed/distributed_c10d.py", (), "collective"),
    ("horovod/", (), "collective"),
    ("lightning", ("batch_to_device", "move_data_to_device", "transfer_batch_to_device"), "copy.h2d"),
    ("accelerate/utils/operations.py", ("send_to_device",), "copy.h2d"),
    ("lightning", ("validation_step", "_evaluation_step", "run_validation"), "evaluation"),
    ("transformers/trainer.py", ("evaluate", "evaluation_loop", "prediction_step"), "evaluation"),
    ("", ("evaluate", "validate", "run_evaluation", "run_validation"), "evaluation"),
)

STEP, REPORTING = "step", "reporting"
LIBRARIES = ("site-packages/", "dist-packages/", "/lib/python3", "<frozen ")
LEAST_LOOKS = 3  # below it the looks say nothing of how much they differ
# Student's t of 95 %, by looks less one, where there are few of them. Source: any table of it.
T95 = {2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23, 15: 2.13, 20: 2.09, 30: 2.04}


def word(parts: list[tuple[str, str, str]]) -> str:
    """Return the word of a stack, given as (function, file, line), the outermost frame first."""
    found = "step"
    for function, file, _line in parts:
        known = _known(function.rpartition(".")[2], file)
        if found == IMPORT and not any(part in file for part in LIBRARIES):
            found = "step"  # a module of their own, which may train as it is imported
        if known and not (found == WAIT and known != START):
            found = known
    return found


# What of the step a frame is of: the first that fits, from the outermost frame on.
STEPS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("torch/optim/", (), "optimizer"),
    ("torch/autograd/", (), "backward"),
    ("torch/_tensor.py", ("backward",), "backward"),
    ("torch/nn/modules/module.py", ("_call_impl", "_wrapped_call_impl", "__call__"), "forward"),
    ("torch/_dynamo/", (), "forward"),
)
ITSELF = "the loop itself"  # at a line of the script's top, or in its loop's function: a call in C has no frame


def part(parts: list[tuple[str, str, str]]) -> str:
    """Return what of the step a stack is of: a pass of the model, or the user's innermost function (`get_batch`)."""
    own: list[str] = []
    for function, file, _line in parts:
        name = function.rpartition(".")[2]
        known = next((p for mark, names, p in STEPS if mark in file and (not names or name in names)), "")
        if known:
            return known
        if file and not any(mark in file for mark in LIBRARIES):
            own.append(function)
    return own[-1] if len(own) > 1 and own[-1] != own[0] else ITSELF


def _known(function: str, file: str) -> str:
    for part, functions, span in KNOWN:
        if part in file and (not functions or function in functions):
            return span
    return ""


@dataclass(slots=True)
class Sampled:
    """The stacks of one process, look by look: those of one look resemble each other more than those of two."""

    stacks: int = 0
    looks: int = 0
    _counts: dict[str, int] = field(default_factory=dict)
    _parts: dict[str, int] = field(default_factory=dict)  # of the step
    _squares: dict[str, float] = field(default_factory=dict)  # of the share in each look that is over
    _sums: dict[str, float] = field(default_factory=dict)
    _look: dict[str, int] = field(default_factory=dict)
    _t: int = 0

    def add(self, t: int, span: str, count: int, of_step: str = "") -> None:
        """Take `count` stacks of a look at `t`, all of one look have the same; `of_step`: what of the step they are."""
        # 1000 functions of the step that are told apart
        if span == STEP and of_step and (of_step in self._parts or len(self._parts) < 1000):
            self._parts[of_step] = self._parts.get(of_step, 0) + count
        if t != self._t:
            self._close()
            self._t = t
            self.looks += 1
        self._look[span] = self._look.get(span, 0) + count
        self._counts[span] = self._counts.get(span, 0) + count
        self.stacks += count

    def steps(self) -> dict[str, float]:
        """Return what the step is made of, most first: shares of all stacks, which add up to no more than the step."""
        return {part: n / self.stacks for part, n in sorted(self._parts.items(), key=lambda item: -item[1])}

    def shares(self, network: float = 0.0) -> dict[str, float]:
        """Return the share of each word; they add up to 1.

        `network` is the share of the time in which the process waited at sockets of the internet. What of that finds no
        room under all the other words was in calls in C, without a frame: it is taken from the step.
        """
        if not self.stacks:
            return {}
        shares = {span: count / self.stacks for span, count in self._counts.items()}
        step = shares.get(STEP, 0.0)
        missed = min(step, max(0.0, network - (1 - step)))
        if missed > 0:
            shares[STEP], shares[REPORTING] = step - missed, shares.get(REPORTING, 0.0) + missed
        return shares

    def margins(self, network: float = 0.0) -> dict[str, float]:
        """Return how far each of the shares may be off, with 95 %: what the number of stacks leaves open, or of looks.

        Nothing where there are too few looks to tell.
        """
        if self.looks < LEAST_LOOKS:
            return {}
        counted = self.shares()
        margins = {span: max(half_wilson(share, self.stacks), self._by_looks(span)) for span, share in counted.items()}
        if self.shares(network) != counted:  # as little as is known of the one is of the other
            margins[REPORTING] = max(margins.get(REPORTING, 0.0), margins[STEP])
        return margins

    def _by_looks(self, span: str) -> float:
        shares = self._of_look()
        total = self._sums.get(span, 0.0) + shares.get(span, 0.0)
        squares = self._squares.get(span, 0.0) + shares.get(span, 0.0) ** 2
        n = self.looks
        variance = max(0.0, squares - total * total / n) / (n - 1)
        t = next((value for looks, value in T95.items() if n - 1 <= looks), NORMAL)
        return min(1.0, t * math.sqrt(variance / n))

    def _of_look(self) -> dict[str, float]:
        count = sum(self._look.values())
        return {span: n / count for span, n in self._look.items()} if count else {}

    def _close(self) -> None:
        for span, share in self._of_look().items():
            self._sums[span] = self._sums.get(span, 0.0) + share
            self._squares[span] = self._squares.get(span, 0.0) + share * share
        self._look = {}
