"""communication-bound speaks when all ranks wait for the exchange of gradients."""

from dataclasses import replace

import pytest

from gputune.advisors.communication_bound import advise, ring
from gputune.features import Device, Features, Network


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
    assert finding.speedup.low == pytest.approx(40 / (20 - 4 * 7 / 8 + 20 / 8) * 0.95, rel=0.01)
    assert finding.evidence["rate_B_per_s"] == pytest.approx(10e6 / 0.020)
    assert finding.evidence["bf16"] == pytest.approx(40 / 30, rel=0.02)


def test_bfloat16_does_not_save_latency(job) -> None:
    (finding,) = advise(job(0.020, 0.020, communication=0.020, size=40_000, calls=200))
    assert finding.evidence["latency_s"] == pytest.approx(0.020)
    assert finding.evidence["bf16"] == pytest.approx(1.0)
    assert "in fewer messages" in finding.do


def test_messages_that_take_longer_than_any_link_are_no_transfer(job) -> None:
    """160 kB at 8 MB/s, in 16 messages: it is not their bytes that take 20 ms."""
    (finding,) = advise(job(0.020, 0.020, communication=0.020, size=160_000, calls=16))
    assert finding.evidence["latency_s"] == pytest.approx(0.020 - 0.0016)
    assert finding.evidence["bf16"] < 1.03
    assert "in fewer messages" in finding.do
    (single,) = advise(job(0.020, 0.020, communication=0.020, size=160_000))
    assert "messages" not in single.do
    assert "bfloat16" not in single.do


def test_queues_at_the_cpus_are_no_links_fault(job) -> None:
    assert list(advise(job(0.020, 0.020, communication=0.006, queued=(0.015, 0.015)))) == []


def test_a_queue_that_forward_passes_do_not_know_is_the_exchanges_own(job) -> None:
    facts = {"communication": 0.020, "queued": (0.005, 0.005), "update": 0.004}
    (alone,) = advise(job(0.020, 0.020, calm=0.0, **facts))
    assert alone.evidence["exchange_s"] == pytest.approx(0.020)
    assert alone.evidence["displaced_s"] == pytest.approx(0.005)
    assert alone.speedup.likely == pytest.approx(40 / (20 - (4 + 5) * 7 / 8 + 20 / 8), rel=0.01)
    (crowded,) = advise(job(0.020, 0.020, calm=0.25, **facts))
    assert crowded.evidence["exchange_s"] == pytest.approx(0.015)
    assert crowded.evidence["displaced_s"] == pytest.approx(0.0)
    assert crowded.speedup.low == pytest.approx(40 / (20 - 4 * 7 / 8 + 20 - 15 * 7 / 8) * 0.95, rel=0.01)
    (half,) = advise(job(0.020, 0.020, calm=0.10, **facts))
    assert half.evidence["displaced_s"] == pytest.approx(0.003 / 0.9)
    (unknown,) = advise(job(0.020, 0.020, **facts))
    assert unknown.speedup == crowded.speedup


def test_what_ran_beside_the_backward_pass_may_give_more_back(job) -> None:
    first, second = (advise(job(0.020, 0.020, communication=0.020, hidden=hidden)) for hidden in (0.0, 0.010))
    (without,), (beside,) = first, second
    assert without.speedup.low == beside.speedup.low
    assert without.speedup.likely < beside.speedup.likely
    assert without.speedup.high < beside.speedup.high


def test_on_a_device_nobody_gives_a_cpu_back(job) -> None:
    """What runs hidden there may hold kernels up: it widens the interval, and promises nothing."""
    card = Device(index="0", name="Pretended")
    first, second = (job(0.020, 0.020, communication=0.020, hidden=hidden) for hidden in (0.0, 0.010))
    (without,), (beside,) = (advise(replace(run, devices=(card,))) for run in (first, second))
    assert without.speedup.likely == beside.speedup.likely == pytest.approx(40 / (20 + 20 / 8), rel=0.01)
    assert without.speedup.high < beside.speedup.high


def test_what_a_host_takes_to_launch_an_update_is_not_promised_of_its_device(job) -> None:
    """DDP over NCCL, measured: 8.5 ms of work, 7 ms of exchange, and 0.5 ms of the host's to launch the update."""
    run = job(0.0085, 0.0085, communication=0.007, update=0.0005, hidden=0.0039)
    (finding,) = advise(replace(run, devices=(Device(index="0", name="Pretended", busy=1.0),)))
    assert finding.speedup.low == pytest.approx(15.5 / (8.5 + 7 / 8) * 0.95, rel=0.01)
    assert finding.speedup.likely == pytest.approx(15.5 / (8.5 - 0.5 * 7 / 8 + 7 / 8), rel=0.01)
    assert finding.speedup.low < 1.95 < finding.speedup.high  # x1.95 was realised


