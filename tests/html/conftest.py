"""Run folders of every kind, the pages that are made of them, and a browser to look at these."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import chromium
import making

from gputune.html.kinds import page

pytest.importorskip("jinja2", reason="pages need jinja2: `pip install 'gputune[report]'`")


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording of half a minute, not to be changed."""
    return making.recorded(tmp_path_factory.mktemp("recording") / "run")


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[chromium.Chromium]:
    """Return a browser that ends with the test."""
    if not chromium.found():
        pytest.skip("there is no chromium here")
    started = chromium.Chromium(tmp_path / "profile")
    yield started
    started.close()


@pytest.fixture
def made(recording: Path, tmp_path: Path) -> Callable[..., Path]:
    """Make a page of that recording with a verdict of `making.KINDS`, and return its file."""

    def make(kind: str) -> Path:
        file = tmp_path / f"{kind.replace(' ', '-')}.html"
        file.write_bytes(page(recording, "run", making.KINDS[kind]))
        return file

    return make
