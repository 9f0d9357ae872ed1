"""`gputune export`: what is typed, what is answered, and that a new exporter is one file."""

import json
from pathlib import Path

import pytest

from gputune import exporters
from tests.conftest import Run


@pytest.fixture
def trained(gputune: Run, tmp_path: Path) -> Path:
    """Return the folder of a run that trained nothing, and lasted long enough to be read."""
    assert gputune("watch", "--quiet", "--out", "run", "--", "sleep", "1").returncode == 0
    return tmp_path / "run"


def test_help_and_completion_list_the_folder(gputune: Run) -> None:
    text = " ".join(gputune("export", "--help").stdout.split())
    assert exporters.names()
    for name, about in exporters.about().items():
        assert f"{name} {about}" in text
    words = {"COMP_WORDS": "gputune export run --to ", "COMP_CWORD": "4", "_GPUTUNE_COMPLETE": "bash_complete"}
    assert gputune(**words).stdout.splitlines() == [f"plain,{name}" for name in exporters.names()]


def test_where_it_went_is_on_stdout(gputune: Run, trained: Path) -> None:
    done = gputune("export", "run", "--to", "csv")
    assert (done.returncode, done.stdout, done.stderr) == (0, "run/csv\n", "")
    document = json.loads(gputune("export", "run", "--to", "perfetto", "--json").stdout)
    assert (document["to"], document["where"]) == ("perfetto", "run/perfetto.json.gz")
    assert (trained / "perfetto.json.gz").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("words", "says", "hint"),
    [
        (("--to", "nowhere"), "`--to nowhere` is nowhere that a run can be taken to", "`--to` takes "),
        (("--to", "csv", "--to", "6m"), "`--to 6m` is nowhere", "`--until 6m`"),
        (("--to", "perfetto", "--from", "9", "--until", "5"), "`--from 9` is not before `--until 5`", "like"),
        (("--to", "perfetto", "--from", "1h"), "`--from 3600` lies behind the end of the run", "without it"),
        (("--to", "perfetto", "--from", "soon"), "`--from soon` is no time", "like `--from 5m`"),
        (("--to", "perfetto", "--out", "no/such/file"), "lies in `no/such`, which does not exist", "name a file"),
    ],
)
def test_what_cannot_be_is_said(gputune: Run, trained: Path, words: tuple[str, ...], says: str, hint: str) -> None:
    done = gputune("export", trained.name, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert hint in done.stderr.partition("hint: ")[2]


def test_what_is_no_run_is_said(gputune: Run, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "it has no `run.json`" in gputune("export", "empty", "--to", "csv").stderr
    (tmp_path / "file").touch()
    done = gputune("export", "file", "--to", "csv")
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "error: `file` is no run folder: Not a directory")
    story = json.loads((trained / "run.json").read_text())
    (trained / "run.json").write_text(json.dumps({**story, "schema_version": 99}))
    newer = gputune("export", "run", "--to", "csv")
    assert (newer.returncode, "schema version 99" in newer.stderr) == (1, True)


def test_an_option_that_has_to_be_there_is_named(gputune: Run) -> None:
    done = gputune("export", "run")
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "error: missing option `--to`")


def test_a_run_in_which_nothing_was_read_is_said(gputune: Run) -> None:
    assert gputune("watch", "--quiet", "--out", "run", "--", "true").returncode == 0
    done = gputune("export", "run", "--to", "perfetto")
    assert (done.returncode, "holds no readings" in done.stderr) == (1, True)
