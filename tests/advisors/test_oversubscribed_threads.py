"""oversubscribed-threads speaks when torch's own threads have fewer CPUs than they are, and stand in line for them."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from gputune.advisors.oversubscribed_threads import advise
from gputune.features import Features, Precision, Process
from gputune.verdict import arbitration
from gputune.verdict.judging import judge

Runs = Callable[..., Features]


def crowded(
    run: Runs, *, threads: int | None, cpus: float, processes: int = 1, cores: float = 1.5, queued: float = 0.3,
    others: float = 0.0, workers: float = 0.0, device: str = "cpu", built: str = "",
) -> Features:  # fmt: skip
    """Return a run of so many processes, each with a team of threads that uses `cores` CPUs."""
    made = run(num_workers=0, cpu=0.0001, step=0.020, cpus=cpus, others=others, ranks=processes)
    precision = Precision(types=("torch.float32",), devices=(device,), threads=threads)

    def teams(process: Process) -> Process:
        return replace(process, precision=precision, cpu=cores, queued=queued, built=built)

    machine = replace(made.machine, job=cores * processes + workers)
    return replace(made, machine=machine, processes=tuple(map(teams, made.processes)))


def test_is_silent_where_each_thread_has_a_cpu(run) -> None:
    assert list(advise(crowded(run, threads=2, cpus=2, cores=2.0, queued=0.3))) == []
    assert list(advise(crowded(run, threads=1, cpus=2, processes=2, cores=1.0))) == []


def test_is_silent_about_threads_that_never_stand_in_line(run) -> None:
    """Operations too small to be shared out leave the others of a team asleep."""
    assert list(advise(crowded(run, threads=64, cpus=2, cores=1.0, queued=0.01))) == []


@pytest.mark.parametrize("beside", [{"others": 0.3}, {"workers": 0.3}])
def test_is_silent_where_somebody_else_is_in_the_way(run, beside) -> None:
    assert list(advise(crowded(run, threads=4, cpus=2, queued=0.3, **beside))) == []


def test_is_silent_where_the_model_is_on_a_device_or_its_threads_are_not_known(run) -> None:
    assert list(advise(crowded(run, threads=8, cpus=2, device="cuda", built="13.0"))) == []
    assert list(advise(crowded(run, threads=None, cpus=2))) == []


def test_is_silent_where_there_are_more_processes_than_cpus_of_one_thread_each(run) -> None:
    assert list(advise(crowded(run, threads=1, cpus=2, processes=4, cores=0.5, queued=0.5))) == []


def test_is_silent_about_processes_that_trained_one_after_the_other(run) -> None:
    both = crowded(run, threads=2, cpus=2, processes=2, cores=2.0, queued=0.1)
    assert list(advise(both)) != []
    assert list(advise(replace(both, machine=replace(both.machine, ranks=1)))) == []


def test_names_the_threads_of_one_process_and_how_many_fit(run) -> None:
    (finding,) = advise(crowded(run, threads=8, cpus=2))
    assert finding.says.startswith("torch computes with 8 threads on the 2 CPUs of this job")
    assert finding.do.startswith("torch.set_num_threads(2), or OMP_NUM_THREADS=2")
    assert finding.effect == "changes-rounding"


def test_names_the_threads_of_several_processes_together(run) -> None:
    (finding,) = advise(crowded(run, threads=2, cpus=2, processes=2, cores=1.0, queued=0.5))
    assert "2 training processes compute with 4 threads together" in finding.says
    assert "torch.set_num_threads(1) at the start of each" in finding.do


def test_a_quota_of_a_part_of_a_cpu_is_a_cpu(run) -> None:
    assert list(advise(crowded(run, threads=2, cpus=1.5))) == []
    (finding,) = advise(crowded(run, threads=2, cpus=0.5, cores=0.5))
    assert finding.change == {"threads": 1}


def test_promises_what_threads_that_wait_for_each_other_lose_and_no_less_than_is_sure(run) -> None:
    """As measured: 8 threads on 2 CPUs took x5.0 as long (1.72 cores, 0.63 in line), 4 at small operations x2.5."""
    (spun,) = advise(crowded(run, threads=8, cpus=2, cores=1.72, queued=0.63))
    (slept,) = advise(crowded(run, threads=4, cpus=2, cores=0.93, queued=0.04))
    assert 3.0 < spun.speedup.low < 5.0
    assert 1.05 < slept.speedup.low < 2.5
    assert spun.speedup.at_least
    assert slept.speedup.at_least


def test_speaks_before_what_a_step_seems_to_be_made_of(run) -> None:
    found = judge(crowded(run, threads=8, cpus=2))
    assert [finding.id for finding in found] == ["oversubscribed-threads"]
    assert arbitration.group_of("oversubscribed-threads") is arbitration.HOST
