"""A finding says how bad it is: by its gain, or as a risk by how soon it comes true."""

from collections.abc import Mapping

import pytest

from gputune.core.finding import NO_CHANGE, Finding, Severity, Speedup

FACTS: Mapping[str, object] = {
    "id": "small-shm",
    "says": "says",
    "do": "do",
    "share_lost": 0.0,
    "basis": "basis",
    "falsified_by": "that",
    "effect": "identical",
    "evidence": {"n": 1.0},
}


def finding(**changes: object) -> Finding:
    """Make a finding that leaves the pace of the run as it is."""
    return Finding(**{"speedup": NO_CHANGE, **FACTS, **changes})


@pytest.mark.parametrize(
    ("likely", "severity"), [(1.0, Severity.LOW), (1.08, Severity.MEDIUM), (1.25, Severity.HIGH), (7.0, Severity.HIGH)]
)
def test_a_gain_is_as_severe_as_it_is_large(likely: float, severity: Severity) -> None:
    assert finding(speedup=Speedup(low=1.0, likely=likely, high=9.0)).severity is severity


@pytest.mark.parametrize(
    ("due", "severity"),
    [(0.0, Severity.HIGH), (1800.0, Severity.HIGH), (7200.0, Severity.MEDIUM), (1e6, Severity.LOW)],
)
def test_a_risk_is_as_severe_as_it_is_near(due: float, severity: Severity) -> None:
    assert finding(risk="it fills", due=due).severity is severity


def test_a_risk_that_hangs_on_the_data_is_worth_changing_before_the_next_run() -> None:
    assert finding(risk="it fills").severity is Severity.MEDIUM


def test_nothing_is_a_risk_and_an_offer_at_once() -> None:
    with pytest.raises(ValueError, match="nothing to offer"):
        finding(risk="it fills", offer="have it")
