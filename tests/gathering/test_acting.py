"""Rollouts: where the time of a training goes that steps environments, asks its policy, and learns."""

import pytest

from gputune.core.events import Kind

MS = 1_000_000


def rollout(told, *, steps: int = 10, each: float = 6, between: float = 2, many: int = 4, learns: float = 20,
            late: bool = True, seen: bool = True) -> None:  # fmt: skip
    """Steps of `each` ms with `between` ms from one to the next, then something is learnt; `late`: which is told first.

    Learning begins with 5 ms in which no pass is made.
    """
    t0 = told.at + between
    took, acted = steps * each, (steps - 1) * between
    t1 = t0 + took + acted
    told.at = t1 + learns

    def learning() -> None:
        told.record(Kind.BACKWARD, t1 + 5, told.at - 1)
        told.record(Kind.STEP, told.at, told.at, a=1)

    def stepping() -> None:
        if not seen:
            return
        told.record(Kind.ENVIRONMENT, t0, t1, a=round(took * MS), b=steps, c=many, d=round(acted * MS))

    for tell in (learning, stepping) if late else (stepping, learning):
        tell()


@pytest.mark.parametrize("late", [True, False])
def test_it_is_parted_into_stepping_the_policy_and_learning(untold, late) -> None:
    rollout(untold, seen=late)  # before anything was learnt nothing is told, but with what was learnt
    for _ in range(20):
        rollout(untold, late=late)
    (process,) = untold.features().processes
    assert process.acting is not None
    assert (process.acting.calls, process.acting.environments, process.acting.processes) == (200 + 10 * late, 4, 0)
    assert process.acting.step == pytest.approx(0.006)
    assert process.acting.settling == pytest.approx(0.0005)
    assert process.loop == pytest.approx(20 * 0.100)
    assert process.in_loop["environment"] == pytest.approx(20 * 0.060)
    assert process.in_loop["policy"] == pytest.approx(20 * 0.020, rel=0.01)
    assert process.ledger["environment"] == pytest.approx(20 * 0.060)  # the first rollout is start-up
    assert process.ledger["step"] == pytest.approx(20 * 0.020 + 0.015, rel=0.01)  # start-up ends with the first pass
    assert sum(process.ledger.values()) == pytest.approx(process.wall)


def test_a_step_under_way_is_one_of_an_environment(untold) -> None:
    for _ in range(3):
        rollout(untold)
    before = untold.features().processes[0].ledger["environment"]
    began = untold.at
    untold.open(Kind.ENVIRONMENT, began)
    untold.at += 5000
    process = untold.features().processes[0]
    assert process.ledger["environment"] == pytest.approx(before + 5)
    assert sum(process.ledger.values()) == pytest.approx(process.wall)


def test_without_environments_nothing_is_told_of_them(story) -> None:
    story.iterator()
    story.epoch(5)
    (process,) = story.features().processes
    assert process.acting is None
    assert "policy" not in process.ledger
