"""What is written to a terminal that reads, that takes nothing any more, and that has vanished."""

import os
import pty
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from gputune.tui.output import Output

PATIENCE = 60.0  # s
MORE = 1 << 20  # characters: more than any terminal keeps for who does not read


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Return both sides of a terminal; a test may close the first."""
    master, slave = pty.openpty()
    yield master, slave
    os.close(slave)
    with suppress(OSError):
        os.close(master)


def test_text_comes_when_it_is_flushed_or_is_much(terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputune.tui.output.KEPT_CHARS", 10)
    master, slave = terminal
    output = Output(slave)
    assert output.write("déjà") == 4
    output.flush()
    assert os.read(master, 100) == "déjà".encode()
    output.write("much" * 3)
    assert os.read(master, 100) == b"much" * 3
    assert (output.fileno(), output.isatty()) == (slave, True)
    output.close()


def test_what_the_encoding_lacks_is_a_question_mark(terminal: tuple[int, int]) -> None:
    master, slave = terminal
    output = Output(slave, "ascii")
    output.write("a█")
    output.flush()
    assert os.read(master, 100) == b"a?"
    output.close()


def test_what_the_shell_shares_with_us_stays_as_it_is(terminal: tuple[int, int]) -> None:
    output = Output(terminal[1])
    assert os.get_blocking(terminal[1])
    output.close()


def test_who_gives_up_waits_no_longer(terminal: tuple[int, int]) -> None:
    output = Output(terminal[1])
    stuck = threading.Thread(target=output.write, args=("x" * MORE,), daemon=True)
    stuck.start()
    output.give_up()
    stuck.join(PATIENCE)
    assert not stuck.is_alive()
    output.close()


def test_a_terminal_that_has_vanished_takes_everything(terminal: tuple[int, int]) -> None:
    master, slave = terminal
    output = Output(slave)
    os.close(master)
    output.write("x" * MORE)
    assert output.gave_up
    output.close()


def test_what_is_no_terminal_is_written_to_as_well() -> None:
    reading, writing = os.pipe()
    output = Output(writing)
    output.write("x")
    output.flush()
    assert os.read(reading, 10) == b"x"
    output.close()
    os.write(writing, b"y")  # it is not ours to close
    for descriptor in (reading, writing):
        os.close(descriptor)
