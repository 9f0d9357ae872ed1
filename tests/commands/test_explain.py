"""`gputune explain`: an advisor's documentation, and the nearest names where there is none."""

import json

from tests.conftest import Run


def test_prints_the_advisors_documentation(gputune: Run) -> None:
    done = gputune("explain", "few-workers")
    assert done.returncode == 0
    assert "more DataLoader workers" in done.stdout.splitlines()[0]
    assert "When it is wrong" in done.stdout
    assert done.stderr == ""


def test_lists_every_finding_with_one_line(gputune: Run) -> None:
    done = gputune("explain", "--list")
    ids = [line.split()[0] for line in done.stdout.splitlines()]
    assert "few-workers" in ids
    assert ids == sorted(ids)
    assert gputune("explain").stdout == done.stdout


def test_an_unknown_name_gets_the_nearest_ones(gputune: Run) -> None:
    done = gputune("explain", "few-worker")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: no advisor is named `few-worker`\n\nhint: did you mean `few-workers`")


def test_a_name_like_no_other_gets_the_list(gputune: Run) -> None:
    assert "hint: `gputune explain --list`" in gputune("explain", "zzzzzz").stderr


def test_a_name_with_an_escape_sequence_is_shown_harmless(gputune: Run) -> None:
    assert "\x1b" not in gputune("explain", "few\x1b[31m").stderr


def test_answers_in_json_too(gputune: Run) -> None:
    (row,) = json.loads(gputune("explain", "--json", "few_workers").stdout)["findings"]
    assert row["id"] == "few-workers"


def test_a_file_named_for_the_json_of_watch_does_not_disturb(gputune: Run) -> None:
    assert gputune("explain", "few-workers", GPUTUNE_JSON="/nonexistent/x.json").returncode == 0
