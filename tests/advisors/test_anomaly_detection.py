"""anomaly-detection speaks where torch writes down the stack of every function that is called."""

from dataclasses import replace

from gputune.advisors.anomaly_detection import advise


def traced(plain, share: float, stacks: int = 240):
    return replace(plain, processes=(replace(plain.processes[0], traces=share, looked=stacks),))


def test_is_silent_without_such_stacks(run) -> None:
    assert list(advise(run())) == []
    assert list(advise(traced(run(), 0.01))) == []
    assert list(advise(traced(run(), 0.5, stacks=20))) == []


def test_the_gain_is_what_writing_stacks_takes_at_least(run) -> None:
    (finding,) = advise(traced(run(num_workers=2, cpu=0.001, waits=(0.0001,), step=0.020, step_cpu=0.020), 0.4))
    assert "takes 40% of the loop" in finding.says
    assert finding.speedup.at_least
    assert 1.2 < finding.speedup.low == finding.speedup.sure < 1 / 0.6 < finding.speedup.likely
    assert finding.effect == "identical"
