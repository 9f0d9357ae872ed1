"""Loops of every shape, of the real packages: counted right, told apart from evaluations, placed and judged.

`make loops` runs them in an environment that has the packages; docs/loops.md says of which versions it was done last.
Elsewhere they are left out: each runs a training, and the plain shapes are judged by the zoo as well.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not os.environ.get("GPUTUNE_LOOPS"), reason="`make loops` runs them, with their packages"),
]

SCRIPTS = Path(__file__).parent / "scripts"
DEADLINE = 300.0  # s; only a hang ends here
PLANTED = "# planted"
MOST_BUSY = 30.0  # % of the CPUs


@dataclass(frozen=True)
class Found:
    """What gputune said of one run of a loop, and how the loop ended."""

    script: Path
    status: int
    err: str
    document: dict[str, Any] = field(repr=False)

    @property
    def process(self) -> dict[str, Any]:
        """The one training process."""
        (process,) = self.document["processes"]
        return dict(process)

    @property
    def training(self) -> list[dict[str, Any]]:
        return [loader for loader in self.document["loaders"] if loader["training"]]

    @property
    def evaluating(self) -> list[dict[str, Any]]:
        return [loader for loader in self.document["loaders"] if not loader["training"]]

    @property
    def causes(self) -> list[str]:
        """What was found, but for what else keeps this machine busy: that is no cause of the loop's."""
        return [finding["id"] for finding in self.document["findings"] if finding["id"] != "busy-host"]

    def planted(self) -> list[str]:
        """Return the places of the script that carry the planted cause, as findings name them."""
        lines = self.script.read_text(encoding="utf-8").splitlines()
        return [f"{self.script.name}:{number}" for number, line in enumerate(lines, 1) if PLANTED in line]


Watch = Callable[..., Found]


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    """Return a function that watches `scripts/NAME.py MODE`; skips where one of `packages` is missing."""

    def run(name: str, mode: str, *packages: str) -> Found:
        for package in packages:
            if importlib.util.find_spec(package) is None:
                pytest.skip(f"{package} is not installed: `make loops` has it")
        script, out = SCRIPTS / f"{name}.py", tmp_path / "run"
        plain = {key: value for key, value in os.environ.items() if not key.startswith("GPUTUNE_")}
        done = subprocess.run(
            [sys.executable, "-m", "gputune", "watch", "--out", str(out), "--", sys.executable, str(script), mode],
            cwd=SCRIPTS,
            env={**plain, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return Found(script, done.returncode, done.stderr, json.loads((out / "findings.json").read_text()))

    return run


@dataclass(frozen=True)
class Shape:
    """A loop, the packages that it needs, and what it does."""

    name: str
    packages: tuple[str, ...] = ()
    batches: int = 120
    steps: int = 120
    evaluated: int = 0  # batches
    cause: str = "few-workers"
    quiet: bool = False  # what can be told of it depends on CPUs that others leave free


SHAPES = (
    Shape("plain"),
    Shape("accumulation", steps=30),
    Shape("several_loaders", batches=240),
    Shape("nested_validation", evaluated=30),
    Shape("get_batch", batches=0, cause="preprocessing-in-loop"),
    Shape("sharded_iterable"),
    Shape("lightning_fit", ("lightning",), evaluated=30),
    Shape("hf_trainer", ("transformers", "accelerate"), evaluated=30),
    Shape("accelerate_loop", ("accelerate",), steps=60, evaluated=30),
    Shape("webdataset_shards", ("webdataset",)),
    Shape("stateful", ("torchdata",)),
    Shape("tf_loop", ("tensorflow",), steps=0, quiet=True),
    Shape("tf_fit", ("tensorflow",), steps=0, evaluated=30, quiet=True),
)


def needs_a_quiet_machine() -> None:
    """Skip where others use the CPUs: then waiting cannot be told from queueing, and nothing is advised."""
    busy = psutil.cpu_percent(interval=1.0)
    if busy > MOST_BUSY:
        pytest.skip(f"others use {busy:.0f} % of the CPUs")


def shapes() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)


@shapes()
def test_nothing_is_said_of_a_healthy_loop(shape: Shape, watch: Watch) -> None:
    found = watch(shape.name, "healthy", *shape.packages)
    assert found.causes == []


@shapes()
def test_batches_steps_and_evaluations_are_counted_once(shape: Shape, watch: Watch) -> None:
    if shape.quiet:
        needs_a_quiet_machine()
    found = watch(shape.name, "slow", *shape.packages)
    assert found.process["batches"] == shape.batches
    assert found.process["optimizer_steps"] == shape.steps
    assert sum(loader["batches"] for loader in found.training) == shape.batches
    assert sum(loader["batches"] for loader in found.evaluating) == shape.evaluated
    assert found.causes[:1] == [shape.cause]
    if shape.name != "get_batch":  # its place is that of the work, which stacks name
        assert found.document["findings"][0]["where"] in found.planted()


@pytest.mark.parametrize("name", ["tf_loop", "tf_fit"])
def test_of_tensorflow_is_spoken_in_its_own_words(name: str, watch: Watch) -> None:
    needs_a_quiet_machine()
    (finding, *_) = watch(name, "slow", "tensorflow").document["findings"]
    assert finding["do"].startswith("map(..., num_parallel_calls=tf.data.AUTOTUNE)")
    assert "num_workers" not in finding["says"]


def test_nothing_is_said_of_what_tensorflow_makes_parallel_by_itself(watch: Watch) -> None:
    assert watch("tf_tuned", "healthy", "tensorflow").causes == []


def test_a_missing_prefetch_is_named_where_tensorflow_adds_none(watch: Watch) -> None:
    found = watch("tf_unprefetched", "slow", "tensorflow")
    assert found.causes == ["low-prefetch"]
    assert found.document["findings"][0]["do"] == "end the pipeline with .prefetch(tf.data.AUTOTUNE)"
