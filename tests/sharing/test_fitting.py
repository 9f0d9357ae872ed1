"""How many fit, and why not more: arithmetic on what one takes and what there is."""

import pytest

from gputune.sharing.fitting import UNLIMITED, Need, Room, best, fits, refusal

GB = 1e9
CARD = Room(name="GPU 0 (H200)", device=80 * GB, device_free=70 * GB, host_free=100 * GB, cores=16.0)


def test_what_was_not_measured_limits_nothing() -> None:
    assert fits(Need(), CARD) == UNLIMITED
    assert refusal(1000, Need(), CARD) == ""
    assert best(Need(), CARD) == (1, "")


@pytest.mark.parametrize(
    ("device", "procs", "fit"), [(20 * GB, 3, True), (20 * GB, 4, False), (70 * GB, 1, True), (70.1 * GB, 1, False)]
)
def test_device_memory_is_counted_to_the_byte(device: float, procs: int, fit: bool) -> None:
    assert (refusal(procs, Need(device=device), CARD) == "") is fit


def test_a_refusal_says_all_numbers() -> None:
    assert refusal(4, Need(device=20 * GB), CARD) == (
        "4 copies do not fit on GPU 0 (H200): one takes 20 GB (its CUDA context included), 4 take 80 GB, "
        "and 70 GB of its 80 GB are free"
    )
    assert "one takes 20 GB (as given)" in refusal(4, Need(device=20 * GB, given=True), CARD)
    assert refusal(3, Need(host=40 * GB), CARD) == (
        "3 copies do not fit into this machine's memory: one takes 40 GB, 3 take 120 GB, and 100 GB are free"
    )


@pytest.mark.parametrize(
    ("need", "copies", "why"),
    [
        (Need(busy=0.2), 5, "device time is the limit"),
        (Need(busy=0.3), 4, "device time is the limit"),
        (Need(busy=0.6), 2, "device time is the limit"),
        (Need(busy=0.98), 1, "device time is the limit"),
        (Need(busy=0.1, device=20 * GB), 3, "device memory is the limit"),
        (Need(busy=0.1, host=45 * GB), 2, "host memory is the limit"),
        (Need(busy=0.1, cores=4.0), 4, "CPUs is the limit"),
        (Need(busy=0.062), 16, "device time is the limit"),
        (Need(busy=0.001), 16, "at most 16 are tried"),
        (Need(host=0.1 * GB), 16, "at most 16 are tried"),
        (Need(cores=20.0), 1, "CPUs is the limit"),
    ],
)
def test_the_tightest_limit_says_how_many(need: Need, copies: int, why: str) -> None:
    assert best(need, CARD) == (copies, why)
