"""busy-host speaks when others use the CPUs and the training waits for one."""

from dataclasses import replace

import pytest

from gputune.advisors.busy_host import advise
from gputune.core.finding import Finding
from gputune.features import Features, Neighbour

ENCODER = Neighbour(pid=4711, name="ffmpeg", cores=0.98)


@pytest.fixture
def crowded(run):
    """A run on two CPUs, one of which a neighbour uses: two workers that need 20 ms of CPU a batch and wait as long."""

    def build(*, others: float = 1.0, neighbours=(ENCODER,), step_queued: float = 0.0, **more) -> Features:
        facts = {"num_workers": 2, "cpu": 0.020, "queued": 0.020, "step": 0.004, "waits": (0.018,), "cpus": 2.0}
        found = run(others=others, **{**facts, **more})
        processes = tuple(
            replace(p, loaders=tuple(replace(x, step_queued=step_queued) for x in p.loaders)) for p in found.processes
        )
        return replace(found, machine=replace(found.machine, neighbours=neighbours), processes=processes)

    return build


def test_is_silent_on_a_machine_of_ones_own(crowded) -> None:
    assert list(advise(crowded(others=0.1))) == []


def test_is_silent_where_nobody_waits_for_the_cpus_that_others_use(crowded) -> None:
    assert list(advise(crowded(queued=0.0))) == []


def test_names_the_neighbour_and_what_it_costs(crowded) -> None:
    (finding,) = advise(crowded())
    assert finding.id == "busy-host"
    assert "others use 1.0 of the 2 CPUs (ffmpeg, pid 4711: 1.0)" in finding.says
    assert "data loading waits for a CPU 50% of its time" in finding.says
    assert finding.evidence["pid_4711_cores"] == pytest.approx(0.98)
    assert 1.3 < finding.speedup.likely <= 2.1
    assert finding.effect == "identical"
    assert finding.do.startswith("end or move the others (pid 4711), or")
    assert "set_num_threads" not in finding.do


def test_neighbours_that_nobody_can_name_count_all_the_same(crowded) -> None:
    (finding,) = advise(crowded(neighbours=()))
    assert "others use 1.0 of the 2 CPUs;" in finding.says
    assert finding.do.startswith("end or move the others, or")


def test_a_step_of_many_threads_is_told_to_take_fewer(crowded) -> None:
    (finding,) = advise(
        crowded(num_workers=0, cpu=0.001, queued=0.0, step=0.040, step_cpu=0.056, step_queued=0.010, waits=(0.001,))
    )
    assert "the training waits for a CPU" in finding.says
    assert finding.do.endswith("until then torch.set_num_threads(1)")
    assert finding.speedup.high > finding.speedup.likely * 1.4


def test_a_wait_that_the_loop_does_not_notice_promises_nothing(crowded) -> None:
    """Workers that are far ahead: whatever they wait, no step does."""
    found = list(advise(crowded(cpu=0.002, queued=0.002, step=0.050, waits=(0.001,))))
    assert all(f.speedup.low < 1.05 for f in found)


def bare(found: Features, **differs: object) -> Features:
    """The run without any DataLoader."""
    (process,) = found.processes
    facts = {"loaders": (), "batches": 0, "cpu": 0.7, "queued": 0.3, **differs}
    return replace(found, processes=(replace(process, **facts),), machine=replace(found.machine, job=0.7))


def test_a_loop_without_a_loader_is_known_by_its_own_queue(crowded) -> None:
    (finding,) = advise(bare(crowded()))
    assert "the training waits for a CPU 30% of its time" in finding.says
    assert finding.speedup.likely == pytest.approx(1 / 0.7)
    assert list(advise(bare(crowded(), queued=0.01))) == []
    assert list(advise(bare(crowded(), queued=None))) == []
    assert list(advise(bare(crowded(), optimizer_steps=5))) == []


def test_others_can_have_cost_no_more_than_they_used(crowded) -> None:
    (finding,) = advise(crowded(others=0.22))
    assert finding.speedup.likely <= 1 / (1 - 0.22) + 1e-6


def test_full_cpus_are_told_without_a_promise_where_nobody_waits(crowded) -> None:
    """On two CPUs that are one core, a training is slow without ever waiting for a CPU."""

    def full(job: float, **more: object) -> list[Finding]:
        found = crowded(queued=0.0, **more)
        return list(advise(replace(found, machine=replace(found.machine, job=job))))

    (finding,) = full(0.97)
    assert finding.says == "of the 2 CPUs this job uses 1.0 and others 1.0: none is left"
    assert finding.risk.startswith("others use 1.0 of the 2 CPUs (ffmpeg, pid 4711: 1.0): ")
    assert (finding.speedup.low, finding.speedup.high) == (1.0, 1.0)
    assert full(0.6) == []
    assert full(1.75, others=0.25) == []


def test_full_cpus_without_a_training_are_nobodys_business(crowded) -> None:
    found = crowded()
    assert list(advise(replace(found, processes=(), machine=replace(found.machine, job=0.97)))) == []
