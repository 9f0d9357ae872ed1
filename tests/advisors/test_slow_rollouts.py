"""slow-rollouts speaks where more processes, or more environments at once, surely shorten the rollouts."""

from dataclasses import replace

import pytest

from gputune.advisors.slow_rollouts import advise
from gputune.features import Acting


@pytest.fixture
def rollouts(run):
    """A loop of 100 s that steps environments for `stepping` of it, asks its policy for `policy`, and learns."""

    def make(stepping: float, policy: float, *, many: int = 4, processes: int = 0, each: float = 0.002, cpus: int = 2):
        told = run(cpus=cpus)
        spans = {"environment": 100 * stepping, "policy": 100 * policy}
        acting = Acting(
            calls=round(100 * stepping / each / many) if stepping else 1,
            environments=many,
            processes=processes,
            step=each * many,
            where="ppo.py:80",
        )
        process = replace(
            told.processes[0], loop=100.0, in_loop=spans, batches=0, samples=0, optimizer_steps=400, loaders=(),
            acting=acting,
        )  # fmt: skip
        return replace(told, processes=(process,))

    return make


def test_is_silent_where_learning_takes_the_time(rollouts) -> None:
    assert list(advise(rollouts(0.08, 0.05))) == []


def test_is_silent_without_environments(run) -> None:
    assert list(advise(run())) == []


def test_is_silent_on_one_cpu_where_the_policy_takes_little(rollouts) -> None:
    assert list(advise(rollouts(0.9, 0.05, cpus=1))) == []


def test_cheap_steps_are_not_sent_to_processes(rollouts) -> None:
    (finding,) = advise(rollouts(0.2, 0.7, each=5e-6))
    assert "env_processes" not in finding.change
    assert finding.change["num_envs"] > 4
    assert finding.effect == "changes-learning"


def test_dear_steps_go_into_processes_and_nothing_else_changes(rollouts) -> None:
    (finding,) = advise(rollouts(0.9, 0.05))
    assert finding.change == {"env_processes": 4}
    assert finding.effect == "identical"
    assert "90% of the loop steps 4 environments on one of the 2 CPUs" in finding.says
    assert "AsyncVectorEnv" in finding.do
    assert finding.speedup.low < 1.6 < finding.speedup.high
    assert finding.speedup.high <= 1.1 / (0.1 + 0.9 / 2)
    assert finding.where == "ppo.py:80"


def test_with_a_cpu_for_each_no_two_share_one(rollouts) -> None:
    (finding,) = advise(rollouts(0.9, 0.05, cpus=8, many=8))
    assert finding.change == {"env_processes": 8}
    assert finding.speedup.likely == pytest.approx(1 / (0.1 + 0.9 / 8), rel=0.1)


def test_one_environment_becomes_as_many_as_there_are_cpus(rollouts) -> None:
    (finding,) = advise(rollouts(0.8, 0.15, many=1, cpus=8))
    assert finding.change == {"num_envs": 8, "env_processes": 8}
    assert "one environment" in finding.says


def test_environments_in_processes_are_not_sent_there_again(rollouts) -> None:
    assert list(advise(rollouts(0.9, 0.02, processes=4))) == []


def test_rllibs_runners_become_as_many_as_there_are_cpus(rollouts) -> None:
    run = rollouts(0.5, 0.3, many=2, processes=2, cpus=8)
    (process,) = run.processes
    told = replace(run, processes=(replace(process, acting=replace(process.acting, runners=True)),))
    (finding,) = advise(told)
    assert finding.change == {"num_env_runners": 8}
    assert "2 environments in 2 env runners" in finding.says
    assert finding.do.startswith("num_env_runners=8")
    assert finding.speedup.low < 1 / (0.2 + 0.8 / 4) < finding.speedup.high
    assert list(advise(replace(told, machine=replace(run.machine, cpus=2)))) == []
