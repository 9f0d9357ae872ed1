"""Several training processes: at once they are ranks, one after the other they are runs."""

import pytest


def trained(story, process: int, pid: int, rank: int | None, *, ended: float = 0, started: float = 0) -> None:
    story.process(process, pid=pid, started=story.ns(started), ended=ended)
    story.note(process, n="process", rank=rank)
    story.loader(process)
    for k in range(5):
        story.iterator(process=process) if k == 0 else None
        story.batch(process=process)
        story.at += 10


def test_ranks_come_in_their_order_and_share_the_machine(empty) -> None:
    trained(empty, 0, 300, 1)
    trained(empty, 1, 200, 0)
    run = empty.features()
    assert [(p.rank, p.pid) for p in run.processes] == [(0, 200), (1, 300)]
    assert run.machine.ranks == 2


def test_the_cpu_of_training_processes_is_shared_out_among_them(empty) -> None:
    trained(empty, 0, 300, 1)
    trained(empty, 1, 200, 0)
    empty.sample("cpu.main", 3.0)
    empty.batch()
    assert [p.cpu for p in empty.features().processes] == pytest.approx([1.5, 1.5])


def test_what_each_of_them_used_is_its_own(empty) -> None:
    """One that starves of its CPUs and one that has plenty are two, however much they use together."""
    trained(empty, 0, 300, 1)
    trained(empty, 1, 200, 0)
    for name, all_of_them, each in (("cpu", 3.0, (2.5, 0.5)), ("queued", 1.0, (0.9, 0.1))):
        empty.sample("cpu.main" if name == "cpu" else "cpu.queued.main", all_of_them)
        for pid, value in zip((200, 300), each, strict=True):
            empty.sample(f"main.{name}", value, str(pid))
    empty.batch()
    processes = empty.features().processes
    assert [p.pid for p in processes] == [200, 300]
    assert [p.cpu for p in processes] == pytest.approx([2.5, 0.5])
    assert [p.queued for p in processes] == pytest.approx([0.9, 0.1])


def test_one_alone_is_all_of_them(empty) -> None:
    """Of an earlier moment, in which there were two, its own readings may be left: they are no mean over its loop."""
    trained(empty, 0, 300, None)
    empty.sample("main.cpu", 9.0, "300")
    empty.sample("cpu.main", 3.0)
    empty.batch()
    assert [p.cpu for p in empty.features().processes] == pytest.approx([3.0])


def test_trainings_that_follow_each_other_are_no_ranks(empty) -> None:
    trained(empty, 0, 300, None, ended=500)
    empty.at = 600
    trained(empty, 1, 301, None, started=600)
    run = empty.features()
    assert len(run.processes) == 2
    assert run.machine.ranks == 1


def test_each_process_has_its_own_loaders_and_iterators(empty) -> None:
    trained(empty, 0, 300, 0)
    trained(empty, 1, 301, 1)
    assert [p.batches for p in empty.features().processes] == [5, 5]


def test_a_note_may_come_before_its_process(empty) -> None:
    empty.note(0, n="process", rank=3)
    empty.loader(0)
    empty.process(0)
    empty.iterator()
    empty.batch()
    (process,) = empty.features().processes
    assert process.rank == 3
    assert process.batches == 1
