"""A probe, an advisor, a command, an exporter, a page and a renderer are one file each: put into a tree, they work."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "gputune"
FAKE_TORCH = Path(__file__).parent / "guest" / "fake_torch"
TRAIN = """
import torch, time
from torch.utils.data import DataLoader

class Numbers:
    def __len__(self): return 400
    def __getitem__(self, index): return index

optimizer = torch.optim.Optimizer()
for batch in DataLoader(Numbers(), batch_size=4):
    time.sleep(0.01)
    torch.autograd.backward()
    optimizer.step()
"""
ADDED = {
    "probes": '''"""How high the water stands."""

from gputune.core.sample import Metric, Sample, Target, Ticks, now

TIDE = Metric("tide.level", "m", "Height of the water.")
METRICS = (TIDE,)


def attach(target: Target) -> Ticks:
    while True:
        yield [Sample(TIDE, now(), 2.5)]
''',
    "advisors": '''"""The tide is high."""

from gputune.core.finding import Finding, Speedup


def advise(run):
    yield Finding(id="tide", says="the water stands high", do="wait", share_lost=0.5, basis="predicted",
                  falsified_by="ebb", effect="identical", speedup=Speedup(low=1.5, likely=2.0, high=3.0),
                  evidence={"level": 2.5})
''',
    "commands": '''"""Say how high the water stands."""

import click


@click.command(short_help=__doc__)
def command() -> int:
    click.echo("2.5 m")
    return 0
''',
    "exporters": '''"""To the harbour."""

from gputune.exporters import ExportRequest, Sent

TAKES = frozenset()
NEEDS = ()


def export(wish: ExportRequest) -> Sent:
    return Sent(to="tide", where="harbour")
''',
    "tui/pages": '''"""How high the water stands at a node."""

from gputune.tui.lines import Lines, line
from gputune.tui.views import PageKind

PAGE = PageKind(
    lambda scene: Lines((line((f"2.5 m at {scene.node.name}", "title")),), ()),
    of="node",
    help=(("tide", ""), ("y", "how high the water stands")),
    below="node",
    letter="y",
    says="tide",
)
''',
    "html/renderers": '''"""A tide table."""

from pathlib import Path


def read(folder: Path) -> str | None:
    table = folder / "tide.txt"
    return table.read_text() if table.is_file() else None


def words(found: str) -> str:
    return f"high water: {found}"


def document(found: str) -> bytes:
    return b'{"high": 2.5}'
''',
}
SHOWN = """
import asyncio
from gputune.feeds.rows import Node, Update
from gputune.tui.app import Gputune
from gputune.tui.sheet import Sheet

class Told:
    def poll(self, since): return Update(until=1, nodes=(Node(name="m8"),))
    def look_at(self, node, span): pass
    def close(self): pass

async def played():
    app = Gputune(Told)
    async with app.run_test(size=(100, 60)) as pilot:
        async def until(shown):
            sheet = app.query_one(Sheet)
            while shown not in (text := "\\n".join(sheet.render_line(y).text for y in range(60))):
                await pilot.pause(0.01)
            return text
        assert "y tide" in await until("m8")
        await pilot.press("y")
        print(await until("2.5 m at m8"))
        await pilot.press("question_mark")
        print(await until("how high the water stands"))

asyncio.run(asyncio.wait_for(played(), 60))
"""


def laid(package: Path, source: Path, added: dict[str, str]) -> None:
    """Lay a package out as links to the files of another, with more files in folders of it."""
    package.mkdir()
    inner = {room.partition("/")[0] for room in added}
    for entry in source.iterdir():
        if entry.name not in inner:
            (package / entry.name).symlink_to(entry.resolve())
    for name in inner:
        below = {room.partition("/")[2]: text for room, text in added.items() if room.partition("/")[0] == name}
        text = below.pop("", None)
        laid(package / name, source / name, below)
        if text is not None:
            (package / name / "tide.py").write_text(text)


@pytest.fixture
def added(tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Return a function that runs gputune, or a script, of a tree with six more files in it and nothing else new."""
    package = tmp_path / "tree" / "gputune"
    package.parent.mkdir()
    laid(package, ROOT, ADDED)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")}
    environment = {
        **plain,
        "PYTHONPATH": os.pathsep.join((str(package.parent), str(FAKE_TORCH))),
        "PYTHONDONTWRITEBYTECODE": "1",
    }

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, *(() if arguments[0] == "-c" else ("-m", "gputune")), *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    return run


def test_each_is_found_by_its_folder(added: Callable[..., "subprocess.CompletedProcess[str]"], tmp_path: Path) -> None:
    assert added("tide").stdout == "2.5 m\n"
    assert "tide" in added("--help").stdout
    assert added("explain", "tide").stdout.startswith("The tide is high.")
    (tmp_path / "train.py").write_text(TRAIN)
    done = added("watch", "--quiet", "--out", "run", "--json-file", "verdict.json", "--", sys.executable, "train.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert "tide" in [finding["id"] for finding in json.loads((tmp_path / "verdict.json").read_text())["findings"]]
    assert added("export", "run", "--to", "tide").stdout == "harbour\n"
    assert added("export", "run", "--to", "csv").returncode == 0
    assert "2.5" in "".join(file.read_text() for file in (tmp_path / "run" / "csv").glob("samples*.csv"))


def test_a_page_is_opened_by_its_letter(added: Callable[..., "subprocess.CompletedProcess[str]"]) -> None:
    done = added("-c", SHOWN)
    assert done.returncode == 0, done.stderr
    assert "2.5 m at m8" in done.stdout


def test_what_a_renderer_knows_is_shown_as_words_a_document_and_a_page(
    added: Callable[..., "subprocess.CompletedProcess[str]"], tmp_path: Path
) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "tide.txt").write_text("2.5 m <b>")
    assert added("report", "table", "--html", "page.html").stdout == "high water: 2.5 m <b>\n"
    assert added("report", "table", "--json").stdout == '{"high": 2.5}'
    assert "high water: 2.5 m &lt;b&gt;" in (tmp_path / "page.html").read_text()
