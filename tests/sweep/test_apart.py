"""What is said of the trials' writing is true: what lies apart, what does not, and when that broke the script."""

import json
from pathlib import Path

import pytest

from gputune.experiment.writable import Writable
from gputune.sweep import apart


def trial(folder: Path, *files: str) -> Path:
    """Make the folder of one trial, with files under the names that the script gave them."""
    own = folder / "writes" / "rings-1"
    own.mkdir(parents=True)
    for file in files:
        there = Path(f"{own}{folder}/{file}")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text("x")
    return folder / "writes"


def unrefused(folder: Path) -> Writable:
    """Where trials write that the system lets write everywhere."""
    return Writable(folder=folder, cwd=str(folder.parent), why="no Landlock")


def test_it_is_said_where_it_lies_and_what_is_not_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = apart.told(unrefused(trial(tmp_path, "ck/last.pt")))
    assert "is in `writes`" in told
    assert told.endswith(apart.NOT)


def test_where_nothing_was_written_nothing_lies_anywhere(tmp_path: Path) -> None:
    told = apart.told(unrefused(trial(tmp_path)))
    assert "`" not in told
    assert told.endswith(apart.NOT)


def test_without_a_guest_nothing_was_kept_apart(tmp_path: Path) -> None:
    assert apart.told(unrefused(tmp_path / "writes")).startswith(
        "nothing that the script writes in its trials was kept apart"
    )


def test_what_went_astray_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    writes = trial(tmp_path, "a")
    lines = [{"kind": "program", "name": f"p{n}"} for n in (1, 1, 2, 3, 4, 5)]
    lines += [{"kind": "database", "name": f"{tmp_path}/x.db"}, {"kind": "odd", "name": "no"}]
    text = "\n".join([*(json.dumps(line) for line in lines), "[1]", '{"kind": "pro'])
    (writes / "rings-1.astray").write_text(text)
    told = apart.told(unrefused(writes))
    assert told.endswith("(it started `p1`, `p2`, `p3` and 2 more; it opened as a database `x.db`)")


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("FileNotFoundError: [Errno 2] No such file or directory: 'ck/last.pt'", "ck/last.pt"),
        ("RuntimeError: Parent directory ck does not exist.", "ck"),
        ("OSError: cannot open {here}/ck/last.pt\n(a second line)", "{here}/ck/last.pt"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'there.txt'", ""),
        ("ValueError: last.pt . / '' are bad", ""),
        ("", ""),
    ],
)
def test_a_script_that_misses_what_it_wrote_is_known_by_its_last_words(tmp_path: Path, said: str, name: str) -> None:
    writes = trial(tmp_path, "ck/last.pt", "there.txt")
    (tmp_path / "there.txt").write_text("the user's own")
    log = tmp_path / "1.log"
    log.write_text("Traceback (most recent call last):\n" + said.format(here=tmp_path) + "\n")
    assert apart.missed(log, writes, str(tmp_path)) == name.format(here=tmp_path)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("OSError: [Errno 2] cannot open (name = '../../there.txt', errno = 2)", "../../there.txt"),
        ("cat: ../../there.txt: No such file or directory", "../../there.txt"),
        ("cat: ../../none.txt: No such file or directory", ""),
        ("cat: ../there.txt: No such file or directory", ""),
        ("ValueError: ../../there.txt is no JSON", ""),
    ],
)
def test_what_lies_beside_a_folder_of_the_trial_s_is_known_to_be_missed(tmp_path: Path, said: str, name: str) -> None:
    writes = trial(tmp_path, "runs/one/log.txt")
    (tmp_path / "there.txt").write_text("the user's own")
    (log := tmp_path / "1.log").write_text(said + "\n")
    assert apart.mislaid(log, writes) == ""
    (writes / "rings-1.astray").write_text(json.dumps({"kind": "inside", "name": f"{tmp_path}/runs/one"}))
    assert apart.mislaid(log, writes) == name
    assert (f"looked for `{name}`" in apart.reason(log, unrefused(writes))) is bool(name)
    assert "runs" not in apart.told(unrefused(writes))


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (
            "PermissionError: [Errno 13] Failed to open local file 'mine.pq'. Detail: [errno 13] Permission denied",
            0,
        ),
        (
            "OSError: [Errno 13] Unable to open file (name = 'mine.h5', errno = 13, message = 'Permission denied')",
            0,
        ),
        ("rm: cannot remove 'mine': Permission denied", 0),
        ("sh: 1: cannot create {here}/mine.log: Permission denied", 0),
        ("PermissionError: [Errno 13] Permission denied: '/dev/shm/x.pt'", None),
        ("PermissionError: [Errno 13] Permission denied: '{here}/none/x.pt'", None),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'mine.parquet'", None),
        ("PermissionError: Permission denied (publickey).", None),
        ("sqlite3.OperationalError: attempt to write a readonly database", "mine.db"),
    ],
)
def test_what_a_trial_was_refused_is_known_by_its_words(tmp_path: Path, said: str, name: str | int | None) -> None:
    writes = trial(tmp_path)
    (tmp_path / "mine").write_text("x")
    (writes / "rings-1.astray").write_text(json.dumps({"kind": "database", "name": f"{tmp_path}/mine.db"}))
    (log := tmp_path / "1.log").write_text(said.format(here=tmp_path) + "\n")
    found = list(apart.refused(log, Writable(folder=writes, cwd=str(tmp_path), places=("/dev", str(writes)))))
    assert [Path(each).name.startswith("mine") for each in found] == ([] if name is None else [True])
    assert not list(apart.refused(log, unrefused(writes)))
