"""Trainings that no guest speaks from are named, with the reason."""

from dataclasses import replace

import pytest

from gputune.core.sample import ATTACHED, Guest
from gputune.probes import unseen

MIB = 1 << 20
MAPS = "7f00-7f01 r-xp 00000000 fd:00 1 /venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so\n"
ENVIRON = "GPUTUNE_RINGS=/r\0PYTHONPATH=/venv/gputune/probes/guest\0"


@pytest.fixture
def train(machine):
    """Return a maker of processes that have mapped libtorch."""

    def make(pid: int, command: str = "python train.py", *, environ: str = ENVIRON, **facts: int) -> None:
        machine.process(pid, **facts)
        machine.write(f"proc/{pid}/statm", f"9 {200 * MIB // unseen.PAGE} 1 1 0 1 0\n")
        machine.write(f"proc/{pid}/maps", MAPS)
        machine.write(f"proc/{pid}/cmdline", command.replace(" ", "\0") + "\0")
        machine.write(f"proc/{pid}/environ", environ.replace("=/r\0", f"={machine.target().rings}\0"))

    return make


def look(machine) -> dict[int, Guest]:
    return {reading.pid: reading for reading in next(unseen.attach(machine.target()))}


def test_a_process_with_a_guest_is_left_alone(machine, train) -> None:
    train(100)
    machine.write("rings/100.hello", "")
    assert look(machine) == {}


def test_a_process_without_torch_is_left_alone(machine, train) -> None:
    train(100)
    machine.write("proc/100/maps", "7f00-7f01 r-xp 00000000 fd:00 1 /usr/lib/libc.so.6\n")
    assert look(machine) == {}


@pytest.mark.parametrize(
    ("command", "environ", "why"),
    [
        ("python -I train.py", ENVIRON, "-I"),
        ("python -uE train.py", ENVIRON, "-E"),
        ("python train.py", "PATH=/bin\0", "environment of its own"),
        ("python train.py", "GPUTUNE_RINGS=/r\0PYTHONPATH=/mine\0", "PYTHONPATH was replaced"),
        ("python train.py -I", ENVIRON, "no guest spoke"),
        ("python -Werror::ImportWarning train.py", ENVIRON, "no guest spoke"),
        ("python train.py", ENVIRON.replace("/r", "/inner"), "another `gputune watch` inside"),
    ],
)
def test_the_reason_is_said_as_far_as_it_shows(machine, train, command, environ, why) -> None:
    train(100, command, environ=environ)
    guest = look(machine)[100]
    assert (guest.state, guest.role) == ("none", "main")
    assert why in guest.why


def test_workers_are_told_from_trainings_by_their_command(machine, train) -> None:
    train(100)
    train(101, parent=100)
    train(102, "python -c from multiprocessing.spawn import spawn_main", parent=100)
    assert {pid: guest.role for pid, guest in look(machine).items()} == {100: "main", 101: "worker", 102: "worker"}


def test_what_a_training_with_a_guest_forks_and_does_not_name_is_no_worker(machine, train) -> None:
    train(100)
    machine.write("rings/100.hello", "")
    train(101, parent=100)
    train(102, parent=100)
    target = replace(machine.target(), pids=lambda: {100: "main", 101: "other", 102: "worker"})
    assert {g.pid: g.role for g in next(unseen.attach(target))} == {101: "other", 102: "worker"}


def test_a_launcher_does_not_train(machine, train) -> None:
    train(100, "torchrun train.py")
    train(101, parent=100)
    assert {pid: guest.role for pid, guest in look(machine).items()} == {100: "other", 101: "main"}


def test_a_rank_that_another_watch_hears_is_none_that_is_not_heard(machine, clock, train) -> None:
    clock.of("gputune.probes.unseen")
    train(100)
    ticks = unseen.attach(machine.target())
    assert [guest.role for guest in next(ticks)] == ["main"]
    machine.write("rings-of-another/100.hello", "")
    clock.turn(2.0)
    assert [guest.role for guest in next(ticks)] == ["other"]
    clock.turn(2.0)
    assert next(ticks) == []


def test_the_end_is_said_once(machine, clock, train) -> None:
    clock.of("gputune.probes.unseen")
    train(100)
    ticks = unseen.attach(machine.target())
    (guest,) = next(ticks)
    machine.end(100)
    clock.turn(2.0)
    (ended,) = next(ticks)
    assert (guest.ended, ended.ended) == (0, round(clock.seconds * 1e9))
    assert next(ticks) == []


def test_torch_that_comes_later_is_found(machine, clock, train) -> None:
    clock.of("gputune.probes.unseen")
    machine.process(100)
    ticks = unseen.attach(machine.target())
    assert next(ticks) == []
    train(100)
    clock.turn(2.0)
    assert len(next(ticks)) == 1


def test_of_a_training_that_is_only_looked_at_nobody_is_to_blame(machine, train) -> None:
    train(100, "python -I train.py", environ="")
    (guest,) = next(unseen.attach(replace(machine.target(), heard=False)))
    assert (guest.pid, guest.role, guest.why) == (100, "main", ATTACHED)


def test_a_python_that_was_named_is_looked_at_without_torch_as_well(machine, train) -> None:
    train(100)
    machine.write("proc/100/maps", "7f00-7f01 r-xp 00000000 fd:00 1 /usr/lib/libpython3.11.so.1.0\n")
    target = replace(machine.target(), heard=False)
    assert target.root_pid == 100
    (guest,) = next(unseen.attach(target))
    assert guest.role == "main"
    machine.write("proc/100/maps", "7f00-7f01 r-xp 00000000 fd:00 1 /usr/lib/libc.so.6\n")
    assert next(unseen.attach(target)) == []
