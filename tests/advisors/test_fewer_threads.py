"""How many threads a step would best have beside workers, on CPUs that are too few for both."""

from dataclasses import replace

import pytest

from gputune.features import Features, Precision
from gputune.model.crowding import narrower
from gputune.model.prediction import outlooks
from gputune.verdict.judging import judge

# As a small network on pictures was measured on two CPUs: 24 ms to make a batch, 15 ms a step on two threads, which
# takes 17 on one. Two workers were no gain, and x1.49 with one thread.
PICTURES = {"cpu": 0.024, "step": 0.015, "step_cpu": 0.027, "cpus": 2}


def on_threads(plain: Features, threads: int = 2, device: str = "cpu") -> Features:
    precision = Precision(types=("torch.float32",), devices=(device,), threads=threads)
    built = "" if device == "cpu" else "13.0"
    processes = tuple(replace(p, precision=precision, built=built, cpu=1.3) for p in plain.processes)
    return replace(plain, processes=processes, machine=replace(plain.machine, job=1.3))


def test_workers_take_the_cpus_of_a_step_that_has_them_all(run) -> None:
    (finding,) = judge(on_threads(run(num_workers=0, **PICTURES)))
    assert finding.id == "few-workers"
    assert finding.change == {"num_workers": 2, "threads": 1}
    assert "torch.set_num_threads(1)" in finding.do
    assert finding.speedup.low < 1.49 < finding.speedup.high
    assert finding.speedup.likely == pytest.approx(1.49, rel=0.2)
    assert finding.settable == {}  # workers alone are no gain


def test_beside_workers_the_threads_are_the_finding(run) -> None:
    beside = run(num_workers=2, cpu=0.031, queued=0.031, step=0.043, step_cpu=0.048, waits=(0.007,), cpus=2)
    (process,) = beside.processes
    queued = tuple(replace(loader, step_queued=0.019) for loader in process.loaders)
    (finding,) = judge(on_threads(replace(beside, processes=(replace(process, loaders=queued),))))
    assert finding.id == "oversubscribed-threads"
    assert finding.change == {"threads": 1}
    assert "2 threads beside 2 workers, on the 2 CPUs" in finding.says
    assert finding.speedup.low < 1.85 < finding.speedup.high


def test_a_step_on_one_thread_or_on_a_device_has_nothing_to_share_out(run) -> None:
    for alone in (
        on_threads(run(num_workers=0, **PICTURES), threads=1),
        on_threads(run(num_workers=0, **{**PICTURES, "step_cpu": 0.015})),
        on_threads(run(num_workers=0, **PICTURES), device="cuda"),
    ):
        (outlook,) = outlooks(alone)
        assert narrower(outlook) is None


def test_where_there_are_cpus_for_both_workers_alone_are_the_advice(run) -> None:
    (finding,) = judge(on_threads(run(num_workers=0, **{**PICTURES, "cpus": 8})))
    assert finding.change == {"num_workers": 2} or finding.change["num_workers"] > 1
    assert "threads" not in finding.change


def test_no_more_workers_are_named_than_find_room_for_their_batches(run) -> None:
    tight = run(num_workers=0, cpu=0.5, step=0.3, step_cpu=0.3 * 16, cpus=16, batch_bytes=20 << 20, shm_free=100 << 20)
    for finding in judge(on_threads(tight, threads=16)):
        assert finding.change.get("num_workers", 0) <= 2


def test_beside_strangers_nothing_is_said_of_threads(run) -> None:
    for finding in judge(on_threads(run(num_workers=0, others=1.0, **PICTURES))):
        assert "threads" not in finding.change
