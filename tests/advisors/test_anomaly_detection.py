"""anomaly-detection speaks where torch writes down the stack of every function that is called."""

from dataclasses import replace

from gputune.advisors.anomaly_detection import advise


def traced(plain, share: float, stacks: int = 240, *, said: bool = False):
    process = plain.processes[0]
    precision = replace(process.precision, anomaly=said)
    return replace(plain, processes=(replace(process, traces=share, looked=stacks, precision=precision),))


def test_is_silent_without_such_stacks(run) -> None:
    assert list(advise(run())) == []
    assert list(advise(traced(run(), 0.01))) == []
    assert list(advise(traced(run(), 0.05, stacks=60))) == []


def test_speaks_of_a_short_run_where_such_stacks_are_sure(run) -> None:
    (finding,) = advise(traced(run(), 7 / 58, stacks=58))  # 15 s of a loop of 7 ms
    assert finding.evidence["stacks"] == 58


def test_the_share_counts_as_it_was_seen_where_torch_says_that_it_is_on(run) -> None:
    plain = run(num_workers=2, cpu=0.001, waits=(0.0001,), step=0.020, step_cpu=0.020)
    (perhaps,), (surely,) = (
        advise(traced(plain, 7 / 58, stacks=58)),
        advise(traced(plain, 7 / 58, stacks=58, said=True)),
    )
    assert not perhaps.speedup.promised
    assert surely.speedup.promised


def test_the_gain_is_what_writing_stacks_takes_at_least(run) -> None:
    (finding,) = advise(traced(run(num_workers=2, cpu=0.001, waits=(0.0001,), step=0.020, step_cpu=0.020), 0.4))
    assert "takes 40% of the loop" in finding.says
    assert finding.speedup.at_least
    assert 1.2 < finding.speedup.low == finding.speedup.sure < 1 / 0.6 < finding.speedup.likely
    assert finding.effect == "identical"
