"""`gputune runs`: listed, labelled and pruned as a user does it."""

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import Run

ALIKE = ["watch", "--quiet", "--", sys.executable, "-c", "import time; time.sleep(0.4)"]


@pytest.fixture
def two(gputune: Run, tmp_path: Path) -> list[Path]:
    """Two recorded runs, the first of them a month old."""
    for _ in range(2):
        assert gputune(*ALIKE).returncode == 0
    found = sorted(each for each in (tmp_path / "gputune-runs").iterdir() if each.is_dir())
    month = time.time() - 31 * 86400
    for each in [*found[0].rglob("*"), found[0]]:
        os.utime(each, (month, month))
    return found


def test_runs_are_listed_labelled_and_pruned(gputune: Run, two: list[Path], tmp_path: Path) -> None:
    found = json.loads(gputune("runs", "--json").stdout)
    assert [Path(each["folder"]).name for each in found["runs"]] == [each.name for each in two]
    assert [each["state"] for each in found["runs"]] == ["ended", "ended"]
    assert gputune("runs").stdout.count("\n") == 4

    assert gputune("runs", "--set-label", two[0].name, "first").returncode == 0
    assert two[0].name in gputune("runs", "--label", "first").stdout
    stays = gputune("runs", "--prune", "30d", "--yes")
    assert (stays.returncode, stays.stdout) == (0, "nothing was removed\n")
    assert "its label is `first`" in stays.stderr

    gputune("runs", "--set-label", two[0].name, "")
    asked = gputune("runs", "--prune", "30d")
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "--yes" in asked.stderr
    done = json.loads(gputune("runs", "--prune", "30d", "--yes", "--json").stdout)
    assert (done["removed"], [each.exists() for each in two]) == ([two[0].name], [False, True])


def test_a_narrow_terminal_is_not_overrun(gputune: Run, two: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    whole = gputune("runs").stdout
    assert two[0].name in whole  # piped: nobody says how wide it may be
    for columns in (200, 80, 60, 40):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = gputune("runs").stdout.splitlines()
        assert max(map(len, lines[:-1])) <= columns
        assert len(lines) == 4
        assert two[0].name[:15] in lines[1]


def test_a_terminal_is_asked(two: list[Path], tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "gputune", "runs", "--prune", "30d"]
    for answer, left in (("n", True), ("y", False)):
        with subprocess.Popen(
            command, cwd=tmp_path, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as it:
            os.write(ours, f"{answer}\n".encode())
            _out, said = it.communicate(timeout=120)
        assert b"remove 1 run" in said
        assert two[0].exists() is left
    os.close(ours)
    os.close(theirs)


def test_no_repository_takes_the_runs_in(two: list[Path], tmp_path: Path, gputune: Run) -> None:
    ignore = tmp_path / "gputune-runs" / ".gitignore"
    assert ignore.read_text() == "*\n"
    ignore.unlink()
    gputune(*ALIKE)
    assert not ignore.exists()  # the folder was there already: whoever took it away wanted that


def test_a_command_that_cannot_be_started_leaves_nothing(gputune: Run, tmp_path: Path) -> None:
    assert gputune("watch", "--", "no-such-command-here").returncode == 127
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "cannot be listed"),
        (("--finding", "no-such"), "no-such"),
        (("--prune", "soon"), "is not a time"),
        (("--set-label", "nowhere", "x"), "is no run folder"),
        (("empty",), "holds no run"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(gputune: Run, tmp_path: Path, arguments, says: str) -> None:
    (tmp_path / "empty").mkdir()
    done = gputune("runs", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


def test_no_file_makes_a_list_remove_what_it_lists(gputune: Run, two: list[Path], tmp_path: Path) -> None:
    (tmp_path / "gputune.toml").write_text('[runs]\nprune = "1s"\nyes = true\n')
    done = gputune("runs")
    assert done.returncode == 2
    assert "from the command line only" in done.stderr
    assert all(each.exists() for each in two)
