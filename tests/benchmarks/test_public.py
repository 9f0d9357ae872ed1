"""Public scripts: the table, what is compared of their output, and a whole judgement of one in a made-up repository."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tomllib", reason="the table is read with Python 3.11")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))  # as for a script that lies there

import public  # noqa: E402 - it is found from here on
import public_page  # noqa: E402 - as above
import public_run  # noqa: E402 - as above
import public_source  # noqa: E402 - as above
import public_table  # noqa: E402 - as above

TRAINING = """import sys, time
for step in range(3):
    print(f"step {step} took {time.perf_counter_ns()} ns")
print("loss", PACE, file=sys.stderr)
"""
# stands for `gputune watch --quiet --json FILE --out DIR -- COMMAND`
WATCHER = """import json, subprocess, sys
from pathlib import Path
words = sys.argv[1:]
found = {"low": 1.1, "likely": 1.2, "high": 1.3}
finding = {"id": "few-workers", "speedup": found, "risk": False, "offer": False, "change": {}, "says": "", "do": ""}
Path(words[words.index("--json") + 1]).write_text(json.dumps({"findings": [finding], "perhaps": [], "abstained": ""}))
done = subprocess.run(words[words.index("--") + 1 :])
%s
sys.exit(done.returncode)
"""


def line(text: str, at: float = 0.0) -> public_run.Line:
    return public_run.Line(at, text)


def ran(*out: public_run.Line, status: int = 0) -> public_run.Ran:
    return public_run.Ran(status, list(out), [], 1.0, 0.0, 0.0)


@pytest.fixture
def script(tmp_path: Path) -> public_table.Script:
    """A repository with one training, and a data file that it does not read."""
    repository = tmp_path / "sources" / "owner" / "name"
    repository.mkdir(parents=True)
    (repository / "train.py").write_text(TRAINING.replace("PACE", "1"))
    me = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], [*me, "commit", "-qm", "a"]):
        subprocess.run(["git", "-C", str(repository), *words], check=True)
    head = subprocess.run(
        ["git", "-C", str(repository), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    )
    return public_table.Script(
        name="a training",
        repository="owner/name",
        commit=head.stdout.strip(),
        command=["train.py"],
        data=[["data/words.txt", "text.py", "--words=30"]],
        clock="^step",
        mask=[r"\d+ ns"],
        fix=public_table.Fix(
            what="pace 2",
            causes=["few-workers"],
            patch=[{"file": "train.py", "old": '"loss", 1', "new": '"loss", 2'}],
        ),
    )


def place(tmp_path: Path, after: str = "") -> public.Place:
    """Return a place with a watcher that does `after` once the command has ended."""
    watcher = tmp_path / "watcher"
    watcher.write_text(f"#!{sys.executable}\n" + WATCHER % after)
    watcher.chmod(0o755)
    return public.Place(tmp_path / "work", Path(sys.executable), str(watcher), tmp_path / "sources", None, 2)


def test_the_table_has_whole_commits_generators_that_are_there_and_fixes_that_change_something() -> None:
    for script in public_table.read():
        fix = script.fix
        for _, generator, *_ in [*script.data, *(fix.data if fix else ())]:
            assert (public_source.GENERATORS / generator).exists()
        assert fix is None or (fix.causes and (fix.command or fix.environment or fix.patch or fix.data)), script.name


@pytest.mark.parametrize("commit", ["main", "0" * 39])
def test_a_commit_that_is_none_is_refused(tmp_path: Path, commit: str) -> None:
    table = tmp_path / "scripts.toml"
    table.write_text(f'[[script]]\nname = "a"\nrepository = "a/b"\ncommit = "{commit}"\ncommand = ["a.py"]\n')
    with pytest.raises(ValueError, match="no whole commit"):
        public_table.read(table)


def test_a_loop_lasts_from_the_first_line_of_the_clock_to_the_last_of_either_stream() -> None:
    both = public_run.Ran(
        0, [line("start", 0.5), line("step 0", 1.0)], [line("step 1", 4.0), line("end", 9.0)], 10.0, 0, 0
    )
    assert both.loop_s("^step") == 3.0
    assert both.loop_s("^epoch") is None


def test_what_a_mask_matches_and_what_is_skipped_is_not_compared(script: public_table.Script) -> None:
    assert public.difference(script, ran(line("step 0 took 12 ns")), ran(line("step 0 took 99 ns"))) == ""
    assert "'step 1" in public.difference(script, ran(line("step 0 took 12 ns")), ran(line("step 1 took 12 ns")))
    assert public.difference(script, ran(line("a")), ran(line("a"), line("b"))).endswith("'b' instead of '(nothing)'")
    assert public.difference(script, ran(line("a")), ran(line("a"), status=1)) == "status 1 instead of 0"


def test_a_turn_holds_the_lock_and_nobody_else_does(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with public_run.Turn(path), path.open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_gain_read_off_runs_that_others_disturbed_is_marked(tmp_path: Path, script: public_table.Script) -> None:
    row = public.judged(script, place(tmp_path))
    for run in row.runs:
        run["foreign"] = 0.0
    assert "†" not in public_page.line(row)
    row.runs[-1]["foreign"] = 0.5
    assert "†" in public_page.line(row)
    assert "‡" not in public_page.line(row)
    row.again = True
    assert "‡" in public_page.line(row)


def test_a_patch_whose_text_is_not_there_once_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    with pytest.raises(ValueError, match="2 times"):
        public_source.patch(tmp_path, [{"file": "a.py", "old": "x = 1", "new": "x = 2"}])


def test_a_script_is_run_bare_watched_and_fixed_and_held_against_its_promise(
    tmp_path: Path, script: public_table.Script
) -> None:
    row = public.judged(script, place(tmp_path))
    assert (row.missing, row.output, row.control) == ("", "", "")
    assert [run["kind"] for run in row.runs] == ["bare", "watched", "fixed", "bare", "bare", "fixed", "bare"]
    assert len(row.gains) == 2
    assert "×1.20 (1.10–1.30)" in public_page.line(row)
    assert (tmp_path / "work" / "trees" / "a-training" / "data" / "words.txt").read_text()


@pytest.mark.parametrize("after", ['print("gputune was here")', 'print("gputune was here", file=sys.stderr)'])
def test_a_word_more_in_the_watched_output_is_told(tmp_path: Path, script: public_table.Script, after: str) -> None:
    row = public.judged(script, place(tmp_path, after))
    assert "gputune was here" in row.output
    assert "DIFFERS" in public_page.line(row)
    assert "watched, 1 differ" in public_page.totals([row])[0]


def test_a_status_that_watching_changes_is_told(tmp_path: Path, script: public_table.Script) -> None:
    assert public.judged(script, place(tmp_path, "sys.exit(3)")).output == "status 3 instead of 0"


def test_what_cannot_run_here_is_listed_with_the_reason(tmp_path: Path, script: public_table.Script) -> None:
    where = place(tmp_path)
    lacking = public_table.Script(**{**vars(script), "needs": ["no-such-package-anywhere>=2"]})
    elsewhere = public_table.Script(**{**vars(script), "repository": "owner/other"})
    broken = public_table.Script(**{**vars(script), "command": ["other.py"]})
    reasons = [public.judged(one, where).missing for one in (lacking, elsewhere, broken)]
    assert reasons[0] == "not installed: no-such-package-anywhere"
    assert reasons[1].startswith("no git directory of owner/other")
    assert "other.py" in reasons[2]
    page = public_page.document([public.judged(elsewhere, where)], ["another"])
    assert "Not run yet: another." in page
    assert "## What did not run here" in page
    assert "owner/other" in page
