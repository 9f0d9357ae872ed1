"""A made-up run of two workers whose training waits for batches in one part of it, and a command line to export it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest

from gputune.core.events import Event, Kind, Record, SpanCode
from gputune.core.sample import Guest, Metric, Note, Reading, Sample, now
from gputune.recording import Recording
from gputune.report.rejudging import rejudge
from gputune.verdict.building import to_json
from gputune.verdict.document import FindingRow, SpeedupRow, Verdict
from tests.conftest import Run, wait_until

MS = 1_000_000
BEGAN = 5_000_000 * MS
EVERY = 200 * MS  # between batches
WAIT = Metric("loader.wait", "ratio", "Share of the last second that training processes spent in next(), their mean.")
POWER = Metric("gpu.power", "W", "Power draw.", per="gpu")
ENERGY = Metric("gpu.energy", "J", "Energy since boot.", kind="counter", per="gpu")
WORKERS = (11, 12)  # pids; they are processes 1 and 2
LOADER = {"n": "loader", "id": 1, "where": "train.py:9", "num_workers": 2, "prefetch_factor": 2, "in_order": True}


def people() -> list[Reading]:
    """Return the processes of the run, and its only pass over its only loader."""
    found: list[Reading] = [
        Guest(0, 10, 1, BEGAN, 0, "main", "ring"),
        Note(0, {"n": "process", "rank": 3, "world_size": 4}),
        Note(0, LOADER),  # type: ignore[arg-type] # mypy does not see that these values are Json
        Note(0, {"n": "site", "id": 1, "where": "train.py:30", "what": "torch.save"}),
        Event(0, Record(Kind.ITERATOR, 0, BEGAN, BEGAN + MS, 1, 1, 0, 1, 2)),
    ]
    for number, pid in enumerate(WORKERS):
        found += [
            Guest(1 + number, pid, 10, BEGAN, 0, "worker", "ring"),
            Note(1 + number, {"n": "worker", "worker_id": number, "num_workers": 2}),
            Event(0, Record(Kind.MEMBER, 0, BEGAN, BEGAN + MS, 1, pid, 0, 0, number)),
        ]
    return found


def batch(k: int, wait: int) -> list[Reading]:
    """Return the making of batch k, and the next() that returns it at (k + 1) * 200 ms after the begin."""
    at = BEGAN + (k + 1) * EVERY
    return [
        Event(1 + k % 2, Record(Kind.FETCH, 0, at - 150 * MS, at - 10 * MS, 9 * MS, -1, 4 * MS, 4096, 16)),
        Event(0, Record(Kind.BATCH, 0, at - wait, at, 1, k, 0, 0, 16)),
        Event(0, Record(Kind.BACKWARD, 0, at + 5 * MS, at + 25 * MS, 0, 0, 0, 0, 0)),
        Event(0, Record(Kind.STEP, 0, at + 30 * MS, at + 30 * MS, 1, 0, 0, 0, 0)),
    ]


def seconds(count: int, slow: range) -> Iterator[list[Reading]]:
    """Yield the readings of each second; in the `slow` ones the training waits for half of the time."""
    yield [*people(), Sample(POWER, BEGAN, 250.0, "0")]
    for second in range(count):
        waits = 100 * MS if second in slow else 2 * MS
        end = BEGAN + (second + 1) * 1000 * MS
        found = [reading for k in range(second * 5, second * 5 + 5) for reading in batch(k, waits)]
        if second == 1:
            save = Record(Kind.SPAN, SpanCode.CHECKPOINT, end - 160 * MS, end - 140 * MS, 1, 0, 0, 0, 0)
            found.append(Event(0, save))
        found += [
            Sample(WAIT, end, waits * 5 / 1e9),
            Sample(POWER, end, 250.0, "0"),
            Sample(ENERGY, end, 70 * second, "0"),
        ]
        yield found


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., tuple[Recording, Path]]:
    """Make a recording of so many seconds that goes on."""

    def make(
        count: int = 5,
        slow: range = range(0),
        name: str = "run",
        notes: Sequence[dict[str, object]] = (),
        **more: object,
    ) -> tuple[Recording, Path]:
        about = {"command": ["python", "train.py"], "started": BEGAN, "pid": 10, **more}
        recording = Recording.create(tmp_path / name, about, max_size=1 << 24)  # type: ignore[arg-type] # as above
        begun = now()
        early = Sample(POWER, BEGAN, 250.0, "0")  # what is said has the time of its tick's readings
        recording.take([*(Note(0, note) for note in notes), early])  # type: ignore[arg-type] # as above
        for number, readings in enumerate(seconds(count, slow)):
            recording.take(readings)
            recording.beat(begun + (number + 1) * 1000 * MS)
        return recording, tmp_path / name

    return make


@pytest.fixture
def run(recorded: Callable[..., tuple[Recording, Path]]) -> Callable[..., Path]:
    """Make a finished run of so many seconds."""

    def make(count: int = 5, slow: range = range(0), name: str = "run", **more: object) -> Path:
        recording, folder = recorded(count, slow, name, **more)
        recording.about(exit_code=0, ended=BEGAN + count * 1000 * MS)
        recording.close()
        return folder

    return make


@pytest.fixture
def export(gputune: Run) -> Run:
    """Run `gputune export ARGUMENTS` in an empty folder, with no setting of this machine's user in force."""
    return partial(gputune, "export")


TRAINING = """
import time, torch
from torch.utils.data import DataLoader, Dataset
{begin}
class Data(Dataset):
    def __len__(self):
        return 80
    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.ones(4)
if __name__ == "__main__":
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    log = begin()
    for step, batch in enumerate(DataLoader(Data(), batch_size=4)):
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
        log(step, loss.item())
    end()
"""
PATIENCE = 120.0  # s; only a hang ends here


@pytest.fixture
def watched(tmp_path: Path) -> Callable[..., Path]:
    """Watch a real training that logs, and have it exported; return the run folder once `export.log` is whole."""

    def call(begin: str, name: str, status: int = 0, **environ: str) -> Path:
        (tmp_path / "train.py").write_text(TRAINING.format(begin=begin))
        plain = {key: value for key, value in os.environ.items() if not key.startswith("GPUTUNE_")}
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "gputune",
                "watch",
                "--out",
                "run",
                "--export",
                name,
                "--",
                sys.executable,
                "train.py",
            ],
            cwd=tmp_path,
            env={**plain, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == status, done.stderr
        assert f"export: {name}, in a moment" in done.stderr
        wait_until((tmp_path / "run" / "export.log").exists)
        return tmp_path / "run"

    return call


@pytest.fixture
def judged(run: Callable[..., Path]) -> Callable[..., tuple[Path, Verdict]]:
    """Make a finished run with a verdict of one finding, and these notes of its training process."""

    def make(*notes: dict[str, object], **more: object) -> tuple[Path, Verdict]:
        folder = run(5, notes=notes, **more)
        verdict = rejudge(folder)
        finding = FindingRow(
            id="few-workers",
            severity="high",
            share_lost=0.5,
            speedup=SpeedupRow(low=1.5, likely=2.0, high=2.5),
            says="it | waits",
            do="set num_workers=4",
            where="train.py:9",
            change={"num_workers": 4},
            evidence={"waiting": 0.5},
            basis="replay",
            falsified_by="a run",
            effect="same-order",
        )
        verdict = msgspec.structs.replace(verdict, findings=[finding], exit_code=0)
        (folder / "findings.json").write_bytes(to_json(verdict))
        return folder, verdict

    return make
