"""A setting that would use up CPUs, /dev/shm or memory is refused, with the reason."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from gputune.experiment.living import ProcessMemory
from gputune.features.concurrent_loaders import Company
from gputune.sweep.limits import Limits, limits
from gputune.sweep.settings import LoaderSetting, setting

MIB = 1 << 20
OWN = setting(0, 2, pin_memory=False, persistent=False)
ROOMY = Limits(workers=64, batches=1e9, memory=None, worker=200 * MIB, batch=MIB, script=OWN)


def workers(number: int, prefetch: int = 2) -> LoaderSetting:
    return setting(number, prefetch, pin_memory=False, persistent=False)


def test_what_fits_is_not_refused() -> None:
    assert ROOMY.refuses(workers(16)) == ""
    assert ROOMY.refuses(OWN) == ""


@pytest.mark.parametrize(
    ("differs", "refused", "says"),
    [
        ({"workers": 4}, workers(5), "CPUs"),
        ({"batches": 15.0}, workers(4, 4), "/dev/shm"),
        ({"memory": 700.0 * MIB}, workers(4), "more memory"),
        ({"shared": False}, workers(2), "stream"),
    ],
)
def test_what_would_use_something_up_is_refused(differs: dict[str, object], refused: LoaderSetting, says: str) -> None:
    limits = replace(ROOMY, **differs)
    assert says in limits.refuses(refused)
    assert limits.refuses(workers(1)) == ""


def test_the_script_s_own_settings_are_what_is_taken_already() -> None:
    own = workers(8)
    limits = replace(ROOMY, script=own, memory=0.0)
    assert limits.refuses(workers(4)) == ""
    assert limits.refuses(workers(10)) != ""


@pytest.mark.parametrize(
    ("stepping", "most"),
    [(0.005, 3), (0.020, 5)],  # 10 ms of CPU for a batch and 1 ms for a step: two CPUs are used up, or half of one
)
def test_more_workers_than_cpus_are_tried_only_where_the_steps_leave_cpus_idle(stepping: float, most: int) -> None:
    loader = SimpleNamespace(
        worker_memory=1, batch_bytes=1, batch_bytes_most=1, batch_shared=True, iterable=False, shards=None,
        num_workers=0, where="train.py:9",
    )  # fmt: skip
    assert limits(looked(loader, stepping=stepping), OWN, None).workers == most


def looked(loader: SimpleNamespace, *beside: SimpleNamespace, stepping: float = 0.005) -> SimpleNamespace:
    """An outlook on two CPUs, of a loader whose batches take 10 ms of CPU, in a process with others `beside`."""
    machine = SimpleNamespace(ranks=1, memory_total=None, memory_limit=None)
    return SimpleNamespace(
        run=SimpleNamespace(machine=machine), loader=loader, process=SimpleNamespace(loaders=(loader, *beside)),
        job=SimpleNamespace(cpus=2.0, others=0.0), making_cpu=0.010, step_cpu=0.001, stepping=stepping,
        fitting_workers=lambda: 2, queued_batches=lambda: 100.0,
    )  # fmt: skip


def made(size: int) -> SimpleNamespace:
    """A loader whose batches are of `size` B."""
    return SimpleNamespace(
        worker_memory=200 * MIB, batch_bytes=size, batch_bytes_most=size, batch_shared=True, iterable=False,
        shards=None, num_workers=0, where="train.py:9",
    )  # fmt: skip


def test_room_is_reckoned_by_the_largest_batch_of_the_line() -> None:
    found = limits(looked(made(MIB), made(4 * MIB)), OWN, None, Company(2, 2, 1))
    assert (found.batch, found.batches) == (4 * MIB, 25.0)
    assert found.shm(workers(2)) == 2 * (4 + 1) * 4 * MIB  # two full queues, and what both loops are at


def test_loaders_that_live_at_once_have_workers_and_queues_each() -> None:
    room = replace(ROOMY, memory=900.0 * MIB)
    inside = replace(room, company=Company(2, 2, 1))  # an evaluation in the middle of an epoch
    after = replace(room, company=Company(2, 1, 1))  # at its end
    assert room.refuses(workers(4)) == after.refuses(workers(4)) == ""
    assert "with 2 loaders at once" in inside.refuses(workers(4))
    assert inside.refuses(workers(2)) == ""
    lasting = setting(4, 2, pin_memory=False, persistent=True)
    assert "with 2 loaders at once" in after.refuses(lasting)
    assert replace(inside, batches=15.0).refuses(workers(2, 4)) != ""


def test_what_the_loaders_that_train_side_by_side_take_already_is_no_more() -> None:
    own = workers(4)
    room = replace(ROOMY, script=own, memory=0.0, company=Company(2, 2, 2), running=2)
    assert room.refuses(workers(3)) == ""
    assert room.refuses(workers(5)) != ""


def test_cpus_are_shared_by_loaders_that_train_side_by_side_alone() -> None:
    loader = made(MIB)
    assert limits(looked(loader), OWN, None, Company(3, 2, 1)).workers == 3
    assert limits(looked(loader), OWN, None, Company(3, 2, 2)).workers == 1


def test_loaders_that_are_met_later_count_as_well() -> None:
    room = replace(ROOMY, memory=900.0 * MIB)
    assert room.refuses(workers(4)) == ""
    assert room.beside(Company(2, 2, 1)).refuses(workers(4)) != ""


def test_a_queue_of_small_batches_takes_next_to_nothing() -> None:
    room = replace(ROOMY, memory=1000 * MIB, batches=10_000.0)
    assert room.trifling(workers(4, 2))
    assert not room.trifling(workers(4, 4))  # of 1,000 MiB it takes 16
    assert not replace(room, batches=500.0).trifling(workers(4, 2))
    assert not replace(room, memory=None).trifling(workers(4, 2))
    assert not replace(room, batch=0).trifling(workers(4, 2))  # how large its batches are is not known


def test_fewer_workers_leave_only_what_nobody_shared_with_them() -> None:
    own = workers(4)
    room = replace(ROOMY, script=own, memory=50.0 * MIB, own=20 * MIB)
    assert room.of_workers(workers(1)) == -3 * 20 * MIB
    assert room.of_workers(workers(5)) == 200 * MIB
    assert room.refuses(workers(1, 118)) == ""  # 110 MiB of batches more, and 60 of workers less
    assert room.refuses(workers(1, 119)) != ""


def test_a_batch_whose_size_was_not_seen_is_not_one_of_nothing() -> None:
    opaque = made(MIB)
    opaque.batch_bytes = opaque.batch_bytes_most = None
    found = limits(looked(opaque), OWN, None)
    assert found.batch is None
    assert found.shm(workers(2)) is None
    assert not replace(found, memory=1e9).trifling(workers(2))


def test_a_batch_without_tensors_takes_nothing_of_shm() -> None:
    plain = made(MIB)
    plain.batch_shared = False
    found = limits(looked(plain), OWN, None)
    assert found.shm(workers(2)) == 0


def test_a_worker_takes_what_it_held_when_all_was_looked_at() -> None:
    loader = made(MIB)  # whose reading says 200 MiB
    more, less = ProcessMemory(250 * MIB, 90 * MIB), ProcessMemory(50 * MIB, 40 * MIB)
    assert limits(looked(loader), OWN, 700 * MIB, each=more).worker == 250 * MIB
    assert limits(looked(loader), OWN, 700 * MIB, each=more).own == 90 * MIB
    assert limits(looked(loader), OWN, 700 * MIB, each=less).worker == 200 * MIB
    assert limits(looked(loader), OWN, 700 * MIB).worker == 200 * MIB
