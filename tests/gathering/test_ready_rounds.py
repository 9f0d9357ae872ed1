"""Rounds in which a batch lay ready: after the training was held up for that, and after a pause of its own."""

import pytest

from gputune.core.events import DelayCode, Kind, Record, SpanCode
from gputune.gathering.ready_rounds import ReadyRounds

MS = 1_000_000


def stood(ready: int, ms: int = 60) -> Record:
    return Record(kind=Kind.DELAY, code=DelayCode.STANDS, t0=0, t1=ms * MS, a=1, b=0, d=ready, e=0, c=0)


def rounds(filled: ReadyRounds, *seconds: float, paused: int = 0, wait: int = MS) -> list[float]:
    """Take rounds of so many s, in which so many ns are waited for."""
    for each in seconds:
        filled.round(round(each * 1e9) - wait, wait, paused)
    return list(filled.rounds)


def seen(workers: int, prefetch: int) -> ReadyRounds:
    """Return what has seen one round of 50 ms."""
    filled = ReadyRounds(workers, prefetch)
    rounds(filled, 0.05)
    return filled


def test_the_rounds_after_it_count_but_for_the_first_which_begins_cold() -> None:
    filled = seen(2, 2)
    assert rounds(filled, 0.05, 0.05) == []
    filled.stood(stood(3))
    assert rounds(filled, 0.019, 0.012, 0.011, 0.05, 0.05) == [0.012, 0.011]
    assert filled.count == 1


def test_each_is_kept_with_what_rounds_were_before_it() -> None:
    filled = ReadyRounds(2, 2)
    for usual in (0.05, 0.5):
        rounds(filled, *(usual,) * 64)
        filled.stood(stood(2))
        rounds(filled, 0.019, 0.012)
    assert list(filled.beside) == pytest.approx([0.05, 0.5])


def test_what_is_waited_for_did_not_lie_ready_whatever_else_did() -> None:
    """Three batches of quicker workers lie there, and the one whose turn it is is still made."""
    filled = seen(4, 2)
    filled.stood(stood(4))
    rounds(filled, 0.020)
    rounds(filled, 0.200, wait=180 * MS)
    assert rounds(filled, 0.012, 0.012) == []


def test_a_slight_wait_for_the_thread_that_pins_it_is_none_for_a_batch() -> None:
    filled = seen(2, 2)
    rounds(filled, *(0.02,) * 20, wait=10 * MS)
    rounds(filled, 0.005, wait=3000)  # that thread had it at hand
    filled.stood(stood(3))
    assert rounds(filled, 0.02, 0.006, 0.005, wait=MS // 5) == [0.006, 0.005]


def test_what_lay_ready_is_gone_with_its_pass() -> None:
    filled = seen(2, 2)
    filled.stood(stood(4))
    filled.begin()
    assert rounds(filled, 0.012, 0.012) == []


def test_a_pause_of_its_own_in_which_the_queue_fills_is_as_good() -> None:
    filled = seen(2, 2)
    filled.made(40 * MS)
    rounds(filled, 0.05, paused=200 * MS)
    assert rounds(filled, 0.02, 0.011, 0.012, 0.013, 0.05) == [0.011, 0.012, 0.013]
    assert filled.count == 0


def test_a_pause_too_short_for_that_is_not() -> None:
    filled = seen(2, 2)
    filled.made(40 * MS)
    rounds(filled, 0.05, paused=90 * MS)
    assert rounds(filled, 0.02, 0.011, 0.012) == []


def test_a_round_with_a_pause_in_it_does_not_count() -> None:
    filled = seen(2, 2)
    filled.stood(stood(4))
    rounds(filled, 0.02)
    rounds(filled, 0.03, paused=5 * MS)
    assert rounds(filled, 0.011) == [0.011]


def test_where_batches_lay_ready_nothing_was_held_up() -> None:
    filled = seen(2, 2)
    filled.stood(stood(3, ms=0))
    assert filled.count == 0
    assert rounds(filled, 0.02, 0.011) == [0.011]


def test_what_workers_may_have_idled_is_counted() -> None:
    filled = seen(2, 2)
    filled.stood(stood(3))
    rounds(filled, 0.02, 0.010)
    filled.stood(stood(4))  # two more than leave either of the two one to make
    assert filled.idle == pytest.approx(0.010)


def test_reading_a_result_in_each_step_is_a_part_of_it(story) -> None:
    """On a device the training is held up only where it does so: where the host waits for the device at each end."""
    story.loader(num_workers=2, prefetch_factor=2)
    story.iterator(workers=2)

    def rounds(count: int, wait: float) -> None:
        for _ in range(count):
            story.at += 3
            story.span(SpanCode.SYNC, 2)
            story.batch(wait=wait)

    rounds(40, 10)
    story.record(Kind.DELAY, story.at, story.at + 30, code=DelayCode.STANDS, a=1, d=3)
    story.at += 30
    rounds(4, 0.1)
    (loader,) = story.features().processes[0].loaders
    assert loader.filled == pytest.approx((0.0051, 0.0051))
    assert loader.unfilled == pytest.approx((0.015, 0.015), rel=0.01)
