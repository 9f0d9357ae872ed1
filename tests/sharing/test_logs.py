"""Logs are read while they grow: whole lines, numbers of a metric, and nothing that could write a terminal."""

from pathlib import Path

import pytest

from gputune.core.errors import BadUsage
from gputune.launch.output import tail
from gputune.sharing.logs import Log, LoggedPace, painted
from gputune.sharing.metric import metric


def test_only_whole_lines_are_read_until_the_end(tmp_path: Path) -> None:
    file = tmp_path / "log"
    log = Log(str(file))
    assert log.lines() == []
    file.write_bytes(b"one\ntw")
    assert log.lines() == ["one"]
    with file.open("ab") as more:
        more.write(b"o\r 50%\rthr\xff")
    assert log.lines() == ["two", " 50%"]
    assert log.rest() == ["thr\N{REPLACEMENT CHARACTER}"]


@pytest.mark.parametrize("text", ["(", "no group"])
def test_a_pattern_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(BadUsage, match="metric-regex"):
        metric(text)


def test_a_metric_has_a_mean_since_a_moment() -> None:
    found = LoggedPace()
    assert found.pace() is None
    found.take(10.0)
    found.mark()
    found.take(20.0)
    found.take(30.0)
    now, whole = found.pace(), found.mean()
    assert now is not None
    assert whole is not None
    assert (now.rate, whole.rate, found.count) == (25.0, 20.0, 2)


def test_each_process_has_a_colour() -> None:
    assert painted("0 | x", 0) != painted("0 | x", 1)
    assert painted("0 | x | y", 0).endswith("\x1b[0mx | y")


def test_of_a_long_log_the_end_is_read_and_of_one_that_is_gone_nothing(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"a long beginning, and the end")
    assert (tail(file, 3), tail(file, 1000)) == (b"end", file.read_bytes())
    assert tail(tmp_path / "none", 3) == b""
