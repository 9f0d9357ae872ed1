"""The last words of a command that failed."""

import os
from pathlib import Path

import pytest

from gputune.feeds.endings import LINES, last_words, told

TRACE = """Traceback (most recent call last):
  File "train.py", line 22, in <module>
    main()
RuntimeError: the disk is full
"""
REPORT = """gputune: the command goes on; its output is in run.log
gputune: python train.py · 21.5 s
   Simulated GPU 30% busy · exit status 1
next: gputune report run
"""


def test_the_error_itself_is_told_and_not_what_gputune_said_after_it() -> None:
    assert told("epoch 1\nepoch 2\n" + TRACE + REPORT) == TRACE.splitlines()


def test_of_several_tracebacks_the_last_one_counts() -> None:
    assert told(TRACE.replace("disk", "pipe") + "trying again\n" + TRACE)[-1] == "RuntimeError: the disk is full"


def test_without_a_traceback_it_is_what_the_command_wrote_last() -> None:
    assert told("gputune: loading\nepoch 1\nBus error\n" + REPORT) == ["gputune: loading", "epoch 1", "Bus error"]
    assert told("epoch 1\nterminate called") == ["epoch 1", "terminate called"]
    assert told("") == told(REPORT) == []


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a log of much that ends in a traceback."""
    file = tmp_path / "run.log"
    file.write_bytes(b"step\r" * 200_000 + b"\xff\x1b[2J hf_abcdefghijklmnopqrstuv\n" + TRACE.encode() + b"x" * 10_000)
    return file


def test_a_long_log_costs_its_end_alone_and_can_do_no_harm(log: Path) -> None:
    words = last_words(log)
    assert len(words) <= LINES
    assert words[-2] == "RuntimeError: the disk is full"
    assert len(words[-1]) == 200
    log.write_text("\x1b]52;c;eA==\x07 token=hf_abcdefghijklmnopqrstuv")
    assert last_words(log) == ("\\x1b]52;c;eA==\\x07 token=***",)


def test_what_is_no_log_of_ours_is_not_read(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = log.with_name("id_rsa")
    log.rename(other)
    assert last_words(other) == last_words(log) == ()
    log.symlink_to(other)
    assert last_words(log) == ()
    log.unlink()
    os.mkfifo(log)
    assert last_words(log) == ()
    log.unlink()
    other.rename(log)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert last_words(log) == ()
