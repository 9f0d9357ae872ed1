"""A probe, an advisor, a command and an exporter are one file each: put into a tree as it is, they work."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "gputune"
FAKE_TORCH = Path(__file__).parent / "guest" / "fake_torch"
TRAIN = """
import torch, time
from torch.utils.data import DataLoader

class Numbers:
    def __len__(self): return 400
    def __getitem__(self, index): return index

optimizer = torch.optim.Optimizer()
for batch in DataLoader(Numbers(), batch_size=4):
    time.sleep(0.01)
    torch.autograd.backward()
    optimizer.step()
"""
ADDED = {
    "probes": '''"""How high the water stands."""

from gputune.core.sample import Metric, Sample, Target, Ticks, now

TIDE = Metric("tide.level", "m", "Height of the water.")
METRICS = (TIDE,)


def attach(target: Target) -> Ticks:
    while True:
        yield [Sample(TIDE, now(), 2.5)]
''',
    "advisors": '''"""The tide is high."""

from gputune.core.finding import Finding, Speedup


def advise(run):
    yield Finding(id="tide", says="the water stands high", do="wait", share_lost=0.5, basis="predicted",
                  falsified_by="ebb", effect="identical", speedup=Speedup(low=1.5, likely=2.0, high=3.0),
                  evidence={"level": 2.5})
''',
    "commands": '''"""Say how high the water stands."""

import click


@click.command(short_help=__doc__)
def command() -> int:
    click.echo("2.5 m")
    return 0
''',
    "exporters": '''"""To the harbour."""

from gputune.exporters import ExportRequest, Sent

TAKES = frozenset()
NEEDS = ()


def export(wish: ExportRequest) -> Sent:
    return Sent(to="tide", where="harbour")
''',
}


@pytest.fixture
def added(tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Return a function that runs gputune of a tree with four more files in it, and nothing else changed."""
    package = tmp_path / "tree" / "gputune"
    package.mkdir(parents=True)
    for entry in ROOT.iterdir():
        if entry.name not in ADDED:
            (package / entry.name).symlink_to(entry.resolve())
    for room, text in ADDED.items():
        (package / room).mkdir()
        for entry in (ROOT / room).iterdir():
            (package / room / entry.name).symlink_to(entry.resolve())
        (package / room / "tide.py").write_text(text)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")}
    environment = {
        **plain,
        "PYTHONPATH": os.pathsep.join((str(package.parent), str(FAKE_TORCH))),
        "PYTHONDONTWRITEBYTECODE": "1",
    }

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "gputune", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    return run


def test_each_is_found_by_its_folder(added: Callable[..., "subprocess.CompletedProcess[str]"], tmp_path: Path) -> None:
    assert added("tide").stdout == "2.5 m\n"
    assert "tide" in added("--help").stdout
    assert added("explain", "tide").stdout.startswith("The tide is high.")
    (tmp_path / "train.py").write_text(TRAIN)
    done = added("watch", "--quiet", "--out", "run", "--json-file", "verdict.json", "--", sys.executable, "train.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert "tide" in [finding["id"] for finding in json.loads((tmp_path / "verdict.json").read_text())["findings"]]
    assert added("export", "run", "--to", "tide").stdout == "harbour\n"
    assert added("export", "run", "--to", "csv").returncode == 0
    assert "2.5" in "".join(file.read_text() for file in (tmp_path / "run" / "csv").glob("samples*.csv"))
