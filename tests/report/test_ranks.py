"""Ranks are shown one by one only where they differ."""

from typing import Any

from gputune.report.ranks import counted, rank_rows
from gputune.verdict.document import ProcessRow


def row(rank: int | None, own: float | None, **differs: Any) -> ProcessRow:
    facts: dict[str, Any] = {
        "pid": 100, "rank": rank, "seen": True, "why": "", "wall_s": 9.0, "startup_s": 1.0, "loop_s": 8.0,
        "batches": 100, "optimizer_steps": 100, "samples_per_s": 400.0, "own_s": own,
        "apart_s": None if own is None else 0.030 - own,
    }  # fmt: skip
    return ProcessRow(**{**facts, **differs})


def test_one_process_or_equal_ranks_need_no_rows() -> None:
    assert rank_rows([row(None, None)], 80) == []
    assert rank_rows([row(0, 0.010), row(1, 0.0105)], 80) == []
    assert rank_rows([row(0, None), row(1, None)], 80) == []


def test_slowest_median_and_fastest_speak_for_all() -> None:
    rows = rank_rows([row(r, own) for r, own in enumerate((0.010, 0.012, 0.025, 0.011, 0.013))], 100)
    assert rows == [
        "   rank 2 · 25 ms a step, then 5 ms with the others · 100 batches · slowest",
        "   rank 1 · 12 ms a step, then 18 ms with the others · 100 batches · median",
        "   rank 0 · 10 ms a step, then 20 ms with the others · 100 batches · fastest",
    ]


def test_two_ranks_are_two_rows() -> None:
    rows = rank_rows([row(0, 0.010), row(1, 0.020, host="node-b")], 100)
    assert [line.split(" · ")[0] for line in rows] == ["   rank 1 on node-b", "   rank 0"]


def test_a_loop_without_a_loader_is_counted_in_steps() -> None:
    assert rank_rows([row(0, 0.010, batches=0), row(1, 0.020, batches=0)], 100)[0].endswith("100 steps")


def test_unequal_shares_are_a_difference() -> None:
    assert len(rank_rows([row(0, None), row(1, None, batches=200)], 80)) == 2


def test_no_row_is_wider_than_the_terminal_and_no_name_acts_on_it() -> None:
    rows = rank_rows([row(0, 0.010, host="\x1b]52;" + "x" * 99), row(1, 0.020)], 60)
    assert all(len(line) <= 60 and "\x1b" not in line for line in rows)


def test_ranks_that_were_not_all_seen_are_not_compared() -> None:
    assert rank_rows([row(0, 0.010), row(1, 0.020), row(None, None, seen=False)], 80) == []


def test_ranks_are_counted_and_so_are_those_that_are_missing() -> None:
    assert counted([]) == counted([row(None, None)]) == counted([row(0, None, world_size=1)]) == ""
    assert counted([row(r, None, world_size=2) for r in range(2)]) == "2 ranks"
    assert counted([row(r, None, world_size=8) for r in range(2)]) == "2 of 8 ranks"
    assert counted([row(5, None, world_size=8)]) == "1 of 8 ranks"
    assert counted([row(None, None), row(None, None)]) == "2 training processes"
    assert counted([row(0, None, world_size=2), row(None, None, seen=False)]) == "2 training processes"
