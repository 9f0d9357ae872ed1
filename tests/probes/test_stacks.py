"""Stacks from outside: planned, collected and given up without ever waiting for py-spy."""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gputune.core.sample import Note, Reading, Stack, Ticks, Unavailable
from gputune.host import ptrace
from gputune.probes import stacks

PATIENCE = 60.0  # s
RAW = """thread (7): MainThread;<module> (/u/train.py:12);step (/u/train.py:8) 31
thread (8): pin;run (/usr/lib/python3/threading.py:9) 61
thread (7): MainThread;<module> (/u/train.py:14);<listcomp> (/u/a b.py:3) 29
thread (7): MainThread;torn (/u/other.py:1) 1
"""


def test_the_main_thread_is_taken_and_torn_stacks_are_left_out() -> None:
    found = stacks.training_stacks(RAW, 7, 5)
    assert [(stack.frames, stack.count) for stack in found] == [
        (("<module> (/u/train.py:12)", "step (/u/train.py:8)"), 31),
        (("<module> (/u/train.py:14)", "<listcomp> (/u/a b.py:3)"), 29),
    ]


def test_without_a_main_thread_the_one_seen_most_is_taken() -> None:
    found = stacks.training_stacks("thread (8): a;f (x.py:1) 3\nthread (9): b;g (x.py:2) 5\nnonsense\n", 7, 5)
    assert [stack.frames for stack in found] == [("g (x.py:2)",)]


def test_nothing_is_made_of_nothing() -> None:
    assert stacks.training_stacks("", 7, 5) == []


def test_looks_at_who_holds_the_interpreter_are_of_the_main_thread_and_the_rest_is_without_frames() -> None:
    said = "py-spy> Wrote raw flamegraph data to '/proc/self/fd/1'. Samples: 40 Errors: 3\n"
    found = stacks.held_stacks(RAW.replace("torn", "<module>") + said, 7, 5)
    assert [(stack.count, stack.held) for stack in found] == [(31, True), (29, True), (1, True)]
    found = stacks.held_stacks(
        "thread (7): MainThread;<module> (/u/train.py:12) 20\nthread (8): pin;run (x.py:9) 9\n" + said, 7, 5
    )
    assert [(stack.frames, stack.count) for stack in found] == [
        (("<module> (/u/train.py:12)",), 20),
        ((), stacks.RATE * stacks.BURST - 3 - 20),
    ]


def test_threads_of_the_scripts_own_are_counted_and_no_librarys() -> None:
    said = """thread (7): MainThread;<module> (/u/train.py:12) 60
thread (8): Thread-1;run (/usr/lib/python3/threading.py:9);fill (/u/feed.py:3) 40
thread (9): Thread-2;run (/usr/lib/python3/threading.py:9);fill (/u/feed.py:4) 1
thread (10): tqdm;run (/v/site-packages/tqdm/_monitor.py:60) 61
"""
    assert stacks.fillers(said, 7) == 2


@pytest.fixture
def spy(tmp_path: Path, monkeypatch) -> Callable[[str], None]:
    """Put a shell script in py-spy's place."""

    def to(script: str) -> None:
        program = tmp_path / "py-spy"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr(stacks, "find", lambda: str(program))

    return to


def collect(ticks: Ticks, enough: Callable[[list[Reading]], bool]) -> list[Reading]:
    """Tick on until enough was read."""
    deadline = time.monotonic() + PATIENCE
    found: list[Reading] = []
    while not enough(found):
        assert time.monotonic() < deadline
        found += next(ticks)
        time.sleep(0.01)
    return found


@pytest.fixture
def at_once(monkeypatch) -> None:
    monkeypatch.setattr(stacks, "FIRST", 0.0)


def test_only_processes_that_train_are_looked_at(machine, spy, at_once, tmp_path) -> None:
    spy(f'echo "$@" >> {tmp_path}/calls; echo "thread (101): MainThread;f (x.py:1) 3"')
    machine.roles = {100: "other", 101: "main", 102: "worker"}
    ticks = stacks.attach(machine.target())
    assert collect(ticks, bool) == [Stack(pytest.approx(time.monotonic_ns(), rel=1), 101, ("f (x.py:1)",), 3)]
    ticks.close()
    calls = (tmp_path / "calls").read_text().splitlines()
    assert {call.rpartition(" ")[2] for call in calls} <= {"101", "102"}
    assert all("--nonblocking" in call for call in calls)


