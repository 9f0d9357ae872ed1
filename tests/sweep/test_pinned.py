"""What page-locked batches are predicted to bring is what was measured of them; on no device they are not tried."""

from dataclasses import replace

import pytest

from gputune.features import Copy, Features, Fetch, Loader, Machine, Process
from gputune.model.prediction import Outlook
from gputune.sweep.limits import Limits
from gputune.sweep.profile import Profile
from gputune.sweep.settings import LoaderSetting, setting_of

COPY = Copy(
    where="train.py:9", what="Tensor.to", count=200, seconds=200 * 0.020, size=200 * 8_000_000, pinned=0.0,
    non_blocking=1.0, fastest=400e6,
)  # fmt: skip


def profile(copy: Copy | None = COPY, *, pins: bool = False) -> Profile:
    """Batches of 8 MB, made in 2 ms, and steps of 25 ms, of which a copy holds the training for 20."""
    loader = Loader(
        where="train.py:3", num_workers=1, prefetch_factor=2, pin_memory=pins, persistent_workers=False, batch_size=4,
        batches=200, samples=800, waits=(0.0001,) * 100, steps=(0.025,) * 100, step_cpus=(0.003,) * 100,
        fetches=(Fetch(wall=0.002, cpu=0.002, queued=0.0, collate=0.0, samples=4),) * 100, batch_bytes=8_000_000,
    )  # fmt: skip
    process = Process(
        pid=1, rank=None, wall=5.0, ledger={}, inclusive={}, loop=5.0, batches=200, samples=800, optimizer_steps=200,
        loaders=(loader,), copies=(copy,) if copy is not None else (), works=(0.025,) * 50 if copy is not None else (),
    )  # fmt: skip
    run = Features(command=("x",), wall=5.0, machine=Machine(cpus=8.0, cpus_seen=8), processes=(process,))
    own = setting_of(loader)
    room = Limits(workers=8, batches=1e9, memory=None, worker=1, batch=1, script=own)
    return Profile(
        run=run, outlook=Outlook(run, process, loader), script=own, limits=room, parts=(160.0,), measured=160.0,
        ranks=1, epoch=0,
    )  # fmt: skip


def locked(of: LoaderSetting) -> LoaderSetting:
    return replace(of, pin_memory=True)


def test_pinning_brings_what_the_two_ceilings_are_apart() -> None:
    found = profile()
    assert found.may_pin
    found.limited(160.0, 640.0)
    assert found.rate(found.script) == pytest.approx(160.0, rel=0.02)
    assert found.rate(locked(found.script)) == pytest.approx(640.0, rel=0.1)
    assert (found.most(found.script), found.most(locked(found.script))) == (160.0, 640.0)
    assert any(wanted.pin_memory for wanted in found.settings())


def test_without_ceilings_a_thread_pins_no_faster_than_copies_are_staged() -> None:
    found = profile()
    found.limited(None, None)
    assert found.most(found.script) is None
    assert 160.0 < found.rate(locked(found.script)) <= 4 / 0.020 * 1.05


def test_what_pinning_was_seen_not_to_bring_is_not_promised() -> None:
    found = profile()
    found.limited(160.0, 150.0)  # noise
    assert found.ceiling == 160.0
    assert found.rate(locked(found.script)) <= 160.0 * 1.02


def test_pinning_is_not_tried_where_no_batch_goes_to_a_device_from_pageable_memory() -> None:
    nowhere, pinned, own = profile(None), profile(replace(COPY, pinned=1.0)), profile(pins=True)
    assert not profile(replace(COPY, seconds=200 * 0.0005)).may_pin  # half a millisecond of 25
    assert not any(wanted.pin_memory for wanted in nowhere.settings())
    assert [found.may_pin for found in (nowhere, pinned, own)] == [False] * 3
    assert all(wanted.pin_memory for wanted in own.settings())
    assert pinned.rate(locked(pinned.script)) == pinned.rate(pinned.script)
