"""Rounds of one rank, from one meeting with the others to the next."""

import pytest

from gputune.core.events import CALM_PARTS, QUEUED_BITS, Kind, RendezvousCode, SegmentCode, SpanCode


def called(story, took: float, number: int, size: int = 1000) -> None:
    story.span(SpanCode.COLLECTIVE, took, b=size, d=number, c=4)


def reduced(story, iteration: int, *, own: float, apart: float, code: int = 0) -> None:
    """A step of DDP, whose meeting is told a step later."""
    t0 = story.at + own
    story.at = t0 + apart
    story.record(Kind.STEP, story.at, story.at)
    story.record(Kind.RENDEZVOUS, t0, t0 + apart, code=code, a=iteration, b=500, d=round(own * 1e6), c=4 | 2 << 16)


def told(story):
    (process,) = story.features().processes
    return process.meetings


def test_a_training_that_meets_nobody_has_no_rounds(story) -> None:
    story.iterator()
    story.epoch(10)
    assert told(story) == ()


def test_a_round_of_calls_goes_from_step_to_step(story) -> None:
    for step in range(8):
        story.at += 10
        called(story, 2, 2 * step + 1)
        called(story, 1, 2 * step + 2)
        story.step(1)
    rounds = told(story)
    assert [m.number for m in rounds] == [8, 10, 12, 14, 16]
    assert all((m.own, m.apart) == pytest.approx((0.011, 0.003)) for m in rounds)
    assert {(m.size, m.calls, m.ranks) for m in rounds} == {(2000, 2, 4)}


def test_a_step_without_a_meeting_belongs_to_the_round_of_the_next(story) -> None:
    for number in range(1, 8):
        story.step(10)
        called(story, 2, number)
        story.step(10)
    assert all((m.own, m.apart) == pytest.approx((0.020, 0.002)) for m in told(story))


def test_what_is_done_with_the_gradients_after_the_backward_pass_goes_with_the_exchange(story) -> None:
    for step in range(8):
        story.at += 10
        story.record(Kind.BACKWARD, story.at - 6, story.at)
        for number in (1, 2, 3):
            called(story, 2, 3 * step + number)
            story.at += 1  # they are averaged
        story.step(4)
    assert all((m.own, m.apart, m.update) == pytest.approx((0.017, 0.006, 0.007)) for m in told(story))


def test_of_calls_without_a_backward_pass_the_update_is_what_follows_the_last(story) -> None:
    for number in range(1, 9):
        called(story, 2, number)
        story.step(10)
    assert all((m.own, m.update) == pytest.approx((0.010, 0.010)) for m in told(story))


def test_calls_of_a_part_of_the_ranks_make_no_round(story) -> None:
    for _ in range(8):
        called(story, 2, 0)
        story.step(10)
    assert told(story) == ()


def test_rounds_of_ddp_are_those_that_were_sampled(story) -> None:
    for iteration in range(1, 9):
        reduced(story, iteration, own=10, apart=5)
    rounds = told(story)
    assert [m.number for m in rounds] == [4, 5, 6, 7, 8]
    assert all((m.own, m.apart) == pytest.approx((0.010, 0.005)) for m in rounds)
    assert {(m.size, m.calls, m.ranks) for m in rounds} == {(500, 2, 4)}


def test_a_rank_whose_thread_stood_in_the_queue_says_so(story) -> None:
    for iteration in range(1, 9):
        reduced(story, iteration, own=10, apart=5, code=250)
    assert {m.queued for m in told(story)} == {0.0025}
    assert {m.calm_queued for m in told(story)} == {None}


