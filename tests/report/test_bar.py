"""The ledger's bar."""

import re

import pytest

from gputune.core.figures import apportion
from gputune.report.bar import bar, legend, parts
from gputune.verdict.document import LedgerRow


def ledger(**shares: float) -> list[LedgerRow]:
    """Return a ledger with these shares; `_` in a name stands for a dot."""
    return [LedgerRow(span=s.replace("_", "."), seconds=share, share=share) for s, share in shares.items()]


def test_percents_add_to_a_hundred_where_rounding_would_not() -> None:
    shown = parts(ledger(step=1 / 3, loader_wait=1 / 3, startup=1 / 3), 80)
    assert sum(part.percent for part in shown) == 100


def test_small_spans_are_counted_as_other() -> None:
    shown = parts(ledger(step=0.985, logging=0.008, sync=0.007), 80)
    assert [(part.span, part.percent) for part in shown] == [("step", 98), ("other", 2)]


def test_what_rounds_to_nothing_is_not_named() -> None:
    shown = parts(ledger(step=0.998, sync=0.002), 80)
    assert [(part.span, part.percent) for part in shown] == [("step", 100)]


def test_the_legend_fits_a_narrow_terminal_and_still_adds_up() -> None:
    many = ledger(step=0.4, loader_wait=0.2, evaluation=0.2, checkpoint=0.1, collective=0.06, reporting=0.04)
    for width in (40, 60, 80):
        shown = parts(many, width)
        assert len(legend(shown, colour=False)) <= width
        assert sum(part.percent for part in shown) == 100


@pytest.mark.parametrize("width", [40, 41, 79, 80, 200])
def test_the_bar_is_as_wide_as_it_is_told(width: int) -> None:
    shown = parts(ledger(step=0.5, loader_wait=0.3, startup=0.2), width)
    assert len(bar(shown, width, colour=False)) == width


def test_neighbours_differ_without_colour() -> None:
    drawn = bar(parts(ledger(step=0.5, loader_wait=0.3, startup=0.2), 80), 80, colour=False)
    assert re.sub(r"(.)\1*", r"\1", drawn) == "█▓▒"


def test_colour_changes_no_character() -> None:
    shown = parts(ledger(step=0.5, loader_wait=0.3, startup=0.2), 80)
    assert re.sub(r"\x1b\[\d+m", "", bar(shown, 80, colour=True)) == bar(shown, 80, colour=False)


def test_an_empty_ledger_has_no_bar() -> None:
    assert parts([], 80) == []


def test_apportions_by_the_largest_remainders() -> None:
    assert apportion([0.58, 0.27, 0.15], 10) == [6, 3, 1]
    assert apportion([1.0], 80) == [80]