def test_a_look_at_who_holds_the_interpreter_follows_at_the_training_and_not_at_a_worker(
    machine, spy, at_once, tmp_path
) -> None:
    spy(f'echo "$@" >> {tmp_path}/calls; echo "thread ($(echo "$@" | sed "s/.* //")): MainThread;f (x.py:1) 3"')
    machine.roles = {101: "main", 102: "worker"}
    ticks = stacks.attach(machine.target())
    found = collect(ticks, lambda found: {stack.pid for stack in found} == {101, 102} and len(found) > 4)
    ticks.close()
    calls = (tmp_path / "calls").read_text().splitlines()
    assert ["--gil" in call for call in calls if call.endswith("101")][:2] == [False, True]
    assert not any("--gil" in call for call in calls if call.endswith("102"))
    assert {(stack.pid, stack.held, bool(stack.frames)) for stack in found} == {
        (101, False, True),
        (101, True, True),
        (101, True, False),
        (102, False, True),
    }


def test_where_it_cannot_be_told_who_holds_the_interpreter_nobody_asks_again(
    machine, spy, at_once, monkeypatch
) -> None:
    monkeypatch.setattr(stacks, "GROWTH", 0.0)
    spy('case "$*" in *--gil*) echo "no GIL" >&2; exit 1;; esac; echo "thread (101): MainThread;f (x.py:1) 3"')
    machine.roles = {101: "main"}
    ticks = stacks.attach(machine.target())
    found = collect(ticks, lambda found: len(found) >= 4)
    ticks.close()
    assert not any(stack.held for stack in found)


def test_a_worker_that_lives_is_looked_at_ever_more_seldom(machine) -> None:
    machine.roles = {101: "main", 102: "worker", 103: "worker"}
    looker = stacks._Looker(machine.target(), "/bin/false")
    looker._choose([102, 103], 0.0)
    maker = looker._maker
    assert (maker.pid, maker.due) == (102, 3.0)
    burst = stacks._Burst(maker, subprocess.Popen(["true"]), 6.0)
    looker._judge(burst, 7.0)  # it had ended: another one is due as soon
    assert (maker.due, maker.failures) == (7.0 + stacks.FIRST, 0)
    looker._choose([103], 8.0)
    assert (maker.pid, looker._maker) == (103, maker)
    burst.said += b"thread (103): MainThread;f (x.py:1) 3\n"
    assert [stack.pid for stack in looker._judge(burst, 9.0)] == [103]
    assert maker.pause == stacks.FIRST * stacks.MAKERS


def test_without_a_guest_no_process_is_known_to_be_a_worker(machine) -> None:
    looker = stacks._Looker(replace(machine.target(), heard=False), "/bin/false")
    looker._choose([102], 0.0)
    assert looker._maker is None


def test_the_first_burst_waits_and_the_pauses_grow(machine, clock) -> None:
    machine.roles = {101: "main"}
    looker = stacks._Looker(machine.target(), "/bin/false")
    looker.tick(0.0)
    training = looker._trainings[101]
    assert training.due == stacks.FIRST
    pauses = []
    for _ in range(8):
        looker._judge(stacks._Burst(training, subprocess.Popen(["true"]), 0.0), 0.0)
        training.failures = 0
        pauses.append(training.pause)
    assert pauses[:3] == [3.0, 6.0, 12.0]
    assert pauses[-1] == stacks.LONGEST_PAUSE_S


def test_where_stacks_are_all_there_is_the_first_burst_comes_at_once_and_more_follow(machine, clock) -> None:
    machine.roles = {101: "main"}
    looker = stacks._Looker(replace(machine.target(), heard=False), "/bin/false")
    looker.tick(7.0)
    training = looker._trainings[101]
    assert training.due == 7.0
    looks, at = 0, 0.0
    while at < 60:
        with subprocess.Popen(["true"]) as child:
            looker._judge(stacks._Burst(training, child, at), at)
        training.failures = 0
        at = training.due + stacks.BURST
        looks += 1
    assert 12 <= looks <= 30


def test_a_hung_one_never_holds_up_a_tick_and_is_ended_with_the_probe(machine, spy, at_once) -> None:
    spy("exec sleep 600")
    machine.roles = {101: "main"}
    ticks = stacks.attach(machine.target())
    for _ in range(5):
        assert next(ticks) == []
    ticks.close()  # the guard of the suite sees whether it is gone


def test_a_hung_one_is_ended_after_its_time(machine, spy, at_once, monkeypatch) -> None:
    monkeypatch.setattr(stacks, "PATIENCE", -10.0)
    monkeypatch.setattr(stacks, "GROWTH", 0.0)
    spy("exec sleep 600")
    machine.roles = {101: "main"}
    looker = stacks._Looker(machine.target(), str(stacks.find()))
    deadline = time.monotonic() + PATIENCE
    looker.tick(time.monotonic())
    while looker._trainings[101].failures < stacks.GIVE_UP:
        looker.tick(time.monotonic())
        assert time.monotonic() < deadline
        time.sleep(0.01)
    looker.close()


