"""The short road and the ordinary road of the command line lead to the same wishes."""

import os

import pytest

from gputune import cli
from gputune.launch import express
from gputune.launch.link import PipeEnd
from gputune.launch.run import ASKED, WatchOptions
from gputune.watching import starting

PLAIN = [
    ["--", "python", "train.py"],
    ["python", "train.py", "--hz", "3", "--", "x"],
    ["--out", "run", "--", "x"],
    ["--out=run", "--hz", "2.5", "--json", "-", "x"],
    ["--hz=0.5", "--quiet", "--no-stacks", "--all-devices", "--passive", "--", "--odd-name"],
    ["--json=v.json", "--", "x", "--quiet"],
    ["--out", "--quiet", "--", "x"],
    ["--out", "a--", "--", "x"],
    ["--export", "perfetto", "--", "x"],
    ["--export=csv,perfetto", "x"],
    ["--price", "2.50", "--", "x"],
    ["--fail-under", "70", "--stop-when", "starving:90s", "--", "x"],
    ["--tune", "--", "x"],
    ["--tune", "--quiet", "x"],
    ["--tune=identical", "x", "--tune"],
    ["--try", "--quiet", "x"],
    ["--tune=all", "--", "x"],
    ["--perturb", "0.5%", "--", "x"],
    ["--perturb=0", "--", "x"],
    ["--fail-under=12.5%", "--stop-when=starving", "--", "x"],
]
FOR_CLICK = [
    [],
    ["--"],
    ["--help"],
    ["--hz", "0", "--", "x"],
    ["--hz", "nan", "--", "x"],
    ["--hz", "x", "--", "x"],
    ["--hz"],
    ["--price", "free", "--", "x"],
    ["--fail-under", "0", "--", "x"],
    ["--fail-under", "101", "--", "x"],
    ["--stop-when", "hungry", "--", "x"],
    ["--export", "nowhere", "--", "x"],
    ["--export=", "--", "x"],
    ["--stop-when", "starving:", "--", "x"],
    ["--for", "3s", "--", "x"],
    ["--tune"],
    ["--tune", "x"],
    ["--tune", "identical", "--", "x"],
    ["--tune=fast", "--", "x"],
    ["--tune=", "--", "x"],
    ["--price", "-1", "--", "x"],
    ["--perturb", "4", "--", "x"],
    ["--perturb", "1", "--passive", "--", "x"],
    ["--try", "--tune", "--", "x"],
    ["--quie", "--", "x"],
    ["--quiet=1", "--", "x"],
    ["--max-size", "1GiB", "--", "x"],
    ["--out=", "--", "x"],
    ["--out", "--", "x"],
    ["-h"],
]


def ordinary(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> WatchOptions | None:
    got: list[WatchOptions] = []
    monkeypatch.setattr(starting, "watch", lambda wishes, link, troubles: got.append(wishes) or 0)
    cli.run(["watch", *arguments], PipeEnd(-1, -1))
    return got[0] if got else None


@pytest.mark.parametrize("arguments", PLAIN)
def test_both_roads_lead_to_the_same_wishes(arguments, monkeypatch) -> None:
    short, long = express.wishes(arguments), ordinary(arguments, monkeypatch)
    assert [getattr(short, name) for name in ASKED] == [getattr(long, name) for name in ASKED]


@pytest.mark.parametrize("arguments", FOR_CLICK)
def test_what_is_not_plain_takes_the_ordinary_road(arguments) -> None:
    assert express.wishes(arguments) is None


def test_a_setting_in_the_environment_takes_the_ordinary_road(monkeypatch) -> None:
    monkeypatch.setenv("GPUTUNE_WATCH_QUIET", "1")
    assert express.wishes(["--", "x"]) is None


def test_a_nested_watch_may_take_the_short_road(monkeypatch) -> None:
    monkeypatch.setenv("GPUTUNE_RINGS", "/x")
    assert express.wishes(["--", "x"]) is not None


@pytest.mark.parametrize(("name", "text"), [("gputune.toml", ""), ("pyproject.toml", "[tool.gputune]")])
def test_a_setting_in_a_file_takes_the_ordinary_road(tmp_path, monkeypatch, name, text) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path / "below")
    assert express.wishes(["--", "x"]) is None


def test_a_pyproject_that_is_no_file_holds_nobody_up(tmp_path) -> None:
    os.mkfifo(tmp_path / "pyproject.toml")
    assert express.wishes(["--", "x"]) is not None


def test_a_pyproject_of_somebody_else_does_not(tmp_path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.other]")
    assert express.wishes(["--", "x"]) is not None


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (["--tune", "--prove", "top", "--", "x"], True),
        (["--tune=identical", "--prove", "top", "--", "x"], True),
        (["--tune", "identical", "--prove", "top", "--", "x"], True),
        (["--tune", "--", "x", "--prove"], False),
        (["--tune", "x", "--prove", "top"], True),  # a value that is none, which click will say
    ],
)
def test_an_option_is_found_behind_one_that_needs_no_value(arguments, asked) -> None:
    assert express.asks(arguments, "--prove") is asked
