"""Means of the machine and its devices: over the training loop, and only over it."""

import pytest

from gputune.core.sample import Metric, Sample
from gputune.core.units import NS
from gputune.features import OutOfMemory, PcieLink
from gputune.gathering.host import HostMeans


def read(host: HostMeans, name: str, t: int, value: float, instance: str = "") -> None:
    host.take(Sample(Metric(name, "1", "A pretended metric."), t, value, instance))


@pytest.fixture
def host() -> HostMeans:
    return HostMeans()


def test_what_was_never_read_is_unknown(host) -> None:
    assert host.mean("cpu.busy") is None
    machine = host.machine(ranks=1)
    assert (machine.busy, machine.shm_free, machine.memory_total) == (None, None, None)
    assert host.devices() == ()


def test_before_the_loop_everything_counts(host) -> None:
    read(host, "cpu.busy", 1, 2.0)
    read(host, "cpu.busy", 2, 4.0)
    assert host.mean("cpu.busy") == 3.0


def test_the_start_up_is_forgotten_once_the_loop_begins(host) -> None:
    read(host, "cpu.busy", 1, 8.0)
    host.loop(10, 20)
    read(host, "cpu.busy", 15, 2.0)
    assert host.mean("cpu.busy") == 2.0


def test_a_reading_counts_once_a_batch_has_shown_that_the_loop_went_on(host) -> None:
    host.loop(10, 20)
    read(host, "cpu.busy", 25, 2.0)
    assert host.mean("cpu.busy") is None
    host.loop(21, 24)
    assert host.mean("cpu.busy") is None
    host.loop(24, 30)
    assert host.mean("cpu.busy") == 2.0


def test_readings_after_the_loop_do_not_count(host) -> None:
    host.loop(10, 20)
    read(host, "cpu.busy", 15, 2.0)
    read(host, "cpu.busy", 99, 8.0)
    assert host.mean("cpu.busy") == 2.0


def test_readings_of_one_tick_may_come_in_any_order(host) -> None:
    host.loop(10, 20)
    read(host, "cpu.busy", 40, 4.0)
    read(host, "cpu.busy", 25, 2.0)
    host.loop(20, 30)
    assert host.mean("cpu.busy") == 2.0
    host.loop(30, 50)
    assert host.mean("cpu.busy") == 3.0


def test_what_is_read_once_is_kept_through_the_start_of_the_loop(host) -> None:
    read(host, "cpu.allowed", 1, 6.0)
    read(host, "cpu.count", 1, 64.0)
    read(host, "shm.free", 1, 1e9)
    host.loop(10, 20)
    machine = host.machine(ranks=2)
    assert (machine.cpus, machine.cpus_seen, machine.shm_free, machine.ranks) == (6.0, 64, 1_000_000_000, 2)


