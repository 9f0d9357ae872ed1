"""slow-link speaks when lanes are missing and the run's copies pay for them."""

from dataclasses import replace

import pytest

from gputune.advisors.slow_link import advise
from gputune.features import Features, PcieLink

HALF = PcieLink(generation=4, lanes=4, generation_most=4, lanes_most=16)  # 7.9 of 31.5 GB/s
FULL = PcieLink(generation=4, lanes=16, generation_most=4, lanes_most=16)


@pytest.fixture
def linked(run, device):
    """A run of steps of 40 ms whose device computes half of the time, and so much goes over such a link (B/s)."""

    def build(link: PcieLink | None, received: float | None, *, busy: float = 0.5, **more) -> Features:
        card = device(busy=busy, link=link, received=received, sent=1e6)
        return run(num_workers=4, blocked=0.001, waits=(0.0,), step=0.040, devices=(card,), **more)

    return build


@pytest.mark.parametrize(
    ("link", "received"),
    [
        (FULL, 2e9),  # nothing is missing
        (HALF, 0.2e9),  # what little it carries holds nobody up
        (HALF, None),
        (None, 2e9),
        (HALF, 20e9),  # more than it could carry: a made-up link
        (replace(HALF, generation=9), 2e9),
        (replace(FULL, lanes=16, generation=4, generation_most=4), 2e9),
    ],
)
def test_is_silent_where_the_link_is_whole_unused_or_not_known(linked, link, received) -> None:
    assert list(advise(linked(link, received))) == []


def test_names_the_link_and_what_the_lanes_would_give_back(linked) -> None:
    (finding,) = advise(linked(HALF, 2.68e9))
    assert finding.id == "slow-link"
    assert "PCIe 4 x4, and could be by PCIe 4 x16: its copies take 40% of the time and could take 10%" in finding.says
    assert finding.speedup.likely == pytest.approx(1 / 0.7, rel=0.01)
    assert finding.speedup.low < 1.2 < finding.speedup.likely


def test_what_kernels_hide_is_not_given_back(linked) -> None:
    (finding,) = advise(linked(HALF, 2.68e9, busy=0.95))
    assert finding.speedup.likely == pytest.approx(1 / 0.95, rel=0.01)


def test_an_old_generation_counts_as_missing_lanes_do(linked) -> None:
    old = PcieLink(generation=1, lanes=16, generation_most=3, lanes_most=16)
    (finding,) = advise(linked(old, 1.36e9))
    assert finding.evidence["link_busy"] == pytest.approx(0.4, rel=0.01)


def test_what_the_devices_clock_says_bounds_it_and_not_what_nvml_calls_busy(linked, clocked) -> None:
    (finding,) = advise(clocked(linked(HALF, 2.68e9), 0.9))
    assert finding.speedup.likely == pytest.approx(1 / 0.9, rel=0.01)
