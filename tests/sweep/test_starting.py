"""Why a start failed: memory is told from everything else, in one sentence."""

from dataclasses import replace
from pathlib import Path

import pytest

from gputune.features import Features, Machine
from gputune.sweep.starting import Start, State, failure, refused

RUN = Features(command=("x",), wall=1.0, machine=Machine(cpus=2, cpus_seen=2), exit_code=1)


@pytest.mark.parametrize(
    ("said", "state", "why"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", State.OOM, "out of memory"),
        ("RuntimeError: DefaultCPUAllocator: can't allocate memory", State.OOM, "out of memory"),
        ("MemoryError", State.OOM, "out of memory"),
        ("RuntimeError: unable to write to file </torch_1_2_3>: no shared memory left", State.OOM, "/dev/shm"),
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error.", State.OOM, "/dev/shm"),
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Segmentation fault.", State.FAILED, "pid 7"),
        ("_pickle.PicklingError: Can't pickle <function <lambda> at 0x1>", State.FAILED, "handed to workers"),
        ("ValueError: no such thing", State.FAILED, "status 1: ValueError: no such thing"),
        ("", State.FAILED, "status 1"),
    ],
)
def test_the_log_tells_why(tmp_path: Path, said: str, state: State, why: str) -> None:
    log = tmp_path / "1.log"
    log.write_text(f"epoch 1\n{said}\n" if said else "")
    found = failure(log, "it left with status 1", RUN)
    assert found[0] is state
    assert why in found[1]


def test_what_was_caught_long_before_is_not_why(tmp_path: Path) -> None:
    log = tmp_path / "1.log"
    log.write_text("RuntimeError: CUDA out of memory (caught)\n" + "step\n" * 80 + "ValueError: no such thing\n")
    assert failure(log, "it left with status 1", RUN) == (
        State.FAILED,
        "it left with status 1: ValueError: no such thing",
    )


def test_a_script_that_says_so_and_leaves_by_itself_is_quoted_with_its_status(tmp_path: Path) -> None:
    log = tmp_path / "1.log"
    log.write_text("CUDA out of memory, giving up\n")
    state, why = failure(log, "it left with status 3", replace(RUN, exit_code=3))
    assert state is State.OOM
    assert "by its last words" in why
    assert "status 3" in why


def test_a_kill_by_the_kernel_is_a_want_of_memory(tmp_path: Path) -> None:
    assert failure(tmp_path / "none", "x", replace(RUN, oom_kills=(1, "machine")))[0] is State.OOM
    assert failure(tmp_path / "none", "x", replace(RUN, exit_code=137))[0] is State.OOM


def test_a_change_that_was_not_made_is_told() -> None:
    def start(*notes: dict[str, object]) -> Start:
        return Start(state=State.OK, log="", notes=notes)  # type: ignore[arg-type] # plain JSON

    wanted = {"num_workers": 4}
    made = {"n": "override", "change": wanted, "refused": {}}
    assert refused(start(made), wanted) == ""
    assert refused(start(), {}) == ""
    assert "not built" in refused(start({"n": "trial", "batches": 3}), wanted)
    assert refused(start({"n": "override", "refused": {"num_workers": "a stream"}}), wanted) == "num_workers: a stream"
