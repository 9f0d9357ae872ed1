"""Why a start failed: memory is told from everything else, in one sentence."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gputune.core.events import Event, Kind, Record
from gputune.core.sample import Note
from gputune.core.units import NS
from gputune.experiment.living import StartPlan
from gputune.experiment.starting import Cause, Fault, Start, State, _follow, fault_of, left, outcome, refused, start
from gputune.experiment.timeline import Timeline
from gputune.features import Features, Machine

RUN = Features(command=("x",), wall=1.0, machine=Machine(cpus=2, cpus_seen=2), exit_code=1)


@pytest.mark.parametrize(
    ("said", "cause", "why"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", Cause.OUT_OF_MEMORY, "out of memory"),
        ("RuntimeError: DefaultCPUAllocator: can't allocate memory", Cause.OUT_OF_MEMORY, "out of memory"),
        ("MemoryError", Cause.OUT_OF_MEMORY, "out of memory"),
        (
            "RuntimeError: unable to write to file </torch_1_2_3>: no shared memory left",
            Cause.OUT_OF_MEMORY,
            "/dev/shm",
        ),
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error.", Cause.OUT_OF_MEMORY, "/dev/shm"),
        (
            "RuntimeError: DataLoader worker (pid 7) is killed by signal: Segmentation fault.",
            Cause.WORKER_DIED,
            "pid 7",
        ),
        ("_pickle.PicklingError: Can't pickle <function <lambda> at 0x1>", Cause.NOT_PICKLED, "handed to workers"),
        ("ValueError: no such thing", Cause.LEFT, "status 1: ValueError: no such thing"),
        ("", Cause.LEFT, "status 1"),
    ],
)
def test_the_log_tells_why(tmp_path: Path, said: str, cause: Cause, why: str) -> None:
    log = tmp_path / "1.log"
    log.write_text(f"epoch 1\n{said}\n" if said else "")
    found = fault_of(log, left(1), RUN)
    assert found.cause is cause
    assert why in found.why


def test_what_was_caught_long_before_is_not_why(tmp_path: Path) -> None:
    log = tmp_path / "1.log"
    log.write_text("RuntimeError: CUDA out of memory (caught)\n" + "step\n" * 80 + "ValueError: no such thing\n")
    assert fault_of(log, left(1), RUN) == (Cause.LEFT, "it left with status 1: ValueError: no such thing")


AT_EXIT = """ValueError: no such sample

Exception ignored in atexit callback: <function _exit_function at 0x7f>
Traceback (most recent call last):
  File "multiprocessing/util.py", line 357, in _exit_function
    p.join()
RuntimeError: DataLoader worker (pid 7) is killed by signal: Terminated.
"""
GONE = """Traceback (most recent call last):
  File "multiprocessing/reductions.py", line 538, in rebuild_storage_fd
    fd = df.detach()
         ^^^^^^^^^^^
