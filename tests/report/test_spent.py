"""One sentence on what a run cost."""

import pytest
from msgspec.structs import replace

from gputune.features import Device
from gputune.report.spent import money, sentence
from gputune.verdict.building import Overhead, build

CARD = Device(index="0", name="H200", busy=0.4, idle=36.0, energy=2.1e4, idle_power=100.0, power=350.0)


def said(features, price: float | None = None, **changes) -> str:
    return sentence(build(features(**changes), [], overhead=Overhead(), price=price))


def test_is_silent_without_a_price_and_a_device_that_tells(features) -> None:
    assert not said(features)
    assert not said(features, devices=())


def test_a_device_that_tells_is_told_of(features) -> None:
    assert said(features, devices=(CARD,)) == (
        "the device waited 59% of 61.2 s; 21 kJ, 3.6 kJ of it while waiting; 2.44 samples/J"
    )


def test_a_start_up_that_is_much_of_it_is_said_to_be_in_it(features) -> None:
    """An H100 was busy for 99 % of a loop, and had waited 41 % of the run."""
    verdict = replace(build(features(devices=(CARD,)), [], overhead=Overhead()), startup_s=10.0)
    assert sentence(verdict).startswith("the device waited 59% of 61.2 s, start-up included; 21 kJ")
    priced = replace(build(features(devices=(CARD,)), [], overhead=Overhead(), price=70.0), startup_s=10.0)
    assert "0.70 of it while the device waited, start-up included; 21 kJ" in sentence(priced)


def test_a_price_makes_it_money(features) -> None:
    assert said(features, price=70.0, devices=(CARD,)).startswith(
        "cost 1.19 (price 70.00 an hour); 0.70 of it while the device waited; 21 kJ"
    )
    assert "cost so far 2.38 (price 70.00 an hour × 2 devices); 1.40 of it while the devices waited" in said(
        features, price=70.0, devices=(CARD, CARD), exit_code=None
    )


def test_without_a_device_the_training_started_up_or_waited(features) -> None:
    assert said(features, price=60.0, devices=()) == (
        "cost 1.02 (price 60.00 an hour); 0.65 of it while the training started up or waited"
    )


@pytest.mark.parametrize(("amount", "text"), [(0, "0.00"), (1234.5, "1234.50"), (0.1, "0.10"), (0.00123, "0.0012")])
def test_small_amounts_keep_two_digits(amount, text) -> None:
    assert money(amount) == text
