"""small-batch speaks when the device has room and nothing but the batch is to blame."""

from dataclasses import replace

import pytest

from gputune.advisors.small_batch import advise
from gputune.core.finding import Finding
from gputune.features import Allocator, DeviceStep

HALF = {"busy": 0.40, "memory_used": 4_000_000_000}
READY = {"num_workers": 4, "blocked": 0.002, "step": 0.010, "waits": (0.0004,)}


def test_is_silent_on_a_busy_device(run, device) -> None:
    assert list(advise(run(**READY, devices=(device(),)))) == []


def test_is_silent_without_a_device(run) -> None:
    assert list(advise(run(**READY))) == []


def test_is_silent_about_a_device_that_the_job_does_not_use(run, device) -> None:
    assert list(advise(run(**READY, devices=(device(busy=0.0, memory_used=300_000_000),)))) == []


def test_is_silent_when_the_memory_is_full(run, device) -> None:
    assert list(advise(run(**READY, devices=(device(busy=0.40),)))) == []


def test_is_silent_when_memory_was_not_measured(run, device) -> None:
    assert list(advise(run(**READY, devices=(device(busy=0.40, memory_used=None),)))) == []


def test_speaks_up_to_where_twice_the_batch_would_fit(run, device) -> None:
    (finding,) = advise(run(**READY, devices=(device(busy=0.40, memory_used=31_900_000_000),)))
    assert finding.change["batch_size"] == 64
    assert list(advise(run(**READY, devices=(device(busy=0.40, memory_used=32_100_000_000),)))) == []


def test_memory_that_is_only_cached_leaves_room(run, device) -> None:
    """60 of 80 GB are in use, of which tensors never held more than 10, with 8 before the first step."""
    plain = run(**READY, devices=(device(busy=0.40, memory_used=60_000_000_000),))
    assert list(advise(plain)) == []
    pool = Allocator(
        index="0", live=None, last=9_000_000_000, least=8_000_000_000, peak=10_000_000_000, reserved=58_000_000_000
    )
    held = replace(plain, processes=tuple(replace(p, allocators=(pool,)) for p in plain.processes))
    (finding,) = advise(held)
    assert finding.evidence["memory_used"] == pytest.approx(0.15)
    elsewhere = replace(
        held, processes=tuple(replace(p, allocators=(replace(pool, index="1"),)) for p in held.processes)
    )
    assert list(advise(elsewhere)) == []


def test_what_was_live_before_the_first_step_does_not_grow_with_the_batch(run, device) -> None:
    """40 of 80 GB are used: twice the batch fits where half of that are parameters."""
    plain = run(**READY, devices=(device(busy=0.40, memory_used=40_000_000_000),))
    assert list(advise(plain)) == []
    pool = Allocator(
        index="0", live=None, last=20_000_000_000, least=20_000_000_000, peak=39_000_000_000, reserved=39_000_000_000
    )
    (finding,) = advise(replace(plain, processes=tuple(replace(p, allocators=(pool,)) for p in plain.processes)))
    assert finding.change["batch_size"] == 64


def test_is_silent_while_the_loop_waits_for_data(run, device) -> None:
    assert list(advise(run(num_workers=0, blocked=0.010, step=0.010, devices=(device(**HALF),)))) == []


def test_is_silent_when_pauses_explain_the_idle_time(run, device) -> None:
    assert list(advise(run(**READY, between={"checkpoint": 3.0}, devices=(device(**HALF),)))) == []


def test_is_silent_on_a_rank_that_waits_for_another(run, job, device) -> None:
    """The other one makes its batches in 33 ms more, and larger ones in longer: x16 was said of nothing."""
    (plain,) = run(**READY).processes

    def told(late: float) -> list[Finding]:
        ranks = job(0.004, 0.004 + late)
        whole = DeviceStep(
            timed=100, whole=0.005 + late, starved=0.0, copying=0.0, compute=0.001, read_waits=0.0, copy_waits=0.0,
            standing=0.001 + late,
        )  # fmt: skip
        first = replace(
            ranks.processes[0],
            device_step=whole,
            rounds=len(ranks.processes[0].meetings),
            loaders=plain.loaders,
            meetings=tuple(replace(met, on_device=True) for met in ranks.processes[0].meetings),
        )
        return list(advise(replace(ranks, processes=(first, ranks.processes[1]), devices=(device(**HALF),))))

    assert told(0.033) == []
    (finding,) = told(0.0)
    assert finding.change["batch_size"] > 32


