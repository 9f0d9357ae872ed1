"""What the advisors of pauses share: intervals that people type, and the process that loses most."""

from dataclasses import replace

import pytest

from gputune.features import Drawn, Features, Machine, Place, Process
from gputune.model.pauses import AFFORDABLE, Words, advise_pause, rarer

WORDS = Words(id="often", span="logging", one="a log line", verb="log", change="every", least=0.05)


def process(*, share: float, pid: int = 1, count: int = 100, steps: int = 100, loop: float = 10.0) -> Process:
    """A loop without a loader that spends `share` of its time in log lines."""
    place = Place(span="logging", where="a.py:1", what="print", count=count, seconds=share * loop)
    return Process(
        pid=pid, rank=None, wall=loop, ledger={}, inclusive={}, in_loop={"logging": share * loop}, loop=loop,
        batches=0, samples=0, optimizer_steps=steps,
        places=(place,) if count else (),
    )  # fmt: skip


def run(*processes: Process) -> Features:
    return Features(command=("x",), wall=10.0, machine=Machine(cpus=1, cpus_seen=1), processes=processes)


@pytest.mark.parametrize(
    ("factor", "expected"),
    [(0.1, 2), (1, 2), (2, 2), (2.01, 5), (5, 5), (7, 10), (11, 20), (49, 50), (99, 100), (101, 200)],
)
def test_factors_are_rounded_up_to_what_people_type(factor, expected) -> None:
    assert rarer(factor) == expected


def test_is_silent_without_processes_and_without_pauses() -> None:
    assert advise_pause(run(), WORDS) is None
    assert advise_pause(run(process(share=0.0)), WORDS) is None
    assert advise_pause(run(process(share=0.5, loop=0.0)), WORDS) is None


def test_is_silent_below_what_is_worth_saying() -> None:
    assert advise_pause(run(process(share=0.049)), WORDS) is None


def test_the_process_that_loses_most_is_the_one_that_is_spoken_of() -> None:
    finding = advise_pause(run(process(share=0.1), process(share=0.4, pid=2)), WORDS)
    assert finding is not None
    assert finding.evidence["share"] == pytest.approx(0.4)


def test_the_named_interval_leaves_the_pause_what_it_may_cost() -> None:
    finding = advise_pause(run(process(share=0.4)), WORDS)
    assert finding is not None
    factor = finding.evidence["factor"]
    assert 0.4 / factor <= AFFORDABLE
    assert finding.change == {"every": factor}
    plain = 1 / (1 - 0.4 * (1 - 1 / factor))
    assert finding.speedup.low < plain < finding.speedup.high
    assert finding.speedup.likely == pytest.approx(plain)
    assert finding.share_lost == pytest.approx(1 - 1 / finding.speedup.likely)


def test_several_log_lines_a_step_become_fewer_steps_with_one() -> None:
    finding = advise_pause(run(process(share=0.4, count=500, steps=100)), WORDS)
    assert finding is not None
    assert "5 times a step" in finding.says
    assert "every step" in finding.do
    assert isinstance(finding.change["every"], int)


def test_a_pause_of_which_no_place_is_known_is_still_a_pause() -> None:
    finding = advise_pause(run(process(share=0.4, count=0)), WORDS)
    assert finding is not None
    assert finding.where == ""


def test_a_loop_that_is_nothing_but_pauses_is_not_promised_the_moon() -> None:
    finding = advise_pause(run(process(share=1.0)), WORDS)
    assert finding is not None
    assert finding.speedup.high <= 110


def test_a_rank_that_pauses_alone_is_named() -> None:
    ranks = [replace(process(share=share, pid=rank), rank=rank) for rank, share in enumerate((0.4, 0.01))]
    finding = advise_pause(run(*ranks), WORDS)
    assert finding is not None
    assert "40% of the loop of rank 0 (" in finding.says
    both = advise_pause(run(ranks[0], replace(ranks[0], pid=2, rank=1)), WORDS)
    assert both is not None
    assert "40% of the loop (" in both.says


@pytest.mark.parametrize(
    ("drawn", "effect", "because"),
    [
        (None, "unknown", "was not seen"),
        (Drawn(), "identical", ""),
        (Drawn(unsure=True), "unknown", "was not seen apart"),
        (
            Drawn(of=frozenset({"torch"})),
            "changes-order",
            "a log line draws from a generator that the training may use (torch)",
        ),
        (
            Drawn(of=frozenset({"own", "random", "torch"}), shared=frozenset({"own", "torch"}), unsure=True),
            "changes-order",
            "a log line draws from the same generator as the training (that of its DataLoader, torch)",
        ),
    ],
)
def test_what_rarer_pauses_do_is_told_as_the_generators_were_seen(drawn, effect, because) -> None:
    looked = replace(process(share=0.5), draws={} if drawn is None else {"logging": drawn, "checkpoint": Drawn()})
    finding = advise_pause(run(looked), WORDS)
    assert finding is not None
    assert finding.effect == effect
    assert because in finding.because
    assert bool(because) == bool(finding.because)