def test_how_forward_passes_were_queued_is_told_above(story) -> None:
    for iteration in range(1, 9):
        reduced(story, iteration, own=10, apart=5, code=250 | (1 + CALM_PARTS // 5) << QUEUED_BITS)
    assert {m.queued for m in told(story)} == {0.0025}
    assert {m.calm_queued for m in told(story)} == {0.2}


def test_calls_between_two_reductions_are_no_work_of_the_rank(story) -> None:
    for iteration in range(1, 9):
        called(story, 4, iteration)
        story.at -= 4  # they lie inside the step's own time
        reduced(story, iteration, own=10, apart=5)
    assert all((m.own, m.apart) == pytest.approx((0.006, 0.009)) for m in told(story))


def test_what_ddp_waits_inside_backward_is_collective_in_the_ledger(story) -> None:
    for iteration in range(1, 11):
        reduced(story, iteration, own=10, apart=5)
    (process,) = story.features().processes
    assert process.ledger["collective"] == pytest.approx(0.050)
    assert sum(process.ledger.values()) == pytest.approx(process.wall)


def test_a_backward_pass_is_told_without_what_it_waits_for_other_ranks(story) -> None:
    for iteration in range(1, 11):
        story.record(Kind.BACKWARD, story.at + 3, story.at + 15)
        reduced(story, iteration, own=10, apart=5)
    assert [m.backward for m in told(story)] == pytest.approx([0.007] * len(told(story)))
    assert told(story)


def test_the_backward_pass_before_a_call_is_that_of_the_round(story) -> None:
    for number in range(1, 7):
        story.record(Kind.BACKWARD, story.at + 1, story.at + 5)
        story.at += 5
        called(story, 4, number)
        story.record(Kind.STEP, story.at, story.at + 1)
        story.at += 1
    assert [m.backward for m in told(story)] == pytest.approx([0.004] * len(told(story)))
    assert told(story)


def test_meetings_on_the_device_hold_up_the_device_and_not_the_thread(story) -> None:
    for iteration in range(1, 11):
        reduced(story, iteration, own=10, apart=5, code=RendezvousCode.ON_DEVICE)
    (process,) = story.features().processes
    assert "collective" not in process.ledger
    assert {(m.queued, m.calm_queued) for m in process.meetings} == {(0.0, None)}


def test_the_launchers_words_reach_the_process(story) -> None:
    story.note(n="process", rank=3, local_rank=1, world_size=8)
    story.iterator()
    story.epoch(2)
    (process,) = story.features().processes
    assert (process.rank, process.local_rank, process.world_size) == (3, 1, 8)


def stood(story, number: int, *, host: float, own: float, apart: float, beside: int = 0) -> None:
    """A round that the device has timed, `host` ms of the host's clock after the one before."""
    t0, story.at = story.at, story.at + host
    code, c = RendezvousCode.ON_DEVICE | RendezvousCode.STOOD | beside, 4 | 2 << 16
    story.record(
        Kind.RENDEZVOUS, t0, story.at, code=code, a=number, b=500, d=round(own * 1e6), e=round(apart * 1e6), c=c
    )


def test_a_round_of_a_device_is_told_by_its_own_clock(story) -> None:
    story.step()
    for number in range(1, 9):
        stood(story, number, host=2, own=20, apart=5, beside=250)
    rounds = told(story)
    assert [m.number for m in rounds] == [4, 5, 6, 7, 8]
    assert all((m.own, m.apart, m.hidden) == pytest.approx((0.020, 0.005, 0.005)) for m in rounds)
    assert all(m.on_device and (m.size, m.calls, m.ranks) == (500, 2, 4) for m in rounds)


def test_rounds_for_which_weights_were_gathered_are_known(story) -> None:
    story.step()
    for number in range(1, 9):
        stood(story, number, host=2, own=20, apart=5, beside=250 | RendezvousCode.GATHERED * (number > 5))
    assert [(m.gathered, round(m.hidden * 1e3)) for m in told(story)] == [(False, 5)] * 2 + [(True, 5)] * 3


def test_code_bits_of_a_hosts_forward_passes_are_no_stands(story) -> None:
    for iteration in range(1, 8):
        reduced(story, iteration, own=10, apart=5, code=(1 + CALM_PARTS // 2) << QUEUED_BITS)
    assert not any(m.on_device for m in told(story))


def test_what_a_round_waited_for_batches_is_known(story) -> None:
    story.iterator()
    for iteration in range(1, 8):
        story.batch(wait=4)
        story.at -= 4
        reduced(story, iteration, own=10, apart=5)
    assert [round(m.waited * 1e3) for m in told(story)] == [4, 4, 4, 4]


def test_a_host_that_waits_ahead_of_its_device_keeps_nobody_waiting(story) -> None:
    story.iterator()
    for number in range(1, 9):
        story.batch(wait=10)
        story.record(Kind.GAP, story.at - 10, story.at, a=1_000_000, b=9_000_000)
        t0, story.at = story.at - 10, story.at + 1
        code = RendezvousCode.ON_DEVICE | RendezvousCode.STOOD
        story.record(Kind.RENDEZVOUS, t0 - 1, story.at, code=code, a=number, d=9_000_000, e=2_000_000, c=4)
    assert all(m.waited == pytest.approx(0.001) for m in told(story))


def test_rounds_that_nobody_timed_are_counted(story) -> None:
    """Pairs of every seven batches, each with a round."""
    story.iterator()
    for number in range(1, 72):
        story.batch()
        if number % 7 < 2:
            stood(story, number, host=2, own=20, apart=5)
    (process,) = story.features().processes
    assert process.rounds == pytest.approx(71, abs=1)


def test_rounds_of_a_loop_without_batches_are_counted_by_its_steps(story) -> None:
    """A device is five steps behind, and what it would tell of the last ones is not heard any more."""
    code, ends = RendezvousCode.ON_DEVICE | RendezvousCode.STOOD, []
    for number in range(1, 41):
        story.at += 9
        ends.append(story.at)
        story.step(1)
        if number > 5:
            end = ends[number - 6]
            story.record(Kind.RENDEZVOUS, end - 10, end, code=code, a=number - 5, d=9_000_000, e=1_000_000, c=4)
    (process,) = story.features().processes
    assert process.rounds == 40


def test_a_round_in_which_a_device_was_held_back_on_purpose_says_nothing(story) -> None:
    story.step()
    for number in range(1, 9):
        if number == 6:
            story.record(Kind.SEGMENT, story.at + 0.5, story.at + 1, code=SegmentCode.HELD, a=1, c=1, e=20_000_000)
        stood(story, number, host=2, own=20, apart=25 if number == 6 else 5)
    assert [m.number for m in told(story)] == [4, 5, 7, 8]
