"""What of a device's memory would have been enough, had it not been lost."""

from dataclasses import replace

from gputune.features import Features, Machine, OutOfMemory, Trend
from gputune.verdict.exhaustion import ended, fragmented, growth, ran_out

GIB = 2**30
FOUND = OutOfMemory(
    gpu="0", index="0", pid=1, rank=None, where="train.py:31", asked=2 * GIB, live=70 * GIB, reserved=77 * GIB,
    free=GIB, total=80 * GIB,
)  # fmt: skip
RUN = Features(command=("python",), wall=1.0, machine=Machine(cpus=1, cpus_seen=1), exit_code=1, out_of_memory=(FOUND,))


def grown(rate: float, *, low: float | None = None, steps: float = 10.0) -> OutOfMemory:
    trend = Trend(
        rate=rate, low=rate if low is None else low, high=rate, first=GIB, last=GIB + steps * rate, seconds=steps
    )
    return replace(FOUND, growth=trend)


def test_memory_in_pieces_is_the_reason_where_it_would_have_been_enough() -> None:
    assert fragmented(FOUND)
    assert not fragmented(replace(FOUND, reserved=71 * GIB))
    assert not fragmented(replace(FOUND, asked=GIB // 64, free=0, reserved=71 * GIB))
    assert not fragmented(grown(GIB / 2))
    assert not fragmented(replace(FOUND, expandable=True))
    assert not fragmented(replace(FOUND, free=3 * GIB))


def test_growth_is_the_reason_where_it_took_what_lacks() -> None:
    assert growth(FOUND) is None
    assert growth(grown(GIB / 2)) == GIB / 2
    assert growth(grown(GIB / 20)) is None
    assert growth(grown(GIB / 2, low=-1.0)) is None


def test_a_run_ended_by_it_failed_and_trained_no_more() -> None:
    assert ended(RUN, FOUND)
    assert not ended(RUN, replace(FOUND, went_on=True))
    assert not ended(replace(RUN, exit_code=0), FOUND)


def test_the_process_that_ended_comes_first() -> None:
    other = replace(FOUND, pid=2, went_on=True)
    assert [row.pid for row in ran_out(replace(RUN, out_of_memory=(other, FOUND)))] == [1, 2]
    assert ran_out(replace(RUN, out_of_memory=())) == []


def test_a_process_that_may_not_have_more_is_told_so() -> None:
    (row,) = ran_out(replace(RUN, out_of_memory=(replace(FOUND, free=40 * GIB),)))
    assert row.capped
