"""The guest under each interpreter that it promises: with a torch in pure Python, so that 3.8 can be tried as well."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gputune.core.events import BatchCode, FetchCode, Kind, SpanCode
from tests.guest.interpreters import first_to_start

TRAINING = """
import sys, torch
from torch.utils.data import DataLoader

class Numbers:
    def __len__(self):
        return 20
    def __getitem__(self, i):
        return i

if __name__ == "__main__":
    model, optimizer = torch.nn.Module(torch.nn.Module()), torch.optim.Optimizer()
    for workers in (0, 2):
        loader = DataLoader(Numbers(), batch_size=8, num_workers=workers)
        seen = []
        for batch in loader:
            seen += batch
            torch.autograd.backward()
            optimizer.step()
        assert seen == list(range(20)), seen
        model.eval()
        with torch.no_grad():
            for batch in loader:
                pass
        model.train()
    torch.save({"a": 1}, "model.pt")
    print("done", file=sys.stderr)
"""


def test_a_training_is_seen_whole(watched: Callable[..., Any], python: str, fake_torch: Path) -> None:
    run = watched(TRAINING, python=python, path=(fake_torch,)).healthy()
    assert run.out == ""
    assert run.err == "done\n"
    batches = run.records(Kind.BATCH)
    assert [(b.b, b.code) for b in batches] == [(0, 0), (1, 0), (2, 0), (3, BatchCode.END)] * 4
    assert len(run.records(Kind.STEP)) == len(run.records(Kind.BACKWARD)) == 6
    assert [f.c for f in run.records(Kind.FETCH)] == [8, 8, 4] * 2
    assert {f.code for f in run.records(Kind.FETCH)} == {FetchCode.INLINE}
    assert len(run.workers) == 4  # two loops over a loader with two workers
    fetched = [f for worker in run.workers for f in run.records(Kind.FETCH, worker)]
    assert sorted(f.c for f in fetched) == [4, 4, 8, 8, 8, 8]
    assert len(run.spans(SpanCode.EVALUATION)) == 2
    (saved,) = run.spans(SpanCode.CHECKPOINT, "torch.save")
    assert saved.b > 0
    assert [note["num_workers"] for note in run.notes("loader")] == [0, 2]


def test_an_interpreter_without_torch_says_hello_and_nothing_else(watched: Callable[..., Any], python: str) -> None:
    run = watched("import json, logging; print('hi')", python=python)
    assert (run.status, run.out, run.err) == (0, "hi\n", "")
    (guest,) = run.guests.values()
    assert (guest.state, guest.role) == ("hello", "other")
    assert guest.ended


def test_a_python_that_starts_nothing_is_none(tmp_path: Path) -> None:
    """pyenv leaves a `python3.9` on PATH that leaves with 127 where no 3.9 is chosen; the next on PATH may start."""
    dead, other, good = (tmp_path / name for name in ("dead", "other", "good"))
    dead.write_text("#!/bin/sh\necho 'pyenv: python: command not found' >&2\nexit 127\n")
    other.write_text("#!/bin/sh\nprintf 3.1\n")
    good.write_text("#!/bin/sh\nprintf 3.9\n")
    for file in (dead, other, good):
        file.chmod(0o755)
    assert first_to_start("3.9", (dead, other, good)) == (str(good), "")
    path, why = first_to_start("3.9", (dead, other, tmp_path / "gone"))
    assert path == ""
    assert f"`{dead}` starts nothing: status 127; `{other}` is no Python 3.9: it says '3.1'; " in why
    assert first_to_start("3.9", ()) == ("", "no Python 3.9 on PATH or under pyenv")
