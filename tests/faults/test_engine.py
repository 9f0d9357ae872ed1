"""The suite notices who fails, dies or hangs; a case is the same each time, and a full run goes on where it was."""

import dataclasses
import re
import threading
from pathlib import Path

import psutil
import pytest

from tests.faults import page, row, trying
from tests.faults.ledger import Ledger
from tests.faults.rows import files, nvml
from tests.faults.trying import Result, results

ROW = '''"""What is tried here does as it is told.

More of it.
"""
import contextlib, os, signal, time
from tests.faults.row import Broken, NotHere
TESTS, QUICK, FULL, SHARE, SECONDS, FIGURE = "none", 6, 10, 3, 2.0, "the number"

def kept(number): return float(number)
def broken(number): raise Broken("as it was told to")
def wrong(number): return 1 / 0
def dies(number): os.kill(os.getpid(), signal.SIGSEGV)
def leaves(number): os._exit(7)
def hangs(number): time.sleep(1000)

@contextlib.contextmanager
def bench(folder):
    if (folder.parent.parent / "nothing").exists(): raise NotHere("nothing is here")
    yield lambda number: (kept, broken, wrong, dies, leaves, hangs)[number % 6](number)
'''


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> row.Row:
    """A row whose cases do what their numbers say, found by a bench of its own."""
    place = tmp_path / "tests" / "faults" / "rows"
    place.mkdir(parents=True)
    for file in row.HERE.glob("*.py"):
        (place.parent / file.name).symlink_to(file)
    (place / "told.py").write_text(ROW)
    monkeypatch.setattr(trying, "ROOT", tmp_path)
    scope: dict[str, object] = {}
    exec(ROW, scope)
    return row.Row(
        name="told",
        promise="It does as it is told",
        tests="",
        quick=6,
        full=10,
        share=3,
        seconds=2.0,
        figure="f",
        bench=scope["bench"],
    )


def test_who_fails_dies_or_hangs_is_told_and_the_next_case_goes_on(told: row.Row) -> None:
    found = {one.case: one.why for one in results(told, range(7))}
    assert found[0] == found[6] == ""
    assert found[1] == "as it was told to"
    assert found[2] == "ZeroDivisionError: division by zero"
    assert found[3].startswith("the process died (SIGSEGV)")
    assert found[4].startswith("the process died (status 7)")
    assert found[5].startswith("hangs: no answer within 2 s")


def test_who_is_stopped_leaves_nothing_and_what_was_tried_is_kept(
    told: row.Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = threading.Event()
    monkeypatch.setattr(trying, "STOP", stop)
    patient = dataclasses.replace(told, seconds=1000.0)
    found = results(patient, (0, 1, 5, 0))  # the third hangs for so long
    kept = [next(found), next(found)]
    (bench,) = psutil.Process().children()
    threading.Timer(0.1, stop.set).start()
    assert list(found) == []
    assert [one.case for one in kept] == [0, 1]
    assert not bench.is_running()


def test_a_case_is_decided_by_its_number() -> None:
    assert files.program(17) == files.program(17)
    assert files.program(17) != files.program(18)
    each = row.row("files")
    assert each.sample() == each.sample()
    assert len(each.sample()) == each.share
    assert each.sample() != each.sample(seed=1)


def test_every_row_says_what_it_promises_and_how_often() -> None:
    for each in map(row.row, row.names()):
        assert 20 < len(each.promise) < 200, each.name
        assert 0 <= each.share <= each.quick <= each.full, each.name
        assert (row.HERE.parents[1] / each.file).is_file()
        folder = "benchmarks"
        for named in re.findall(r"[\w/]+\.py", each.tests):  # a name without a folder is in the last one's
            folder = named.rpartition("/")[0] or folder
            file = Path(folder, named.rpartition("/")[2])
            assert any((base / file).is_file() for base in (row.HERE.parent, row.HERE.parents[1])), named


def test_the_calls_of_nvml_that_are_tried_are_those_that_gputune_makes() -> None:
    source = "".join(file.read_text() for file in (row.HERE.parents[1] / "gputune" / "nvml").glob("*.py"))
    made = {plain(name) for name in re.findall(r"nv(?:ml)?\.(nvml(?:Device|System|Event|Gpm|Init)\w*)", source)}
    tried = {plain(name) for name in (*nvml.BY_DEVICE, *nvml.OF_ALL)}
    assert {name for name in tried if name not in source} == set()
    of_parts = {"nvmlDeviceGetMigDeviceHandleByIndex"}  # of a card that is in parts
    assert {name for name in made if not name.startswith("nvmlEventType")} - tried <= of_parts


def plain(name: str) -> str:
    """Return what a call is called in all its versions."""
    return re.sub(r"_(?:v\d|t)?$", "", name)


def test_results_are_kept_and_a_run_goes_on_from_them(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    assert ledger.told("a").next == 0
    ledger.put("a", [Result(0, ""), Result(1, "broken", 2.0)])
    ledger.put("a", [Result(2, "", 7.0)])
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write('{"first": 3, "la')  # stopped in the middle of a line
    again = Ledger(tmp_path).told("a")
    assert (again.count, again.next, again.failed, again.figure) == (3, 3, {1: "broken"}, 7.0)
    Ledger(tmp_path).put("b", [], not_here="no card")
    assert Ledger(tmp_path).told("b").not_here == "no card"


def test_the_page_holds_what_was_counted(tmp_path: Path) -> None:
    Ledger(tmp_path / "quick").put("files", [Result(n, "x" if n == 3 else "") for n in range(1234)])
    page.write(tmp_path / "page.md", tmp_path)
    (line,) = (line for line in (tmp_path / "page.md").read_text().splitlines() if "rows/files.py" in line)
    assert "| 1,234 | 1 |" in line