def test_is_silent_when_one_of_the_devices_cannot_be_read(run, device) -> None:
    assert list(advise(run(**READY, devices=(device(**HALF), device(index="1", busy=None))))) == []


def test_names_a_batch_size_that_fits_and_what_it_buys(run, device) -> None:
    plain = run(**READY, devices=(device(**HALF),))
    (finding,) = advise(plain)
    assert finding.id == "small-batch"
    times = finding.change["batch_size"] / 32
    assert times in {2, 4, 8, 16}
    assert times * 0.05 <= 0.8
    assert finding.speedup.likely == pytest.approx(1 / (0.40 + 0.60 / times))
    assert finding.speedup.low < finding.speedup.likely < finding.speedup.high <= 1.1 / 0.40
    assert finding.effect == "changes-learning"


def test_a_device_that_is_hardly_busy_promises_no_more_than_the_batch_grows(run, device) -> None:
    (finding,) = advise(run(**READY, devices=(device(busy=0.03, memory_used=1_000_000_000),)))
    assert finding.speedup.high <= finding.change["batch_size"] / 32


def test_an_unknown_batch_size_cannot_be_doubled(run, device) -> None:
    plain = run(**READY, devices=(device(**HALF),))
    process = plain.processes[0]
    unknown = replace(process, loaders=(replace(process.loaders[0], batch_size=None),))
    assert list(advise(replace(plain, processes=(unknown,)))) == []


def test_work_before_the_model_grows_with_the_batch_as_well(run, device) -> None:
    plain = run(**READY, devices=(device(**HALF),))
    process = replace(plain.processes[0], before_forward=(0.006,) * 20)
    assert list(advise(replace(plain, processes=(process,)))) == []


def test_is_silent_while_the_loader_is_late_for_want_of_cpus(run, device) -> None:
    """Workers that would be quick enough queue for crowded CPUs: the device idles for want of batches."""
    crowded = {"num_workers": 2, "cpu": 0.004, "queued": 0.030, "step": 0.010, "waits": (0.009,)}
    assert list(advise(run(**crowded, devices=(device(**HALF),)))) == []


def of_few(run, batch_size: int, share: float):
    """A loop on a host, whose optimizer takes a share of it."""
    plain = run(num_workers=0, cpu=0.0002, step=0.010)
    (process,) = plain.processes
    loaders = tuple(replace(loader, batch_size=batch_size) for loader in process.loaders)
    return replace(plain, processes=(replace(process, built="", loaders=loaders, optimizing=share * process.loop),))


def test_on_a_host_two_samples_are_few_for_all_of_the_optimizers_work(run) -> None:
    (finding,) = advise(of_few(run, 2, 0.5))
    assert finding.change == {"batch_size": 8}
    assert "50% of the loop is spent on the weights" in finding.says
    assert finding.speedup.likely == pytest.approx(1.6)
    assert finding.speedup.high == 4


def test_on_a_host_two_samples_are_few_for_all_of_torchs_calls(run) -> None:
    calls = of_few(run, 2, 0.1)
    loops = tuple(replace(process, in_torch=0.6, held_looks=180) for process in calls.processes)
    (finding,) = advise(replace(calls, processes=loops))
    assert "% at the least on calling modules and functions of torch" in finding.says
    assert 1.6 < finding.speedup.likely < 1 / (0.3 + 0.7 / 4)  # no more of it than is sure
    assert "gradients" not in finding.do
    few = tuple(replace(process, held_looks=20) for process in loops)
    assert list(advise(replace(calls, processes=few))) == []


def test_on_a_host_it_is_silent_of_more_samples_and_of_a_quick_optimizer(run) -> None:
    assert list(advise(of_few(run, 32, 0.5))) == []
    assert list(advise(of_few(run, 2, 0.1))) == []
