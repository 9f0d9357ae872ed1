"""slow-storage speaks when batches wait for a disk in every epoch, and leaves cold caches and servers to others."""

from dataclasses import replace

import pytest

from gputune.advisors.slow_storage import advise
from gputune.core.mounts import Mount
from gputune.features import Storage
from gputune.model.prediction import Setting, outlooks

MB = 1_000_000


def waiting(run, **differs):
    """Two workers whose batches wait for the disk for 30 of 40 ms, with steps of 5 ms."""
    return run(num_workers=2, cpu=0.010, blocked=0.030, step=0.005, cpus=4, **differs)


def slow(run, reading, **differs):
    """The same, all bytes from a disk, past the page cache."""
    given = {"asked": 20 * MB, "stored": 20 * MB, "direct": True, "asleep": 1.5, **differs}
    return reading(waiting(run), **given)


def test_is_silent_where_the_page_cache_answers(run, reading) -> None:
    assert list(advise(slow(run, reading, stored=0))) == []


def test_is_silent_where_makers_sleep_for_other_reasons(run, reading) -> None:
    assert list(advise(slow(run, reading, asleep=0.02))) == []


def test_is_silent_while_batches_come_in_time(run, reading) -> None:
    made = run(num_workers=4, cpu=0.001, blocked=0.030, step=0.010)
    assert list(advise(reading(made, asked=MB, stored=MB, direct=True, asleep=3.0))) == []


def test_leaves_a_first_epoch_that_memory_will_hold_to_cold_cache(run, reading) -> None:
    first = slow(run, reading, direct=False, memory_free=64_000 * MB)
    assert list(advise(first)) == []


def test_leaves_a_server_to_remote_storage(run, reading) -> None:
    assert list(advise(slow(run, reading, mount=Mount("0:45", "nfs4", "server:/x", "/data")))) == []


def test_beside_a_server_only_what_the_disk_needs_at_its_limit_is_its_own(run, reading) -> None:
    def mixed(disk: Storage):
        told = slow(run, reading, mount=Mount("0:45", "nfs4", "server:/x", "/data"), disk=disk)
        process = told.processes[0]
        return replace(told, processes=(replace(process, folders={**process.folders, "254:0": "/home/me"}),))

    idle = Storage(disk="vda", rate=10 * MB, best=500 * MB, busy=0.02, queue=0.02, request=4096.0)
    full = Storage(disk="vda", rate=990 * MB, best=1000 * MB, busy=0.99, queue=8.0, request=512 * 1024)
    assert list(advise(mixed(idle))) == []
    (finding,) = advise(mixed(full))
    assert finding.evidence["storage_s"] == pytest.approx(0.020, rel=0.05)  # of the 30 ms that a batch is blocked


def test_speaks_in_the_first_epoch_of_what_memory_cannot_hold(run, reading) -> None:
    (finding,) = advise(slow(run, reading, direct=False, memory_free=1000 * MB))
    assert finding.id == "slow-storage"


def test_speaks_when_later_epochs_read_from_disk_again(run, reading) -> None:
    made = run(num_workers=2, cpu=0.010, blocked=0.030, step=0.005, cpus=4, epochs=3)
    again = reading(
        made, asked=20 * MB, stored=20 * MB, asleep=1.5, epochs=[(20 * MB, 0.03)] * 3, memory_free=64_000 * MB
    )
    (finding,) = advise(again)
    assert finding.id == "slow-storage"


def test_promises_the_pace_of_the_page_cache(run, reading) -> None:
    (finding,) = advise(slow(run, reading))
    # a batch takes 9 ms of CPU (10 in makers that got cold) and 5 to copy, two at a time, beside 5 ms of step: 7 of 20
    assert finding.speedup.likely == pytest.approx(20 / 7, rel=0.1)
    assert "30 of its 40 ms" in finding.says
    assert "past the page cache" in finding.says
    assert finding.evidence["stored_B"] == pytest.approx(20 * MB)


def test_names_the_room_in_memory_where_there_is_some(run, reading) -> None:
    (finding,) = advise(slow(run, reading, samples_in_dataset=3200, shm_free=8000 * MB))
    assert "/dev/shm, where 8 GB are free" in finding.do
    assert "2 GB" in finding.do


def test_names_a_faster_disk_where_there_is_none(run, reading) -> None:
    (finding,) = advise(slow(run, reading, samples_in_dataset=32_000, shm_free=8000 * MB))
    assert "20 GB" in finding.do
    assert "faster disk" in finding.do


def test_more_workers_are_no_help_for_a_disk_at_its_limit(run, reading) -> None:
    full = Storage(disk="vda", rate=990 * MB, best=1000 * MB, busy=0.99, queue=8.0, request=512 * 1024)
    (bound,) = outlooks(slow(run, reading, disk=full, asleep=2.0))
    (free,) = outlooks(slow(run, reading))
    assert bound.gain(Setting(8, 2, persistent=False)).likely < 1.2
    assert free.gain(Setting(8, 2, persistent=False)).likely > 1.6
