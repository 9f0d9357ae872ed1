"""Numbers to cells, by table."""

import math

import pytest

from gputune.tui.drawing import bar, ceiling, heat, plot, resample, sane, spark, stretches

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("share", "width", "plain", "drawn"),
    [
        (0.0, 4, False, "    "),
        (1.0, 4, False, "████"),
        (0.5, 4, False, "██  "),
        (0.5, 1, False, "▌"),
        (1 / 32, 4, False, "▏   "),
        (0.99, 4, False, "████"),
        (-1.0, 4, False, "    "),
        (7.0, 4, False, "████"),
        (None, 4, False, "    "),
        (NAN, 4, False, "    "),
        (INF, 4, False, "    "),
        (0.5, 0, False, ""),
        (0.5, -3, False, ""),
        (0.5, 4, True, "##.."),
        (0.0, 4, True, "...."),
    ],
)
def test_a_bar_is_as_long_as_its_share(share: float | None, width: int, plain: bool, drawn: str) -> None:
    assert bar(share, width, plain=plain) == drawn


@pytest.mark.parametrize(
    ("values", "width", "drawn"),
    [
        ([], 3, "   "),
        ([0.0, 0.5, 1.0], 3, " ▄█"),
        ([0.0, 0.5, 1.0], 2, "▄█"),
        ([1.0], 3, "  █"),
        ([0.001], 1, "▁"),
        ([None, NAN, 2.0], 3, "  █"),
    ],
)
def test_a_spark_shows_the_latest_values(values: list[float | None], width: int, drawn: str) -> None:
    assert spark(values, width) == drawn


def test_what_is_there_and_small_is_never_drawn_as_nothing() -> None:
    assert spark([1e-9], 1) != " "
    assert plot([1e-9], 1, 1, top=1.0) != [" "]


def test_heat_tells_idle_from_unknown() -> None:
    assert heat([0.0, None, 1.0], 4) == "·?█ "
    assert heat([0.0, None, 1.0], 4, plain=True) == ".?% "
    assert heat([1.0] * 16, 8) == "█" * 8


@pytest.mark.parametrize(
    ("values", "count", "found"),
    [
        ([], 2, [None, None]),
        ([1.0, 3.0], 1, [2.0]),
        ([1.0], 3, [1.0, 1.0, 1.0]),
        ([1.0, None, 3.0, None], 2, [1.0, 3.0]),
        ([None, None], 1, [None]),
        ([1.0], 0, []),
    ],
)
def test_fewer_cells_show_means_and_more_repeat(
    values: list[float | None], count: int, found: list[float | None]
) -> None:
    assert resample(values, count) == found


@pytest.mark.parametrize(
    ("values", "size", "drawn"),
    [
        ([1.0, 1.0], (1, 1), ["⣿"]),
        ([0.5, 0.5], (1, 2), [" ", "⣿"]),
        ([0.25, 1.0], (1, 1), ["⣸"]),
        ([None, None], (1, 1), [" "]),
        ([0.0, 0.0], (1, 1), [" "]),
        ([1.0], (0, 2), ["", ""]),
        ([1.0], (3, 0), []),
    ],
)
def test_a_plot_fills_dots_from_below(values: list[float | None], size: tuple[int, int], drawn: list[str]) -> None:
    assert plot(values, *size, top=1.0) == drawn


def test_a_plain_plot_needs_letters_only() -> None:
    assert plot([0.25, 0.5, 1.0], 3, 2, top=1.0, plain=True) == ["  #", ":##"]


@pytest.mark.parametrize(
    ("values", "top"),
    [
        ([], 1.0),
        ([None, NAN, INF], 1.0),
        ([0.0], 1.0),
        ([3.0], 5.0),
        ([11.0], 20.0),
        ([100.0], 100.0),
        ([855.0], 1000.0),
    ],
)
def test_the_top_of_a_plot_is_a_round_number(values: list[float | None], top: float) -> None:
    assert ceiling(values) == pytest.approx(top)


def test_stretches_are_told_apart_without_colour() -> None:
    assert stretches([2, 1, 0]) == ["██", "▓", ""]
    assert stretches([2, 1, 0], plain=True) == ["##", "=", ""]
    assert len(set(stretches([1] * 11, plain=True))) == 11


def test_what_is_no_number_is_none() -> None:
    assert [sane(value) for value in (None, NAN, INF, -1.0, 0.5, 3.0)] == [None, None, None, 0.0, 0.5, 1.0]
