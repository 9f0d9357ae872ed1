"""Numbers as a person writes them."""

from gputune.report.words import clip, number, percent, times
from gputune.verdict.document import SpeedupRow


def test_numbers_read_as_a_person_writes_them() -> None:
    assert [number(n) for n in (0.1234, 8.123, 812.4, 12345)] == ["0.123", "8.12", "812", "12,300"]
    assert times(SpeedupRow(low=1.05, likely=1.1, high=1.15)) == "×1.10 (1.05–1.15)"
    assert times(SpeedupRow(low=11, likely=14.2, high=17)) == "×14 (11–17)"
    assert times(SpeedupRow(low=1.1, likely=15, high=100, at_least=True)) == "at least ×1.1, ×15 elsewhere"
    assert times(SpeedupRow(low=1.8, likely=2.0, high=45.2)) == "×2.0 (at least ×1.8)"
    unsure = times(SpeedupRow(low=0.9, likely=2.0, high=45.2), 1.2)
    assert unsure == "×2.0 (at least ×1.20 if steps keep their pace)"
    assert clip("abcdef", 4) == "abc…"


def test_a_loss_that_only_a_restless_machine_makes_possible_is_not_shown_as_one() -> None:
    gain = SpeedupRow(low=0.81, likely=1.34, high=3.79)
    assert times(gain, 1.09) == "×1.34 (1.09–3.79 if steps keep their pace)"
    assert times(gain, 0.95) == "×1.34 (0.81–3.79)"
    assert times(SpeedupRow(low=1.1, likely=1.34, high=1.5), 1.2) == "×1.34 (1.10–1.50)"


def test_a_small_share_is_not_called_nothing() -> None:
    assert [percent(0.0), percent(0.001), percent(0.57)] == ["0%", "under 1%", "57%"]
