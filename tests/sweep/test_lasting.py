"""Workers persist no longer than their loader: nothing is promised of them to a script that builds it each epoch."""

from dataclasses import replace
from pathlib import Path

import pytest

from gputune.features import Epoch, Features, Fetch, Loader, Machine, Process
from gputune.model.prediction import Outlook
from gputune.sweep.lasting import built_anew
from gputune.sweep.limits import Limits
from gputune.sweep.profile import Profile
from gputune.sweep.settings import setting, setting_of

PASS = Epoch(began=0.0, start=0.02, first_wait=0.05, shutdown=0.01, batches=60, seconds=1.0, complete=True)
LOADER = Loader(
    where="train.py:3", num_workers=2, prefetch_factor=2, pin_memory=False, persistent_workers=False, batch_size=16,
    batches=180, samples=2880, waits=(0.015,) * 100, steps=(0.001,) * 100,
    fetches=(Fetch(wall=0.032, cpu=0.0, queued=0.0, collate=0.0, samples=16),) * 100,
)  # fmt: skip


def passes(*fresh: bool) -> Loader:
    return replace(LOADER, epochs=tuple(replace(PASS, fresh=each) for each in fresh))


def profile(anew: float) -> Profile:
    """Two workers that are started for every 60 batches."""
    loader = passes(True, False, False)
    process = Process(
        pid=1, rank=None, wall=3.0, ledger={}, inclusive={}, loop=3.0, batches=180, samples=2880, optimizer_steps=180,
        loaders=(loader,),
    )  # fmt: skip
    run = Features(command=("x",), wall=3.0, machine=Machine(cpus=8.0, cpus_seen=8), processes=(process,))
    own = setting_of(loader)
    room = Limits(workers=8, batches=1e9, memory=None, worker=1, batch=1, script=own)
    return Profile(
        run=run, outlook=Outlook(run, process, loader), script=own, limits=room, parts=(900.0,), measured=900.0,
        ranks=1, epoch=60, anew=anew,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fresh", "share"),
    [((True, False, False), 0.0), ((True, True, True), 1.0), ((True, False, True), 0.5), ((True,), 0.0), ((), 0.0)],
)
def test_the_passes_tell_how_often_it_is_built(fresh: tuple[bool, ...], share: float) -> None:
    assert built_anew(passes(*fresh), "") == share


@pytest.mark.parametrize(
    ("loop", "share"),
    [
        ("for x in DataLoader(\n        data, 16):\n        pass", 1.0),
        ("for n, x in enumerate(tqdm(data.DataLoader(set))):\n        pass", 1.0),
        ("loader = DataLoader(data, 16)\n    for x in loader:\n        pass", 0.0),
        ("for loader in [DataLoader(a), DataLoader(b)]:\n        pass", 0.0),
        ("no python", 0.0),
    ],
)
def test_where_one_pass_was_seen_the_source_tells(tmp_path: Path, loop: str, share: float) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"import torch\nfor e in range(3):\n    {loop}\n")
    assert built_anew(passes(True), str(script)) == share
    assert built_anew(passes(True, False), str(script)) == 0.0
    assert built_anew(passes(True), str(tmp_path / "gone.py")) == 0.0


def test_persistence_buys_nothing_where_the_loader_does_not_last() -> None:
    plain, lasting = (setting(2, 2, pin_memory=False, persistent=each, batch_size=16) for each in (False, True))
    kept, halved, anew = profile(0.0), profile(0.5), profile(1.0)
    assert kept.rate(lasting) > halved.rate(lasting) > anew.rate(lasting) == anew.rate(plain)
    assert any(s.persistent_workers for s in kept.settings())
    assert not any(s.persistent_workers for s in anew.settings())
