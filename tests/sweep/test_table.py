"""Trials as CSV: a row each, which a spreadsheet reads as text where it is text."""

import csv
import io

import msgspec

from gputune.sweep.result import MeasuredSetting, Sweep, TrialRow
from gputune.sweep.table import HEAD, Named, table
from gputune.verdict.document import SpeedupRow


def settings(workers: int) -> dict[str, object]:
    return {
        "num_workers": workers, "prefetch_factor": 2 if workers else None, "pin_memory": False,
        "persistent_workers": False, "batch_size": 16,
    }  # fmt: skip


def trial(workers: int, **more: object) -> TrialRow:
    plain = {"predicted": None, "measured": 100.0 * (workers + 1), "state": "ok"}
    return msgspec.convert({**settings(workers), **plain, **more}, TrialRow)


def sweep(*trials: TrialRow) -> Sweep:
    own, best = (msgspec.convert({**settings(n), "samples_per_s": 1.0}, MeasuredSetting) for n in (0, 4))
    return Sweep(
        where="train.py:41", baseline=own, best=best, speedup=SpeedupRow(low=1.0, likely=2.0, high=3.0), ceiling=None,
        trials=list(trials), seconds=1.0, starts=1, stopped=False, effect="identical", says=[], folder="", written="",
    )  # fmt: skip


def rows(*trials: TrialRow, node: str = "") -> list[dict[str, str]]:
    text = table([Named(script="train.py", node=node, sweep=sweep(*trials))])
    return list(csv.DictReader(io.StringIO(text)))


def test_a_row_has_everything_that_is_known_of_a_trial() -> None:
    own, best = rows(trial(0), trial(4, predicted=480.0, low=490.0, high=510.0))
    assert tuple(own) == HEAD
    assert (own["script"], own["where"], own["num_workers"], own["prefetch_factor"]) == (
        "train.py",
        "train.py:41",
        "0",
        "",
    )
    assert (own["is_own"], own["is_best"], best["is_own"], best["is_best"]) == ("1", "0", "0", "1")
    assert (best["measured"], best["predicted"], best["low"], best["pin_memory"]) == ("500.0", "480.0", "490.0", "0")


def test_a_trial_whose_batches_cost_nothing_is_neither_the_best_nor_the_script_s_own() -> None:
    (row,) = rows(trial(4, replayed=True))
    assert (row["replayed"], row["is_own"], row["is_best"]) == ("1", "0", "0")


def test_the_node_is_that_of_the_trial_else_that_of_the_sweep() -> None:
    assert [row["node"] for row in rows(trial(0), trial(4, node="n2"), node="n1")] == ["n1", "n2"]


def test_a_text_is_neither_a_formula_nor_a_control_sequence() -> None:
    (row,) = rows(trial(0, state="failed", why="=HYPERLINK(1)\x1b[2J, and more"))
    assert row["why"] == "'=HYPERLINK(1)\\x1b[2J, and more"
