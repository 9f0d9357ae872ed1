"""Lines: texts that fit, whatever they are made of."""

import pytest
from rich.cells import cell_len

from gputune.tui.lines import Lines, beside, fit, line, paragraph


@pytest.mark.parametrize(
    ("text", "width", "align", "shown"),
    [
        ("abc", 5, "<", "abc  "),
        ("abc", 5, ">", "  abc"),
        ("abcdef", 4, "<", "abc…"),
        ("abc", 0, "<", ""),
        ("日本語", 4, "<", "日 …"),
        ("日本", 6, ">", "  日本"),
        ("\x1b[31mred", 9, "<", "\\x1b[31m…"),
        ("a\u202eb", 8, "<", "a\\u202eb"),
        ("a\nb", 4, "<", "a\\nb"),
    ],
)
def test_a_text_takes_exactly_its_cells_and_is_harmless(text: str, width: int, align: str, shown: str) -> None:
    assert fit(text, width, align) == shown
    assert cell_len(fit(text, width, align)) == width


def test_lines_are_found_by_their_key() -> None:
    page = Lines([], [line("a"), line("b", key="one"), line("c", key="two"), line("d", key="one")])
    assert (page.find("one"), page.find("two"), page.find("three")) == (1, 2, -1)


def test_blocks_stand_beside_each_other() -> None:
    found = beside([line("ab"), line("c")], [line("x")], 4)
    assert [each.text for each in found] == ["ab    x", "c     "]


def test_a_paragraph_keeps_its_own_lines_and_nothing_harmful() -> None:
    found = paragraph("one two three\nfour\x1b]52;", 9, indent=" ")
    assert [each.text for each in found] == [" one two", " three", " four\\x1b", " ]52;"]