def test_where_strangers_use_the_cpus_the_quickest_rounds_say_what_the_exchange_takes(job) -> None:
    """Every other message stands in line for a CPU for 10 ms, which is no link's fault."""
    run = job(0.020, 0.020)
    late = tuple(
        replace(p, meetings=tuple(replace(m, apart=0.001 + 0.010 * (m.number % 2)) for m in p.meetings))
        for p in run.processes
    )
    (finding,) = advise(replace(run, processes=late))
    assert finding.evidence["exchange_s"] == pytest.approx(0.006)
    assert list(advise(replace(run, processes=late, machine=replace(run.machine, others=0.8)))) == []


def over(run: Features, sent: float, rate: float | None) -> Features:
    """The run on a machine whose interface sent so many B/s of what it can."""
    return replace(run, network=Network(interface="eth0", sent=sent, rate=rate))


def test_the_exchange_is_held_against_a_ring_over_the_link_that_it_took(job) -> None:
    run = job(0.020, 0.020, communication=0.020)  # 10 MB in 40 ms are 250 MB/s
    (finding,) = advise(over(run, 260e6, 1.25e9))
    assert finding.says.endswith("; a ring over eth0 (1.25 GB/s) takes 8.1 ms")
    assert finding.evidence["link_ring_s"] == pytest.approx(0.0081)
    for elsewhere in (over(run, 1e6, 1.25e9), over(run, 260e6, None), run):
        (finding,) = advise(elsewhere)
        assert finding.says.endswith("ms of work")
        assert "link_ring_s" not in finding.evidence


def test_a_link_that_does_a_fraction_of_what_it_is_told_to_do_is_suspect(job) -> None:
    run = job(0.020, 0.020, communication=0.800)  # 10 MB in 0.8 s are 12.5 MB/s, over a link that says 1.25 GB/s
    slow = Network(interface="eth0", sent=12.2e6, rate=1.25e9, most=12.5e6, resent=0.031, dropped=40.0, mtu=1500)
    (finding,) = advise(replace(run, network=slow))
    assert finding.says.startswith("suspect the network: 9")
    assert "takes 8.1 ms, but eth0 carried 12.5 MB/s at the most" in finding.says
    assert "3.1% of TCP's segments were sent again, it dropped 40 packets a second, its MTU is 1500 B" in finding.says
    assert finding.do.startswith("measure the link (gputune doctor --network A B")
    assert finding.evidence["link_off"] > 90
    (finding,) = advise(replace(run, network=replace(slow, rate=2e7, resent=0.0, dropped=0.0)))
    assert "suspect" not in finding.says + finding.do
    assert finding.says.endswith("ms")


def test_a_link_of_which_nothing_is_told_is_held_against_what_it_did(job) -> None:
    run = job(0.020, 0.020, communication=0.800)
    (finding,) = advise(replace(run, network=Network(interface="eth0", sent=12.2e6, most=12.5e6)))
    assert finding.says.endswith("ms of work; eth0 carried 12.5 MB/s at the most")


def test_is_silent_where_a_rank_was_not_seen(job, without) -> None:
    assert list(advise(without(job(0.020, 0.020, communication=0.020), 1))) == []


def gathered(run: Features) -> Features:
    """The same of ranks that gather their weights, as with FSDP."""
    told = (tuple(replace(m, gathered=True, on_device=True) for m in p.meetings) for p in run.processes)
    devices = (Device(index="0", name="Pretended", busy=1.0),)
    processes = tuple(replace(p, meetings=m) for p, m in zip(run.processes, told, strict=True))
    return replace(run, processes=processes, devices=devices)


def test_ranks_that_gather_weights_are_not_told_to_accumulate(job) -> None:
    """FSDP on four cards, measured: 15.4 ms of work, 56.3 ms of exchange; a batch four times as large took 78 ms."""
    own = (0.0154,) * 4
    (finding,) = advise(gathered(job(*own, communication=0.0563, hidden=0.0154)))
    assert "a batch 4 times as large" in finding.do
    assert "no_sync" not in finding.do
    assert "weights and gradients" in finding.says
    assert "gradient_accumulation" not in finding.change
    assert finding.speedup.low < 4 * 71.6 / 78 < finding.speedup.high
    assert finding.speedup.likely == pytest.approx(71.7 / (15.4 + (56.3 - 3 * 15.4) / 4), rel=0.02)


def test_what_hides_behind_nothing_stays_as_exposed_in_a_larger_batch(job) -> None:
    (finding,) = advise(gathered(job(0.020, 0.020, communication=0.020)))
    assert "a batch 8 times as large" in finding.do
    assert finding.speedup.likely == pytest.approx(40 / (20 + 20 / 8), rel=0.01)