ConnectionResetError: [Errno 104] Connection reset by peer
"""


def test_workers_that_are_ended_on_the_way_out_are_not_why(tmp_path: Path) -> None:
    log = tmp_path / "1.log"
    log.write_text(AT_EXIT)
    assert fault_of(log, left(1), RUN) == (Cause.LEFT, "it left with status 1: ValueError: no such sample")
    log.write_text(AT_EXIT.partition("\n\n")[2])  # nothing else is known
    assert fault_of(log, left(1), RUN).cause is Cause.WORKER_DIED


def test_a_worker_that_is_gone_before_its_batch_was_taken_has_died(tmp_path: Path) -> None:
    log = tmp_path / "1.log"
    log.write_text(GONE)
    found = fault_of(log, left(1), RUN)
    assert found.cause is Cause.WORKER_DIED
    assert "exited unexpectedly" in found.why
    log.write_text("ConnectionResetError: [Errno 104] Connection reset by peer\n")  # the script's own, for all we know
    assert fault_of(log, left(1), RUN).cause is Cause.LEFT


def test_a_script_that_says_so_and_leaves_by_itself_is_quoted_with_its_status(tmp_path: Path) -> None:
    log = tmp_path / "1.log"
    log.write_text("CUDA out of memory, giving up\n")
    found = fault_of(log, left(3), replace(RUN, exit_code=3))
    assert found.state is State.OOM
    assert "by its last words" in found.why
    assert "status 3" in found.why


def test_a_kill_by_the_kernel_is_a_want_of_memory(tmp_path: Path) -> None:
    assert fault_of(tmp_path / "none", left(1), replace(RUN, oom_kills=(1, "machine"))).state is State.OOM
    assert fault_of(tmp_path / "none", left(137), replace(RUN, exit_code=137)).state is State.OOM


def test_a_change_that_was_not_made_is_told() -> None:
    def start(*notes: dict[str, object]) -> Start:
        return Start(state=State.OK, log="", notes=notes)  # type: ignore[arg-type] # plain JSON

    wanted = {"num_workers": 4}
    made = {"n": "override", "change": wanted, "refused": {}}
    assert refused(start(made), wanted) is None
    assert refused(start(), {}) is None
    built = refused(start({"n": "trial", "batches": 3}), wanted)
    assert built is not None
    assert "not built" in built.why
    stream = start({"n": "override", "refused": {"num_workers": "a stream"}})
    assert refused(stream, wanted) == (Cause.NOT_OBEYED, "num_workers: a stream")
    assert refused(start({"n": "override", "refused": {"batch_size": "x"}}), {"batch_size": 8}) == (
        Cause.SIZE_NOT_SET,
        "batch_size: x",
    )


PLACE = "train.py:9"


class Ranks:
    """Two ranks with a batch each 0.1 s; the first has had its batches after 3 s, the second then waits for it.

    It is over when it had a Ctrl-C, if it `hears` one. Time is what the beats say.
    """

    log = Path("none")

    def __init__(self, *, hears: bool = True, says: bool = True) -> None:
        self.timeline = Timeline()
        for rank in range(2):
            loader = {"n": "loader", "id": 1, "where": PLACE, "num_workers": 0, "batch_size": 8}
            iterated = Event(rank, Record(Kind.ITERATOR, 0, 0, 0, 1, 1, 0, 1, 0))
            self.timeline.take([Note(rank, loader), iterated])  # type: ignore[arg-type] # plain JSON
        self.hears, self.says = hears, says
        self.seconds = 0.0
        self.status: int | None = None
        self.interrupted: set[int] = set()

    def beat(self) -> bool:
        self.seconds += 0.1
        t = round(self.seconds * NS)
        if self.seconds < 3:
            self.timeline.take([Event(rank, Record(Kind.BATCH, 0, t, t, 1, 0, 0, 0, 8)) for rank in range(2)])
        elif self.says:
            self.timeline.take([Note(0, {"n": "trial", "batches": 29})])
            self.says = False
        return self.status is None

    def interrupt(self, among: set[int]) -> None:
        self.interrupted = among
        self.status = 1 if self.hears else None

    def memory(self) -> None:
        return None

    def features(self) -> Features:
        return replace(RUN, exit_code=self.status)


def waited(ranks: Ranks) -> Fault | None:
    """Return why they had to be ended."""
    plan = StartPlan(command=("x",), cwd=".", folder=Path(), seconds=3.0)
    return _follow(ranks, plan, PLACE, 60.0, None)[0]  # type: ignore[arg-type] # a stand-in


@pytest.mark.parametrize(("hears", "most"), [(True, 9.0), (False, 20.0)])
def test_ranks_that_wait_for_one_that_has_had_its_batches_are_ended_soon(*, hears: bool, most: float) -> None:
    ranks = Ranks(hears=hears)
    assert waited(ranks) is None
    assert ranks.interrupted == {1}
    assert ranks.seconds < most


def test_ranks_of_whom_none_has_had_its_batches_may_be_stuck() -> None:
    ranks = Ranks(says=False)
    fault = waited(ranks)
    assert fault is not None
    assert fault.cause is Cause.STUCK
    assert not ranks.interrupted


def test_an_error_of_a_rank_whose_neighbour_has_had_its_batches_is_none() -> None:
    ranks = Ranks()
    waited(ranks)
    found = outcome(ranks, PLACE)  # type: ignore[arg-type] # a stand-in
    assert (found.state, found.exit_code, found.over) == (State.OK, 0, True)
    assert found.rates


def test_an_error_of_a_rank_while_all_train_is_one() -> None:
    ranks = Ranks(says=False)
    waited(ranks)
    ranks.status = 1
    assert outcome(ranks, PLACE).state is State.FAILED  # type: ignore[arg-type] # a stand-in


UNEVEN = """
import os, time
import torch
from torch import distributed
from torch.utils.data import DataLoader, TensorDataset

distributed.init_process_group("gloo")
weight = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
time.sleep(1.0 * distributed.get_rank())  # so its clock begins later
for epoch in range(10000):
    for (batch,) in DataLoader(TensorDataset(torch.ones(800)), batch_size=8):
        ((weight - batch) ** 2).mean().backward()
        distributed.all_reduce(weight.grad)
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.01)
"""


@pytest.mark.slow
def test_ranks_under_a_launcher_end_well_by_clocks_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(UNEVEN)
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    plan = StartPlan(
        command=(sys.executable, *launcher, "train.py"),
        cwd=str(tmp_path),
        folder=tmp_path,
        seconds=3.0,
        environment={"OMP_NUM_THREADS": "1"},
    )
    found = start(plan, "ranks", within=100.0)
    assert (found.state, found.over) == (State.OK, True), (found.why, Path(found.log).read_text())
    assert found.rates
