"""Curves of a machine: one axis of time for all, in few lines and in many, and values that are read off."""

import time
from typing import Any

import pytest
from rich.cells import cell_len

from gputune.feeds.rows import Curve, Past
from gputune.tui.lines import Canvas, Line
from gputune.tui.pages._past import SPANS, past_lines, step_of

END = 1_800_000_000.0


def past(count: int = 299, devices: int = 2, **changes: Any) -> Past:
    """Return the last five minutes of a machine, busier from second to second."""
    rising = tuple(k / 299 for k in range(299 - count, 299))
    curves = [Curve(what="busy", whom=str(d), values=rising) for d in range(devices)]
    curves += [
        Curve(what="power", whom=str(d), values=tuple(700 * v for v in rising), top=700.0) for d in range(devices)
    ]
    curves += [
        Curve(what="cpu", values=tuple(64 * v for v in rising), top=64.0),
        Curve(what="cpu by role", whom="worker", values=tuple(8 * v for v in rising)),
        Curve(what="host memory", values=(2.0**38,) * count, top=2.0**39),
        Curve(what="disk read", values=(None,) * count),
    ]
    facts: dict[str, Any] = {"node": "m8", "began": END - count, "step": 1.0, "span": 0, "curves": tuple(curves)}
    return Past(**{**facts, **changes})


def drawn(found: list[Line]) -> list[str]:
    """Return the lines as text."""
    return [each.text.rstrip() for each in found]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("size", [(79, 24), (119, 40), (199, 60), (399, 100)])
def test_it_fits_with_any_number_of_devices(size: tuple[int, int], plain: bool) -> None:
    for devices in (0, 1, 8):
        for cursor in (None, END - 100.0):
            found = past_lines(past(devices=devices), Canvas(*size, plain), span=0, cursor=cursor)
            assert max(cell_len(each.text) for each in found) <= size[0] + 1
            assert not plain or all(each.text.replace("°", "").replace("–", "").isascii() for each in found[1:])


def test_a_small_screen_has_what_matters_a_line_each() -> None:
    found = drawn(past_lines(past(), Canvas(79, 24), span=0))
    assert [each[:12].strip() for each in found] == [
        "HOW IT WENT", "0 busy", "1 busy", "CPUs", "host memory", "",
    ]  # fmt: skip
    assert found[1].endswith("100%")
    assert len(past_lines(past(), Canvas(79, 24), span=0, whole=True)) == 1 + 8 + 1


def test_a_large_one_has_devices_and_host_side_by_side_higher_each() -> None:
    found = drawn(past_lines(past(), Canvas(199, 60), span=0))
    row = next(each for each in found if " 0 power" in each)
    assert "700W┤" in row
    assert " 698W " in row.partition("┤")[2]
    assert any("CPUs" in each and " 0 busy" in each for each in found)
    assert len(found) > 1 + 4 + 1  # more than a line each
    assert any("0W┤" in each for each in found)  # the lower end of an axis


def test_one_axis_says_the_time_of_day_for_all() -> None:
    found = drawn(past_lines(past(), Canvas(119, 40), span=0))
    for at in (END - 300, END):
        assert time.strftime("%H:%M:%S", time.localtime(at)) in found[-1]
    begun = drawn(past_lines(past(30), Canvas(119, 40), span=0))  # the axis stays as it is where little is known yet
    assert found[-1] == begun[-1]
    assert begun[1].partition("┤")[2].startswith(" " * 60)


def test_a_cursor_reads_every_curve_off_at_its_moment() -> None:
    found = drawn(past_lines(past(), Canvas(119, 40), span=0, cursor=END - 150.0))
    assert next(each for each in found if " 0 busy" in each).endswith((" 49%", " 50%", " 51%"))
    assert sum("│" in each for each in found) == 8
    assert next(each for each in found if "disk read" in each).endswith(" –")


def test_gaps_are_named_with_their_length_the_longest_first() -> None:
    gaps = tuple((END - 290 + 10 * k, 5.0 + k) for k in range(5))
    told = drawn(past_lines(past(gaps=gaps), Canvas(159, 40), span=0))[-1]
    assert told.startswith(" nothing could be read for 7.0s at ")
    assert told.endswith(" and 2 shorter ones")


def test_of_nothing_it_says_so() -> None:
    for known in (None, past(curves=())):
        assert drawn(past_lines(known, Canvas(79, 24), span=1))[1] == "  nothing was read yet"
        assert "2 hours" in drawn(past_lines(known, Canvas(79, 24), span=1))[0]


def test_one_key_moves_by_no_less_than_a_point() -> None:
    assert step_of(past()) == SPANS[0][1] / 60
    assert step_of(past(step=240.0, span=2)) == 1440.0
