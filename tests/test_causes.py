"""The checklist that gputune comes from is covered, and docs/causes.md says by whom."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def causes(docs_script: Callable[[str], ModuleType]) -> ModuleType:
    """The script that writes the page."""
    return docs_script("causes")


def test_every_line_leads_to_an_advisor(causes: ModuleType) -> None:
    assert [line for line, advisors in causes.covered().items() if not advisors] == []


def test_the_page_is_what_the_advisors_say(causes: ModuleType) -> None:
    assert (DOCS / "causes.md").read_text(encoding="utf-8") == causes.page(), "run `make causes`"


def test_a_line_that_does_not_exist_is_refused(causes: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(causes.LINES, "1.4")
    with pytest.raises(ValueError, match=r"few_workers.*'1\.4'"):
        causes.covered()