def test_a_reading_counts_for_the_time_that_it_stands_for(host) -> None:
    """Five times a second in the first two seconds of the loop, once a second from then on."""
    host.loop(10 * NS, 100 * NS)
    for tenth in range(2, 22, 2):
        read(host, "cpu.busy", 10 * NS + tenth * NS // 10, 2.0)
    for second in range(3, 21):
        read(host, "cpu.busy", (10 + second) * NS, 1.0)
    assert host.mean("cpu.busy") == pytest.approx((2 * 2.0 + 18 * 1.0) / 20)


def test_what_came_before_a_long_gap_is_not_known(host) -> None:
    host.loop(10 * NS, 100 * NS)
    for second, value in ((11, 1.0), (12, 1.0), (60, 3.0)):
        read(host, "gpu.busy", second * NS, value, "0")
    assert host.mean("gpu.busy", "0") == pytest.approx((1.0 + 1.0 + 5 * 3.0) / 7)


def test_the_time_in_which_the_training_was_stopped_is_no_reading_s(host) -> None:
    host.loop(10 * NS, 100 * NS)
    read(host, "cpu.busy", 11 * NS, 2.0)
    host.still = True
    read(host, "cpu.busy", 13 * NS, 9.0)
    host.still = False
    read(host, "cpu.busy", 14 * NS, 4.0)
    assert host.mean("cpu.busy") == pytest.approx(3.0)


def test_clocks_and_throttling_count_only_while_the_device_works(host) -> None:
    host.note({"n": "device", "index": 0, "name": "Pretended"})
    for t, busy, clock, reason in ((1, 0.0, 0.2e9, 0x4), (2, 0.9, 1.0e9, 0x40), (3, 0.9, 2.0e9, 0x1)):
        read(host, "gpu.busy", t, busy, "0")
        read(host, "gpu.clock.sm", t, clock, "0")
        read(host, "gpu.throttle", t, reason, "0")
    (device,) = host.devices()
    assert device.name == "Pretended"
    assert device.clock == pytest.approx(1.5e9)
    assert device.throttled == {"hardware thermal slowdown": 0.5}
    assert device.busy == pytest.approx(0.6)


def test_of_a_card_in_mig_mode_nvml_tells_what_all_instances_do(host) -> None:
    """Their memory is not that of the one which a job has, and who is on another one takes nothing of it."""
    host.note({"n": "device", "index": 1, "name": "A", "uuid": "GPU-1", "mig": True, "instances": ["MIG-77", "MIG-78"]})
    for t in range(1, 30):
        for name, value in (("memory.used", 5e9), ("memory.total", 80e9), ("others.memory", 4e9), ("others.busy", 1.0)):
            read(host, f"gpu.{name}", t * NS, value, "1")
    (device,) = host.devices()
    assert (device.memory_used, device.memory_total, device.memory, device.others_memory) == (None,) * 4
    assert device.others == {}
    assert {host.indices[uuid] for uuid in ("GPU-1", "GPU-77", "GPU-78")} == {"1"}  # as CUDA tells them
    full = OutOfMemory(
        gpu="1", index="1", pid=7, rank=None, where="t.py:3", asked=1, live=2, reserved=3, free=0, total=4
    )
    assert host.beside(full) == full


def test_the_link_is_the_best_that_was_seen_while_the_device_worked(host) -> None:
    for t, busy, gen in ((1, 0.0, 5), (2, 0.9, 2), (3, 0.9, 3), (4, 0.0, 1)):
        read(host, "gpu.busy", t, busy, "0")
        for name, value in (("gen", gen), ("width", 8), ("gen.max", 5), ("width.max", 16)):
            read(host, f"gpu.pcie.{name}", t, value, "0")
    (device,) = host.devices()
    assert device.link == PcieLink(generation=3, lanes=8, generation_most=5, lanes_most=16)


def test_a_link_that_was_only_read_while_the_device_idled_is_unknown(host) -> None:
    for name in ("gen", "width", "gen.max", "width.max"):
        read(host, f"gpu.pcie.{name}", 1, 4, "0")
    (device,) = host.devices()
    assert device.link is None


def test_traffic_is_that_of_times_within_the_loop(host) -> None:
    """A reading is the mean since the one before it."""
    host.loop(10, 20)
    for t, rate in ((12, 1e9), (15, 3e9), (18, 5e9)):
        read(host, "gpu.pcie.rx", t, rate, "0")
    (device,) = host.devices()
    assert (device.received, device.sent) == (4e9, None)


def test_errors_of_a_device_count_whenever_they_come(host) -> None:
    """The last ones come when no batch will ever follow them."""
    read(host, "gpu.ecc", 1, 3.0, "0")
    host.loop(10, 20)
    host.still = True
    read(host, "gpu.xid", 99, 79.0, "0")
    read(host, "gpu.ecc", 99, 5.0, "0")
    (device,) = host.devices()
    assert device.xids == {79: 1}
    assert device.ecc == 2


def test_a_count_of_memory_errors_that_began_anew_has_not_fallen(host) -> None:
    for value in (7.0, 0.0, 1.0):
        read(host, "gpu.ecc", 1, value, "0")
    assert host.devices()[0].ecc == 1


def test_neighbours_come_with_their_names_the_heaviest_first(host) -> None:
    host.note({"n": "neighbour", "pid": 4711, "name": "ffmpeg"})
    read(host, "cpu.neighbour", 1, 0.5, "9")
    read(host, "cpu.neighbour", 1, 1.5, "4711")
    heavy = host.machine(ranks=1).neighbours
    assert [(n.pid, n.name, n.cores) for n in heavy] == [(4711, "ffmpeg", 1.5), (9, "unknown", 0.5)]


def test_memory_is_the_most_that_was_ever_used(host) -> None:
    for t, used in ((1, 5e9), (2, 9e9), (3, 7e9)):
        read(host, "gpu.memory.used", t, used, "0")
    (device,) = host.devices()
    assert device.memory_used == 9_000_000_000
    assert device.memory_total is None


def test_devices_come_in_the_order_of_their_numbers(host) -> None:
    for index in ("10", "2", "0"):
        read(host, "gpu.busy", 1, 0.5, index)
    assert [device.index for device in host.devices()] == ["0", "2", "10"]


def test_others_are_named_where_they_can_be(host) -> None:
    read(host, "gpu.other.busy", 1, 0.3, "0:4711")
    read(host, "gpu.busy", 1, 0.5, "0")
    read(host, "gpu.others.busy", 1, 0.2, "1")
    first, second = host.devices()
    assert first.others == {4711: 0.3}
    assert second.others == {0: 0.2}


def test_a_process_on_the_card_is_no_card(host) -> None:
    read(host, "gpu.other.busy", 1, 0.3, "0:4711")
    read(host, "gpu.busy", 1, 0.5, "0")
    assert [device.index for device in host.devices()] == ["0"]


def test_the_power_limit_and_the_default_one_are_known_though_they_are_read_before_the_loop(host) -> None:
    read(host, "gpu.power.limit", 1, 400.0, "0")
    read(host, "gpu.power.limit.default", 1, 700.0, "0")
    host.loop(10, 20)
    (device,) = host.devices()
    assert (device.power_limit, device.power_default) == (400.0, 700.0)


def watched(host: HostMeans, *, until: float, loop: float = 100.0) -> float:
    """A loop of so many seconds, whose device was read each second until then. Returns how much of it was covered."""
    host.loop(10 * NS, 11 * NS)
    for second in range(11, 10 + int(until)):
        read(host, "gpu.busy", second * NS, 0.5, "0")
    host.loop(11 * NS, int((10 + loop) * NS))
    (device,) = host.devices()
    return device.coverage


@pytest.mark.parametrize(("until", "least", "most"), [(100, 1.0, 1.0), (12, 0.1, 0.2), (70, 0.7, 0.76)])
def test_the_part_of_the_loop_in_which_a_device_was_read(host, until, least, most) -> None:
    assert least <= watched(host, until=until) <= most


def test_calls_that_fail_one_by_one_cost_their_own_figures(host) -> None:
    """Utilisation may be read no more while memory is, and power no more while both are."""
    host.loop(10 * NS, 11 * NS)
    for second in range(11, 110):
        read(host, "gpu.memory.used", second * NS, 5.0, "0")
        read(host, "gpu.memory.used", second * NS, 5.0, "1")
        read(host, "gpu.busy", second * NS, 0.5, "0")
        if second < 20:
            read(host, "gpu.busy", second * NS, 0.5, "1")
            for name in ("gpu.power", "gpu.clock.sm", "gpu.throttle", "gpu.sm.active"):
                read(host, name, second * NS, 4.0, "0")
    host.loop(11 * NS, 110 * NS)
    first, second = host.devices()
    assert (first.coverage, first.busy) == (1.0, 0.5)
    assert (first.power, first.clock, dict(first.throttled), first.sm_active) == (None, None, {}, None)
    assert second.coverage < 0.2


def test_a_short_loop_is_covered_by_what_was_read_around_it(host) -> None:
    assert watched(host, until=3, loop=4.0) == 1.0


def test_time_in_which_somebody_had_stopped_the_training_needs_no_reading(host) -> None:
    host.loop(10 * NS, 11 * NS)
    for second in range(11, 21):
        read(host, "gpu.busy", second * NS, 0.5, "0")
    host.stand(20 * NS, still=True)
    read(host, "gpu.busy", 500 * NS, 0.0, "0")
    host.stand(1000 * NS, still=False)
    host.loop(1000 * NS, 1002 * NS)
    (device,) = host.devices()
    assert device.coverage > 0.9
