"""A setting that would use up CPUs, /dev/shm or memory is refused, with the reason."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from gputune.sweep.limits import Limits, limits
from gputune.sweep.settings import Setting, setting

MIB = 1 << 20
OWN = setting(0, 2, pin_memory=False, persistent=False)
ROOMY = Limits(workers=64, batches=1e9, memory=None, worker=200 * MIB, batch=MIB, script=OWN)


def workers(number: int, prefetch: int = 2) -> Setting:
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
def test_what_would_use_something_up_is_refused(differs: dict[str, object], refused: Setting, says: str) -> None:
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
        worker_memory=1, batch_bytes_most=1, batch_shared=True, iterable=False, shards=None, num_workers=0
    )
    machine = SimpleNamespace(ranks=1, memory_total=None, memory_limit=None)
    outlook = SimpleNamespace(
        run=SimpleNamespace(machine=machine), loader=loader, job=SimpleNamespace(cpus=2.0, others=0.0),
        making_cpu=0.010, step_cpu=0.001, stepping=stepping, fitting_workers=lambda: 2, queued_batches=lambda: 1e9,
    )  # fmt: skip
    assert limits(outlook, OWN, None).workers == most


def test_a_queue_of_small_batches_takes_next_to_nothing() -> None:
    room = replace(ROOMY, memory=1000 * MIB, batches=10_000.0)
    assert room.trifling(workers(4, 2))
    assert not room.trifling(workers(4, 4))  # of 1,000 MiB it takes 16
    assert not replace(room, batches=500.0).trifling(workers(4, 2))
    assert not replace(room, memory=None).trifling(workers(4, 2))
    assert not replace(room, batch=0).trifling(workers(4, 2))  # how large its batches are is not known
