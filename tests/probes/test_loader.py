"""The reader of the rings, against rings that the guest's own writer made, and against files that are none."""

import importlib.util
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gputune.core import events
from gputune.core.events import Event, Kind, Record
from gputune.core.sample import Guest, Note, Open, Reading, Sample, Target
from gputune.probes import loader

GUEST = Path(__file__).resolve().parents[2] / "probes" / "guest"


def _island(name: str) -> ModuleType:
    """Load a module of the island apart from the others, as its own package would."""
    spec = importlib.util.spec_from_file_location(f"island_{name}", GUEST / "gputune_guest" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def rings(tmp_path: Path) -> Path:
    folder = tmp_path / "rings"
    folder.mkdir()
    return folder


@pytest.fixture(params=["", "1"], ids=["in C", "in Python"])
def write(rings: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """The writer, in this process: its ring is the ring of this test."""
    monkeypatch.setenv("GPUTUNE_RINGS", str(rings))
    monkeypatch.setenv("GPUTUNE_GUEST_PURE", request.param)
    monkeypatch.setattr(os, "register_at_fork", lambda **hooks: None)
    monkeypatch.syspath_prepend(str(GUEST))
    monkeypatch.delitem(sys.modules, "gputune_guest.here", raising=False)
    ring = _island("ring")
    if not request.param and sys.modules["gputune_guest.here"].fast is None:
        pytest.skip("the guest's C part is not built")
    return ring


@pytest.fixture
def read(rings: Path) -> Iterator[Callable[[], list[Reading]]]:
    probe = loader.attach(Target(os.getpid(), dict, rings=rings))
    yield lambda: next(probe)
    probe.close()


def records(readings: list[Reading]) -> list[Record]:
    return [r.record for r in readings if isinstance(r, Event)]


def test_nothing_comes_from_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    rings = tmp_path / "later"
    probe = loader.attach(Target(1, dict, rings=rings))
    assert next(probe) == []
    rings.mkdir()
    (rings / f"{os.getpid()}.hello").write_text("")
    (guest,) = next(probe)
    assert isinstance(guest, Guest)
    assert (guest.process, guest.pid, guest.state, guest.role) == (0, os.getpid(), "hello", "other")
    probe.close()


def test_the_words_of_the_island_are_the_words_of_the_house() -> None:
    words = _island("words")
    for kind in Kind:
        assert getattr(words, kind.name) == kind
    for code in events.SpanCode:
        assert getattr(words, code.name) == code
    assert (words.QUEUED_BITS, words.CALM_PARTS) == (events.QUEUED_BITS, events.CALM_PARTS)
    codes = [group for name, group in vars(events).items() if name.endswith("Code") and group is not events.SpanCode]
    flags = {name: code for group in codes for name, code in vars(group).items() if name.isupper()}
    assert len(flags) > 15
    assert {name: getattr(words, name) for name in flags} == flags


def test_what_is_written_is_read_once_and_in_order(write: Any, read: Callable[[], list[Reading]]) -> None:
    written = [Record(Kind.BATCH, n % 3, 10 * n, 10 * n + 5, n, -n, 2**62, -1, n) for n in range(300)]
    for record in written[:200]:
        write.record(*record)
    assert records(read()) == written[:200]
    for record in written[200:]:
        write.record(*record)
    assert records(read()) == written[200:]
    assert records(read()) == []


def test_notes_come_before_the_records_that_speak_of_them(write: Any, read: Callable[[], list[Reading]]) -> None:
    write.begin(lambda: {"n": "process", "torch": "2"})
    assert [r.fields["n"] for r in read() if isinstance(r, Note)] == ["process"]
    write.record(Kind.ITERATOR, 0, 1, 2)
    write.note(n="loader", id=1, where="trän.py:4")
    readings = [r for r in read() if isinstance(r, Note | Event)]
    assert [type(r) for r in readings] == [Note, Event]
    assert readings[0] == Note(0, {"n": "loader", "id": 1, "where": "trän.py:4"})


def test_a_process_that_becomes_a_worker_is_one_before_its_records(
    write: Any, read: Callable[[], list[Reading]]
) -> None:
    write.begin(lambda: {"n": "process"})  # a spawned one imports torch before it is told that it is to load
    assert [r.role for r in read() if isinstance(r, Guest)] == ["main"]
    write.become_worker()
    write.note(n="worker", threads=1)
    write.record(Kind.FETCH, 0, 1, 2)
    told = [r for r in read() if isinstance(r, Guest | Note | Event)]
    assert [type(r) for r in told] == [Guest, Note, Event]
    assert told[0].role == "worker"


def test_notes_that_do_not_fit_are_dropped_whole(write: Any, read: Callable[[], list[Reading]]) -> None:
    for n in range(100):
        write.note(n="site", id=n, what="x" * 1000)
    told = [r.fields["id"] for r in read() if isinstance(r, Note)]
    assert told == list(range(len(told)))
    assert 50 < len(told) < 100


def test_a_reader_that_is_overtaken_counts_what_it_lost_and_goes_on(
    write: Any, read: Callable[[], list[Reading]]
) -> None:
    write.record(Kind.STEP, 0, 0, 1)
    read()
    for n in range(20_000):
        write.record(Kind.STEP, 0, n, n + 1)
    got = [record.t0 for record in records(read())]
    assert got == list(range(got[0], 20_000))
    assert 20_000 - 16_384 <= got[0] <= 20_000 - 16_384 + 100
    write.record(Kind.STEP, 0, 20_000, 20_001)
    assert [record.t0 for record in records(read())] == [20_000]


def test_the_number_of_a_record_may_run_over(write: Any, rings: Path) -> None:
    write.record(Kind.STEP, 0, 0, 1)
    last = 2**32 - 3
    write.here.go_on(last)
    (path,) = rings.glob("*.ring")
    with path.open("r+b") as file:
        file.seek(loader.READ_AT)
        file.write(struct.pack("<Q", last - 1))
    probe = loader.attach(Target(1, dict, rings=rings))
    for n in range(6):
        write.record(Kind.STEP, 0, n, n + 1)
    assert [record.t0 for record in records(next(probe))] == [0, 1, 2, 3, 4, 5]
    probe.close()


def test_a_record_that_was_never_finished_holds_nothing_up(write: Any, read: Callable[[], list[Reading]]) -> None:
    write.record(Kind.STEP, 0, 1, 1)
    read()
    write.here.go_on(3)  # a number taken, and nothing written
    write.record(Kind.STEP, 0, 3, 3)
    assert records(read()) == []  # it may be under way
    assert [record.t0 for record in records(read())] == [3]


def test_an_error_of_the_writer_is_counted_and_told(write: Any, read: Callable[[], list[Reading]]) -> None:
    write.record(Kind.STEP, 0, 1, 1)
    write.record(Kind.STEP, 0, 2**70, 1)
    write.record(Kind.STEP, 0, 4, 4)
    notes = [r.fields for r in read() + read() if isinstance(r, Note)]
    assert [note["n"] for note in notes] == ["error"]
    assert write._errors == 1


def test_a_recorder_that_takes_over_goes_on_where_the_other_one_stopped(write: Any, rings: Path) -> None:
    (rings / f"{os.getppid()}.hello").write_text("")
    first = loader.attach(Target(1, dict, rings=rings))
    next(first)
    write.record(Kind.STEP, 0, 1, 1)
    write.mark(Kind.BATCH, 0, 1)
    before = {r.pid: r.process for r in next(first) if isinstance(r, Guest)}
    first.close()
    write.record(Kind.STEP, 0, 2, 2)
    second = loader.attach(Target(1, dict, rings=rings))
    readings = next(second)
    assert [record.t0 for record in records(readings)] == [2]
    after = {r.pid: r.process for r in readings if isinstance(r, Guest)}
    assert after == {os.getppid(): 0, **before}
    second.close()


@pytest.mark.parametrize(
    "content",
    [b"", b"x" * 10, b"NOTARING" + bytes(400_000), b"GPUTUNE1" + b"\xff" * 400_000, b"GPUTUNE1" + bytes(400_000)],
)
def test_a_file_that_is_no_ring_is_named_once(rings: Path, content: bytes) -> None:
    path = rings / "12-34.ring"
    path.write_bytes(content)
    os.utime(path, (1, 1))  # old: nobody is making it any more
    (rings / "letter.txt").write_text("not ours")
    (rings / "me.hello").write_text("")
    os.utime(rings / "me.hello", (1, 1))
    probe = loader.attach(Target(1, dict, rings=rings))
    named = [r.fields["file"] for _ in range(3) for r in next(probe) if isinstance(r, Note)]
    assert sorted(named) == ["12-34.ring", "me.hello"]
    probe.close()


def test_a_ring_that_is_being_made_is_read_when_it_is_whole(write: Any, rings: Path) -> None:
    write.record(Kind.STEP, 0, 7, 7)
    (path,) = rings.glob("*.ring")
    whole = path.read_bytes()
    path.write_bytes(bytes(8) + whole[8:])
    probe = loader.attach(Target(1, dict, rings=rings))
    assert next(probe) == []
    path.write_bytes(whole)
    assert [record.t0 for record in records(next(probe))] == [7]
    probe.close()


def test_a_ring_that_is_gone_again_is_read_once_its_name_is_back(
    write: Any, rings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no room for it, it is taken away as soon as it was made, and a link of its name follows."""
    write.record(Kind.STEP, 0, 7, 7)
    (path,) = rings.glob("*.ring")
    away = rings.parent / "away"

    def gone(_path: Path) -> None:
        path.rename(away)
        raise FileNotFoundError

    with monkeypatch.context() as patch:
        patch.setattr(loader, "Ring", gone)
        probe = loader.attach(Target(1, dict, rings=rings))
        assert next(probe) == []
    away.rename(path)
    assert [record.t0 for record in records(next(probe))] == [7]
    probe.close()


WRITER = """
import os, sys, time
from gputune_guest import ring
ring.record(1, 0, 5, 6)
ring.mark(1, 0, {mark})
ring.since({since})
if {end}:
    ring.end()
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(("mark", "since", "expected"), [(7, 0, (1, 0, 7, 0)), (5, 3, (0, 0, 0, 3)), (5, 0, None)])
def test_the_last_of_a_killed_process_is_told(
    rings: Path, mark: int, since: int, expected: tuple[int, int, int, int] | None
) -> None:
    environment = {**os.environ, "GPUTUNE_RINGS": str(rings), "PYTHONPATH": str(GUEST)}
    code = WRITER.format(mark=mark, since=since, end=False)
    process = subprocess.Popen([sys.executable, "-c", code], env=environment)
    process.wait(60)
    probe = loader.attach(Target(1, dict, rings=rings))
    readings = next(probe)
    end = time.monotonic() + 60
    while not any(isinstance(r, Guest) and r.ended for r in readings) and time.monotonic() < end:
        time.sleep(0.02)
        readings += next(probe)
    assert len(records(readings)) == 1
    told = [tuple(r)[1:] for r in readings if isinstance(r, Open)]
    assert told == ([expected] if expected else [])
    assert list(rings.glob("*.ring")) == []  # told and forgotten
    probe.close()


def test_samples_say_how_much_of_the_last_second_was_waiting(
    write: Any, rings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1_000_000_000]
    monkeypatch.setattr(loader, "now", lambda: clock[0])
    probe = loader.attach(Target(1, dict, rings=rings))
    next(probe)
    write.record(Kind.BATCH, 0, 1_200_000_000, 1_400_000_000, 1, 0, 0, 0, 32)
    write.record(Kind.BATCH, events.BatchCode.END, 1_500_000_000, 1_600_000_000, 1, 1)
    next(probe)
    write.mark(Kind.BATCH, 0, 1_900_000_000)  # and is still in there
    clock[0] = 2_100_000_000
    values = {r.metric.name: r.value for r in next(probe) if isinstance(r, Sample)}
    assert values["loader.wait"] == pytest.approx((0.2 + 0.1 + 0.2) / 1.1)
    assert (values["loader.batches"], values["loader.samples"], values["loader.lost"]) == (1, 32, 0)
    probe.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is young, and the second that a ring may wait lasts an hour."""
    monkeypatch.setattr(loader, "SETTLE", -3600.0)
    monkeypatch.setattr(loader, "YOUNG", 0)
    monkeypatch.setattr(loader, "BEAT", 3_600_000_000_000)


@pytest.mark.usefixtures("patient")
def test_a_few_records_wait_and_many_do_not(write: Any, read: Callable[[], list[Reading]]) -> None:
    write.record(Kind.STEP, 0, 1, 2)
    assert len(records(read())) == 1  # the tick on which a process comes reads it
    for n in range(loader.PRESSING - 1):
        write.record(Kind.STEP, 0, n, n + 1)
        assert records(read()) == []
    write.record(Kind.STEP, 0, 5, 6)
    assert len(records(read())) == loader.PRESSING


@pytest.mark.usefixtures("patient")
def test_nothing_waits_once_the_command_has_ended(write: Any, rings: Path) -> None:
    command = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    probe = loader.attach(Target(command.pid, dict, rings=rings))
    write.record(Kind.STEP, 0, 1, 2)
    assert len(records(next(probe))) == 1
    write.record(Kind.STEP, 0, 3, 4)
    assert records(next(probe)) == []
    command.communicate(b"\n")
    assert records(next(probe)) == [Record(Kind.STEP, 0, 3, 4, 0, 0, 0, 0, 0)]
    write.record(Kind.STEP, 0, 5, 6)
    assert len(records(next(probe))) == 1
    probe.close()


@pytest.mark.usefixtures("patient")
def test_nothing_waits_once_a_process_says_that_it_is_through(write: Any, read: Callable[[], list[Reading]]) -> None:
    write.record(Kind.STEP, 0, 1, 2)
    assert len(records(read())) == 1
    write.record(Kind.STEP, 0, 3, 4)
    assert records(read()) == []
    write.end()
    assert records(read()) == [Record(Kind.STEP, 0, 3, 4, 0, 0, 0, 0, 0)]
    write.record(Kind.STEP, 0, 5, 6)
    assert records(read()) == []


RAISED = '{"n": "raised", "what": "OSError: https://me:s3cr3t-word@host refused", "where": "train.py:3"}'


def test_the_error_of_a_process_without_a_ring_is_a_note_of_its_own_without_secrets(rings: Path, read) -> None:
    (rings / f"{os.getpid()}.hello").write_text("")
    (rings / f"{os.getpid()}.raised").write_text(RAISED)
    (fields,) = (r.fields for r in read() if isinstance(r, Note))
    assert fields == {"n": "raised", "what": "OSError: https://me:***@host refused", "where": "train.py:3"}
    assert not [r for r in read() if isinstance(r, Note)]


def test_what_is_no_error_of_a_known_process_is_left_out(rings: Path, read, tmp_path: Path) -> None:
    me = rings / f"{os.getpid()}.raised"
    (rings / f"{os.getpid()}.hello").write_text("")
    (rings / "²3.raised").write_text(RAISED)
    (rings / "99999999.raised").write_text(RAISED)
    (rings / f"{os.getpid()}.raised.new").write_text(RAISED)
    (tmp_path / "told").write_text(RAISED)
    for make in (lambda: me.write_text("[" * 4000), lambda: me.symlink_to(tmp_path / "told"), lambda: os.mkfifo(me)):
        assert loader._early(me) == {}
        make()
        assert loader._early(me) == {}
        me.unlink()
    me.write_text(RAISED[:-1] + ' "n": "loader"}')
    assert not [r for r in read() if isinstance(r, Note)]


def test_what_was_lost_is_told_of_its_process_and_of_all_when_it_ends(
    write: Any, read: Callable[[], list[Reading]], rings: Path
) -> None:
    """Who reads a ring only once it is over has no beat left to count in."""
    write.begin(lambda: {"n": "process"})
    for n in range(30_000):
        write.record(Kind.BATCH, n, n + 1, n)
    (told,) = [r for r in read() if isinstance(r, Note) and r.fields["n"] == "lost"]
    assert 13_000 < int(str(told.fields["records"])) < 14_000
    for n in range(20_000):
        write.record(Kind.BATCH, n, n + 1, n)
    probe = loader.Rings(Target(os.getpid(), dict, rings=rings))
    probe.tick()
    (process,) = probe.alive
    readings: list[Reading] = []
    for n in range(20_000):
        write.record(Kind.BATCH, n, n + 1, n)
    probe._bury(process, readings)
    told_last = sum(int(str(r.fields["records"])) for r in readings if isinstance(r, Note) and r.fields["n"] == "lost")
    (counted,) = [r.value for r in readings if isinstance(r, Sample) and r.metric is loader.LOST]
    assert 0 < told_last <= counted
    probe.close()


ENDING = """
import sys
from gputune_guest import ring
ring.record(1, 0, 5, 6)
ring.end()
print("told", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("absent", [False, True])
def test_a_process_ends_when_it_is_gone_and_not_when_it_says_that_it_will(rings: Path, absent: bool) -> None:
    """Between the two lies the end of the interpreter, which takes torch half a second; who was away cannot tell it."""
    environment = {**os.environ, "GPUTUNE_RINGS": str(rings), "PYTHONPATH": str(GUEST)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", ENDING], env=environment, **pipes) as process:  # type: ignore[call-overload] # as named
        assert process.stdout.readline() == "told\n"
        probe = loader.Rings(Target(1, dict, rings=rings))
        probe.tick()
        before = loader.now()
        process.communicate("\n", timeout=60)
        if absent:
            probe._ticked -= 10**11
        readings: list[Reading] = []
        end = time.monotonic() + 60
        while not any(isinstance(r, Guest) and r.ended for r in readings) and time.monotonic() < end:
            readings += probe.tick()
        (ended,) = [r.ended for r in readings if isinstance(r, Guest) and r.ended]
        assert (ended > before) is not absent
        probe.close()
