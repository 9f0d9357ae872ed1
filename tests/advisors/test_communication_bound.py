"""communication-bound speaks when all ranks wait for the exchange of gradients."""

import pytest

from gputune.advisors.communication_bound import advise, ring


@pytest.mark.parametrize(
    ("size", "ranks", "messages", "seconds"),
    [(100e6, 2, 1, 1.0 + 2 * 50e-6), (100e6, 4, 1, 1.5 + 6 * 50e-6), (0, 8, 100, 100 * 14 * 50e-6)],
)
def test_a_ring_costs_what_alpha_and_beta_say(size, ranks, messages, seconds) -> None:
    assert ring(size, ranks, messages, 100e6) == pytest.approx(seconds)


def test_is_silent_where_work_outweighs_the_exchange(job) -> None:
    assert list(advise(job(0.100, 0.100, communication=0.005))) == []


def test_waiting_for_a_late_rank_is_no_communication(job) -> None:
    assert list(advise(job(0.010, 0.100, communication=0.005))) == []


def test_says_how_much_and_what_accumulation_brings(job) -> None:
    (finding,) = advise(job(0.020, 0.020, communication=0.020, update=0.004))
    assert "50% of each step all 2 ranks wait" in finding.says
    assert finding.change == {"gradient_accumulation": 8}
    assert finding.speedup.likely == pytest.approx(40 / (20 - 4 * 7 / 8 + 20 / 8), rel=0.01)
    assert finding.evidence["rate_B_per_s"] == pytest.approx(10e6 / (0.020 - 100e-6))
    assert finding.evidence["ring_s"] == pytest.approx(0.020)
    assert finding.evidence["bf16"] == pytest.approx(40 / 30, rel=0.02)


def test_bfloat16_does_not_save_latency(job) -> None:
    (finding,) = advise(job(0.020, 0.020, communication=0.020, size=40_000, calls=200))
    assert finding.evidence["latency_s"] == pytest.approx(0.020)
    assert finding.evidence["bf16"] == pytest.approx(1.0)


def test_queues_at_the_cpus_are_no_links_fault(job) -> None:
    assert list(advise(job(0.020, 0.020, communication=0.006, queued=(0.015, 0.015)))) == []


def test_is_silent_where_a_rank_was_not_seen(job, without) -> None:
    assert list(advise(without(job(0.020, 0.020, communication=0.020), 1))) == []
