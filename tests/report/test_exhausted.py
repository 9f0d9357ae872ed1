"""A device whose memory ran out is one sentence, in the units of torch's own message."""

from collections.abc import Callable
from typing import Any

from gputune.features import Features, OutOfMemory
from gputune.report.exhausted import sentence, size
from gputune.report.terminal import render
from gputune.verdict.building import Overhead, build
from gputune.verdict.document import OutOfMemoryRow

GIB = 2**30
Make = Callable[..., Features]


def row(**changes: Any) -> OutOfMemoryRow:
    facts: dict[str, Any] = {
        "gpu": "0", "name": "NVIDIA H200", "pid": 1, "rank": None, "where": "train.py:31", "times": 1, "ended": True,
        "went_on": False, "asked_bytes": 2 * GIB, "live_bytes": 77 * GIB, "reserved_bytes": 78 * GIB,
        "free_bytes": GIB, "total_bytes": 80 * GIB, "others_bytes": None, "others_count": None, "fragmented": False,
        "capped": False, "growth_bytes_per_step": None,
    }  # fmt: skip
    return OutOfMemoryRow(**{**facts, **changes})


HELD = (
    "(tried to allocate 2.00 GiB where 1.00 GiB were free; 78.0 GiB of 80.0 GiB held by this process, "
    "1.00 GiB of it reserved but unused)"
)


def test_memory_that_never_ran_out_is_no_sentence() -> None:
    assert sentence([]) == ""


def test_says_where_and_what_had_grown() -> None:
    said = sentence([row(growth_bytes_per_step=GIB)])
    assert said == f"out of memory on GPU 0 at train.py:31 {HELD}; it grew by 1.00 GiB a step before"


def test_memory_in_pieces_is_told_with_the_setting_that_helps() -> None:
    said = sentence([row(fragmented=True)])
    assert "; in one piece it would have been enough: set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in said


def test_who_else_held_what_lacks_is_told() -> None:
    assert sentence([row(others_bytes=40 * GIB, others_count=2)]).endswith("; 2 processes of others held 40.0 GiB")
    assert sentence([row(others_bytes=GIB // 2, others_count=1)]).endswith("unused)")


def test_a_process_that_may_have_no_more_is_told_so() -> None:
    assert "this process may not have it" in sentence([row(capped=True, free_bytes=40 * GIB)])


def test_what_the_script_caught_ended_nothing() -> None:
    said = sentence([row(ended=False, went_on=True, times=3)])
    assert said.startswith("out of memory on GPU 0 at train.py:31, 3 times (")
    assert said.endswith("; the script caught it and trained on")


def test_of_several_ranks_the_first_speaks() -> None:
    said = sentence([row(rank=2), row(rank=0), row(rank=1, ended=False)])
    assert said.startswith("out of memory on GPU 0 at train.py:31 on rank 2, and in 1 more process (")


def test_sizes_are_binary() -> None:
    assert [size(n) for n in (512, 3 << 20, 20 << 20, 5 << 29)] == ["0 KiB", "3.00 MiB", "20.0 MiB", "2.50 GiB"]


def test_the_verdict_shows_it(features: Make) -> None:
    found = OutOfMemory(
        gpu="0", index="0", pid=1, rank=None, where="big.py:6", asked=3 * GIB, live=GIB, reserved=GIB, free=GIB,
        total=None,
    )  # fmt: skip
    verdict = build(features(exit_code=1, out_of_memory=(found,)), [], overhead=Overhead())
    text = " ".join(render(verdict, width=80, colour=False, run_folder=None).split())
    assert "out of memory on GPU 0 at big.py:6 (tried to allocate 3.00 GiB where 1.00 GiB were free;" in text
    nothing = build(features(exit_code=1, processes=(), out_of_memory=(found,)), [], overhead=Overhead())
    assert "gputune doctor" not in render(nothing, width=80, colour=False, run_folder=None)