@pytest.mark.parametrize(("scope", "hint"), [("1", "ptrace_scope=0"), ("0", "SYS_PTRACE")])
def test_where_ptrace_is_refused_the_reason_and_the_way_out_are_said(machine, spy, at_once, scope, hint) -> None:
    spy('echo "Permission Denied: Try running again with elevated permissions" >&2; exit 1')
    machine.write("proc/sys/kernel/yama/ptrace_scope", scope)
    machine.roles = {101: "main"}
    ticks = stacks.attach(replace(machine.target(), heard=False))
    with pytest.raises(Unavailable, match="does not let py-spy look") as reason:
        collect(ticks, bool)
    assert hint in reason.value.hint


def test_a_missing_py_spy_is_said(machine, monkeypatch) -> None:
    monkeypatch.setattr(stacks, "find", lambda: None)
    with pytest.raises(Unavailable, match="not installed"):
        next(stacks.attach(replace(machine.target(), heard=False)))


def _refused(_why: object) -> str:
    return 'echo "Operation not permitted (os error 1)" >&2; exit 1'


@pytest.mark.parametrize(
    ("program", "reads"), [(None, True), ("exit 3", False), ("exit 3", True), (_refused(0), True)], ids=str
)
@pytest.mark.usefixtures("at_once")
def test_who_cannot_be_seen_from_outside_is_asked_for_its_own_stacks(machine, spy, monkeypatch, program, reads) -> None:
    """No py-spy, no leave to read the memory, a py-spy that does not know this Python, one that is refused."""
    monkeypatch.setattr(stacks, "GROWTH", 0.0)
    monkeypatch.setattr(ptrace, "allowed", lambda _proc, _pid: reads)
    spy(program or "")
    if program is None:
        monkeypatch.setattr(stacks, "find", lambda: None)
    machine.roles = {101: "main", 102: "worker", 100: "other"}
    rings = machine.root / "rings"
    rings.mkdir()
    ticks = stacks.attach(machine.target())
    notes = collect(ticks, lambda _found: (rings / "101.ask").exists() and (rings / "102.ask").exists())
    assert not (rings / "100.ask").exists()
    (rings / "101.told").write_text("77 thread (101): MainThread;<module> (a b.py:1);f (x.py:2) 1\n78 thr")
    found = [*notes, *collect(ticks, lambda found: any(isinstance(r, Stack) for r in found))]
    ticks.close()
    assert [r for r in found if isinstance(r, Stack)] == [Stack(77, 101, ("<module> (a b.py:1)", "f (x.py:2)"), 1)]
    assert not (rings / "101.told").exists()
    told = [bool(r.fields["why"]) for r in found if isinstance(r, Note)]
    assert told == ([] if program == "exit 3" and reads else [True, False])  # it is no system that refuses it


def test_the_last_words_of_a_process_are_heard(machine, at_once, monkeypatch) -> None:
    monkeypatch.setattr(stacks, "find", lambda: None)
    machine.roles = {101: "main"}
    rings = machine.root / "rings"
    rings.mkdir()
    ticks = stacks.attach(machine.target())
    next(ticks)
    machine.roles = {}
    (rings / "101.told").write_text("77 thread (101): MainThread;f (x.py:2) 1\n")
    assert [r.pid for r in next(ticks) if isinstance(r, Stack)] == [101]
    assert list(rings.iterdir()) == []


SPIN = """
def training_step():
    while True:
        sum(range(10000))

training_step()
"""


def test_a_real_process_is_looked_at(machine, at_once, tmp_path) -> None:
    if stacks.find() is None:
        pytest.skip("py-spy is not installed here")
    script = tmp_path / "spin.py"
    script.write_text(SPIN)
    child = subprocess.Popen([sys.executable, str(script)])
    machine.roles = {child.pid: "main"}
    ticks = stacks.attach(machine.target())
    try:
        found = collect(ticks, bool)
    except Unavailable as reason:
        pytest.skip(f"not here: {reason}")
    finally:
        child.kill()
        child.wait()
        ticks.close()
    assert all(isinstance(stack, Stack) and stack.pid == child.pid for stack in found)
    assert any("training_step" in frame and str(script) in frame for stack in found for frame in stack.frames)


def test_py_spy_says_how_many_looks_failed_where_it_is_looked_for(tmp_path: Path) -> None:
    program = stacks.find()
    if program is None:
        pytest.skip("py-spy is not installed")
    script = tmp_path / "spin.py"
    script.write_text("while True: sorted(range(9), key=lambda n: -n)\n")
    with subprocess.Popen([sys.executable, str(script)]) as spins:
        how = ["--nonblocking", "--rate", "61", "--duration", "1", "--format", "raw", "--output", "/proc/self/fd/1"]
        whom = [program, "record", *how, "--pid", str(spins.pid)]
        told = subprocess.run(whom, check=False, capture_output=True, text=True)
        spins.kill()
    if told.returncode:
        pytest.skip(told.stderr)  # it may not look here
    assert stacks.FAILED.search(told.stdout)
