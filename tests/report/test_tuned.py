"""What a tuning came to, in one sentence."""

import msgspec
import pytest

from gputune.report.terminal import render
from gputune.report.tuned import sentence
from gputune.verdict.building import Overhead, build
from gputune.verdict.document import Settings, SpeedupRow, TriedRow, Tuned

OWN = Settings(num_workers=0, prefetch_factor=None, pin_memory=False, persistent_workers=False)
FOUR = Settings(num_workers=4, prefetch_factor=2, pin_memory=False, persistent_workers=False)
GAIN = SpeedupRow(low=3.7, likely=3.8, high=3.9)
NEXT_TO_NOTHING = SpeedupRow(low=0.98, likely=1.01, high=1.04)
TRIED = TriedRow(settings=FOUR, predicted=3000.0, samples_per_s=3100.0, low=3050.0, high=3150.0, state="ok")
FAILED = msgspec.structs.replace(TRIED, samples_per_s=None, state="failed", why="its workers \x1b[31mdied")
KEPT = Tuned(
    mode="all", state="kept", where="train.py:41", own=OWN, now=FOUR, speedup=GAIN, tries=[TRIED], since_batch=1312
)
SAYS = [
    (
        KEPT,
        "tuned: num_workers=4, prefetch_factor=2 at train.py:41, since batch 1,312: ×3.8 (3.7–3.9) the script's own "
        "settings, measured in turn (1 setting tried)",
    ),
    (
        Tuned(mode="all", state="healthy", why="it waits for batches 1% of the time"),
        "not tuned, and nothing was tried: it waits for batches 1% of the time",
    ),
    (
        Tuned(mode="all", state="unchanged", own=OWN, tries=[TRIED], speedup=NEXT_TO_NOTHING),
        "tuned: nothing is kept, for nothing surely pays; 1 setting tried, the best at ×1.01 (0.98–1.04)",
    ),
    (
        Tuned(mode="all", state="unchanged", own=OWN, tries=[FAILED]),
        "tuned: nothing is kept, for nothing surely pays; 1 setting tried, and num_workers=4, prefetch_factor=2 "
        "failed: its workers \\x1b[31mdied",
    ),
    (Tuned(mode="all", state="refused", why="its dataset is a stream"), "not tuned: its dataset is a stream"),
    (
        Tuned(mode="all", state="lost", why="only 3 GB of memory are left"),
        "tuned, and given up: only 3 GB of memory are left; the script's own settings serve again",
    ),
    (
        Tuned(mode="all", state="trying"),
        "not tuned: it ended after 3,100 batches, in the middle of it; `gputune sweep-loader` starts a script as often "
        "as it needs",
    ),
    (
        Tuned(mode="all", state="trying", why="measuring num_workers=0", own=OWN, tries=[TRIED], speedup=GAIN),
        "not tuned: it ended after 3,100 batches, measuring num_workers=0; 1 setting tried, the best at ×3.8 "
        "(3.7–3.9); `gputune sweep-loader` starts a script as often as it needs",
    ),
    (
        Tuned(mode="all", state="waiting"),
        "not tuned: it ended after 3,100 batches, before anything could be told of its loader; "
        "`gputune sweep-loader` starts a script as often as it needs",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("tuned", "says"), SAYS, ids=[f"{n} {tuned.state}" for n, (tuned, _) in enumerate(SAYS)])
def test_each_end_has_its_sentence(features, tuned, says) -> None:
    verdict = build(features(), [], overhead=Overhead(), tuned=tuned)
    assert sentence(verdict) == says
    assert says.split()[0] in render(verdict)


def test_what_differs_is_said(features) -> None:
    tuned = msgspec.structs.replace(KEPT, differs="its samples draw random numbers")
    assert sentence(build(features(), [], overhead=Overhead(), tuned=tuned)).endswith(
        "; its samples draw random numbers"
    )


def test_nothing_is_said_of_what_nobody_asked_for(features) -> None:
    verdict = build(features(), [], overhead=Overhead())
    assert sentence(verdict) == ""
    assert "tuned" not in render(verdict)


def test_a_script_without_a_loader_is_told_so(features, process) -> None:
    verdict = build(
        features(processes=(process(loaders=()),)), [], overhead=Overhead(), tuned=Tuned(mode="all", state="waiting")
    )
    assert sentence(verdict) == "not tuned: no DataLoader was iterated for training"


def test_a_run_that_was_switched_is_not_offered_for_a_proof(features, finding) -> None:
    for tuned, word in ((None, "prove"), (KEPT, "report")):
        verdict = build(features(), [finding()], overhead=Overhead(), tuned=tuned)
        assert f"gputune {word} run" in render(verdict, run_folder="run")
