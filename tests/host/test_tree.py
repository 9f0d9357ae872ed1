"""The process tree, of real processes and of folders."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputune.core.events import Event, Kind, Record
from gputune.core.sample import Guest
from gputune.host import tree as room
from gputune.host.tree import Tree

TALK = """
import os, time
child = os.fork()
if child == 0:
    grandchild = os.fork()
    if grandchild == 0:
        while True: time.sleep(1)
    print(os.getpid(), grandchild, flush=True)
    while True: time.sleep(1)
os.waitpid(child, 0)
"""


@pytest.fixture
def family() -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """A process with a child and a grandchild, all of which wait."""
    root = subprocess.Popen([sys.executable, "-c", TALK], stdout=subprocess.PIPE, text=True)
    assert root.stdout is not None
    child, grandchild = map(int, root.stdout.readline().split())
    yield root, child, grandchild
    os.kill(grandchild, signal.SIGKILL)
    if root.poll() is None:  # else the child has been waited for, and its pid may be another's
        os.kill(child, signal.SIGKILL)
    root.wait()
    root.stdout.close()


@pytest.mark.parametrize("lists_children", [True, False])
def test_descendants_are_found_and_an_orphan_is_kept(family, monkeypatch, lists_children: bool) -> None:
    root, child, grandchild = family
    tree = Tree(root.pid)
    monkeypatch.setattr(tree, "_lists_children", tree._lists_children and lists_children)
    tree.refresh()
    assert tree.pids() == {root.pid: "other", child: "other", grandchild: "other"}
    os.kill(child, signal.SIGKILL)
    root.wait()  # it has waited for its child before
    tree.refresh()
    assert tree.pids() == {grandchild: "other"}
    tree.close()


def test_a_root_that_does_not_exist_yet_is_an_empty_tree(tmp_path: Path) -> None:
    tree = Tree(100, tmp_path)
    tree.refresh()
    assert tree.pids() == {}


def stat(proc: Path, pid: int, parent: int, started: int = 5) -> None:
    (proc / str(pid)).mkdir(parents=True, exist_ok=True)
    (proc / str(pid) / "stat").write_text(f"{pid} (p) S {parent} {'0 ' * 17}{started} 0 0\n")


def test_a_pid_that_came_to_mean_another_process_is_dropped(tmp_path: Path) -> None:
    stat(tmp_path, 100, 1)
    stat(tmp_path, 101, 100)
    tree = Tree(100, tmp_path)
    tree.refresh()
    assert set(tree.pids()) == {100, 101}
    stat(tmp_path, 101, 1, started=9)
    tree.refresh()
    assert set(tree.pids()) == {100}


def test_the_root_is_not_found_again_under_a_reused_pid(tmp_path: Path) -> None:
    stat(tmp_path, 100, 1)
    tree = Tree(100, tmp_path)
    tree.refresh()
    stat(tmp_path, 100, 1, started=9)
    tree.refresh()
    tree.refresh()
    assert tree.pids() == {}


def test_roles_are_told_also_of_a_process_not_found_yet(tmp_path: Path) -> None:
    stat(tmp_path, 100, 1)
    tree = Tree(100, tmp_path)
    tree.trainers([100])
    tree.workers([101])
    tree.refresh()
    assert tree.pids() == {100: "main"}
    stat(tmp_path, 101, 100)
    tree.workers([101])
    tree.refresh()
    assert tree.pids() == {100: "main", 101: "worker"}


def record(kind: Kind, b: int = 0) -> Record:
    return Record(kind, 0, 1, 2, 0, b, 0, 0, 0)


def guest(process: int, pid: int, state: str = "ring", role: str = "main") -> Guest:
    return Guest(process, pid, 1, 1, 0, role, state)  # type: ignore[arg-type] # the words of the guest


@pytest.fixture
def small(tmp_path: Path) -> Tree:
    """A tree of 100 and its children 101 and 102."""
    stat(tmp_path, 100, 1)
    stat(tmp_path, 101, 100)
    stat(tmp_path, 102, 100)
    tree = Tree(100, tmp_path)
    tree.refresh()
    return tree


def test_a_guest_trains_once_it_wrote_a_batch_or_a_step(small: Tree) -> None:
    small.learn([guest(0, 100), guest(1, 101)])
    assert "main" not in small.pids().values()
    small.learn([Event(1, record(Kind.STEP)), Event(1, record(Kind.BATCH))])
    assert small.pids() == {100: "other", 101: "main", 102: "other"}


def test_an_iterator_names_its_workers(small: Tree) -> None:
    small.learn([Event(0, record(Kind.MEMBER, b=102))])
    assert small.pids()[102] == "worker"


def test_a_training_that_no_guest_speaks_from_is_taken_at_the_word_of_who_saw_it(small: Tree) -> None:
    small.learn([guest(-100, 100, "none"), guest(-101, 101, "none", "worker")])
    assert small.pids() == {100: "main", 101: "worker", 102: "other"}
    small.learn([guest(-100, 100, "none", "other")])
    assert small.pids()[100] == "other"


def test_a_ring_without_a_loop_is_taken_for_a_training_after_a_while(small: Tree, monkeypatch) -> None:
    small.learn([guest(0, 100)])
    later = room.now() + room.PATIENCE + 1
    monkeypatch.setattr(room, "now", lambda: later)
    small.learn([])
    assert small.pids()[100] == "main"


def machine(proc: Path, threads: int, last_pid: int) -> None:
    (proc / "self").mkdir(exist_ok=True)
    (proc / "loadavg").write_text(f"0.20 0.18 0.12 1/{threads} {last_pid}\n")


@pytest.fixture
def counted(tmp_path: Path) -> Tree:
    """A tree of 100 on a machine that counts its threads."""
    machine(tmp_path, 80, 100)
    stat(tmp_path, 100, 1)
    tree = Tree(100, tmp_path)
    tree.refresh()
    return tree


@pytest.mark.parametrize(("threads", "last_pid"), [(81, 101), (80, 101), (79, 100)])
def test_processes_are_looked_for_when_a_thread_of_the_machine_began_or_ended(
    counted: Tree, tmp_path: Path, threads: int, last_pid: int
) -> None:
    stat(tmp_path, 101, 100)
    machine(tmp_path, threads, last_pid)
    counted.refresh()
    assert set(counted.pids()) == {100, 101}


def test_nobody_is_asked_while_no_thread_began_or_ended(counted: Tree, monkeypatch) -> None:
    monkeypatch.setattr(counted, "_scan", None)
    counted.refresh()
    assert set(counted.pids()) == {100}


def test_who_spoke_enters_at_once_all_the_same(counted: Tree, tmp_path: Path) -> None:
    stat(tmp_path, 101, 100)
    counted.workers([101])
    counted.refresh()
    assert counted.pids() == {100: "other", 101: "worker"}


@pytest.mark.parametrize("made_up", ["0.00 0.00 0.00 0/0 0\n", "", "0.1 0.1 0.1\n"])
def test_a_count_that_is_made_up_is_not_believed(tmp_path: Path, made_up: str) -> None:
    machine(tmp_path, 80, 100)
    (tmp_path / "loadavg").write_text(made_up)
    stat(tmp_path, 100, 1)
    tree = Tree(100, tmp_path)
    tree.refresh()
    stat(tmp_path, 101, 100)
    tree.refresh()
    assert set(tree.pids()) == {100, 101}


def test_a_count_that_stood_while_somebody_came_is_never_believed_again(counted: Tree, tmp_path: Path) -> None:
    stat(tmp_path, 101, 100)
    for _ in range(room.THOROUGH):
        counted.refresh()
    assert set(counted.pids()) == {100, 101}
    stat(tmp_path, 102, 100)
    counted.refresh()
    assert set(counted.pids()) == {100, 101, 102}
