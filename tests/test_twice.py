"""A failure counts when it comes twice: `twice.py` with a pytest that we script, and once with the real one."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import twice


class Scripted:
    """A pytest that leaves as it is told: for each run its status, and what it holds as failed then."""

    def __init__(self, *runs: tuple[int, list[str]]) -> None:
        self._runs = list(runs)
        self.asked: list[list[str]] = []

    def __call__(self, arguments: Sequence[str]) -> int:
        self.asked.append(list(arguments))
        status, failed = self._runs.pop(0)
        cache = Path(arguments[1].removeprefix("cache_dir=")) / "v" / "cache"
        cache.mkdir(parents=True, exist_ok=True)
        (cache / "lastfailed").write_text(json.dumps(dict.fromkeys(failed, True)))
        return status


MANY = [f"test_{n}" for n in range(twice.MOST + 1)]


@pytest.mark.parametrize(
    ("runs", "status", "noted"),
    [
        ([(0, [])], 0, False),
        ([(1, ["a", "b"]), (0, [])], 0, True),
        ([(1, ["a", "b"]), (1, ["b"])], 1, False),  # it failed twice
        ([(1, ["a", "b"]), (0, ["b"])], 1, False),  # it was not even run again
        ([(1, ["a"]), (5, ["a"])], 1, False),  # none was found again
        ([(1, MANY)], 1, False),
        ([(1, MANY[1:]), (0, [])], 0, True),
        ([(1, [])], 1, False),  # pytest was killed before it could say what failed
        ([(2, ["a"])], 2, False),  # a file that cannot be imported
        ([(3, ["a"])], 3, False),
        ([(-9, [])], -9, False),
    ],
)
def test_only_what_passes_alone_is_forgiven(tmp_path, runs, status, noted) -> None:
    notes = tmp_path / "made" / "notes"
    scripted = Scripted(*runs)
    assert twice.twice(notes, ["-n", "3", "tests/x"], scripted) == status
    assert len(scripted.asked) == len(runs)
    assert notes.exists() is noted
    if len(runs) > 1:
        assert "--last-failed" in scripted.asked[1]
        assert "--last-failed" not in scripted.asked[0]
        assert "tests/x" in scripted.asked[1]
        assert scripted.asked[1].index("0") > scripted.asked[1].index("3")  # the latter holds: one at a time


def test_what_an_earlier_run_noted_is_forgotten(tmp_path) -> None:
    (tmp_path / "notes").write_text("old")
    assert twice.twice(tmp_path / "notes", [], Scripted((0, []))) == 0
    assert not (tmp_path / "notes").exists()


def test_the_names_are_said_loudly(tmp_path, capfd) -> None:
    assert twice.twice(tmp_path / "notes", [], Scripted((1, ["one", "two"]), (0, []))) == 0
    assert (tmp_path / "notes").read_text() in capfd.readouterr().out
    assert "2 TESTS NEEDED A SECOND TRY" in (tmp_path / "notes").read_text()
    assert "  two\n" in (tmp_path / "notes").read_text()


FAILS_ONCE = """
from pathlib import Path
import pytest

def test_passes():
    assert not Path("passed").exists()  # it is not run again
    Path("passed").touch()

def test_fails_once():
    again = Path("first").exists()
    Path("first").touch()
    assert again

@pytest.fixture
def left():
    yield
    again = Path("second").exists()
    Path("second").touch()
    assert again

def test_fails_once_behind_itself(left):
    pass
"""


@pytest.mark.parametrize("at_a_time", [[], ["-n", "2"]])
def test_the_real_pytest_runs_its_failures_alone(tmp_path, monkeypatch, capfd, at_a_time) -> None:
    (tmp_path / "test_it.py").write_text(FAILS_ONCE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(tmp_path)
    assert twice.twice(tmp_path / "notes", [*at_a_time, "test_it.py"]) == 0
    said = (tmp_path / "notes").read_text()
    assert "test_it.py::test_fails_once\n" in said
    assert "test_it.py::test_fails_once_behind_itself\n" in said
    assert "test_passes" not in said
    (tmp_path / "test_it.py").write_text("def test_never(): assert False\n")
    assert twice.twice(tmp_path / "notes", ["test_it.py"]) == 1
    assert not (tmp_path / "notes").exists()
    capfd.readouterr()
