"""frequent-checkpoint speaks when saving takes a large part of the loop."""

import pytest

from gputune.advisors.frequent_checkpoint import advise
from gputune.core.finding import WORTH_SAYING
from gputune.features import Place
from gputune.model.prediction import ERROR
from gputune.verdict.judging import judge

STEPS = (0.025, 0.025, 0.025, 0.025, 0.050)  # s; the last of five saves


def saved(*, each: float, every: int, batches: int = 1000, **differs) -> dict:
    """A loop of 10 ms steps that saves every `every` steps for `each` s, inside a step, with the data always ready."""
    pause = [0.0] * (every - 1) + [each]
    count = batches // every
    return {
        "num_workers": 4,
        "blocked": 0.002,
        "steps": [0.010 + p for p in pause],
        "pauses": {"checkpoint": pause},
        "waits": (0.0004,),
        "batches": batches,
        "kept": batches,
        "places": (
            Place(span="checkpoint", where="train.py:70", what="torch.save", count=count, seconds=count * each),
        ),
        **differs,
    }


def test_is_silent_about_rare_checkpoints(run) -> None:
    assert list(advise(run(**saved(each=0.100, every=500)))) == []


def test_is_silent_about_a_checkpoint_after_the_loop(run) -> None:
    """What is saved once training is over is not in the loop at all."""
    assert list(advise(run(places=(Place(span="checkpoint", where="a.py:1", what="x", count=1, seconds=9.0),)))) == []


def test_says_how_often_where_and_how_long(run) -> None:
    (finding,) = advise(run(**saved(each=0.200, every=20)))
    assert finding.id == "frequent-checkpoint"
    assert finding.says.startswith("a checkpoint every 20 steps takes 49% of the loop (200 ms each, torch.save)")
    assert finding.where == "train.py:70"
    assert finding.evidence["each_s"] == pytest.approx(0.2)


def test_a_checkpoint_of_many_files_is_one(run) -> None:
    """It has a file a tensor, saved at the same line: 24 calls are one pause."""
    files = Place(span="checkpoint", where="train.py:70", what="numpy.save", count=50 * 24, seconds=50 * 0.200)
    (finding,) = advise(run(**saved(each=0.200, every=20, places=(files,))))
    assert finding.says.startswith("a checkpoint every 20 steps takes 49% of the loop (200 ms each, numpy.save)")
    assert finding.change == {"checkpoint_interval": 1000}


def test_promises_what_the_named_interval_gives_back(run) -> None:
    (finding,) = advise(run(**saved(each=0.200, every=20)))
    assert finding.change == {"checkpoint_interval": 1000}
    plain = 0.0204 / (0.0104 + 0.0002)
    assert finding.speedup.likely == pytest.approx(plain)
    assert finding.speedup.low < plain < finding.speedup.high
    assert (finding.effect, bool(finding.because)) == ("unknown", True)  # nobody looked; see tests/model/test_pauses.py


def test_saving_a_tenth_of_the_loop_away_is_sure_to_cost_though_steps_of_another_run_may_be_slower(run) -> None:
    """The pauses are measured; the interval holds runs whose steps take longer without them."""
    (finding,) = advise(run(**saved(each=0.0065, every=5)))
    assert finding.evidence["share"] == pytest.approx(0.11, abs=0.005)
    assert finding.speedup.low < 1.07
    assert finding.speedup.sure == pytest.approx(1 + (finding.speedup.likely - 1) * (1 - ERROR))
    assert finding.speedup.sure >= WORTH_SAYING


def test_what_is_more_than_a_twentieth_of_the_loop_is_told(run) -> None:
    """What may be wrong about pauses that were measured is a share of them."""
    assert [f.id for f in judge(run(**saved(each=0.0046, every=5)))] == ["frequent-checkpoint"]
    assert judge(run(**saved(each=0.0024, every=5))) == []


def test_checkpoints_are_told_beside_a_loader_that_is_waited_for(run) -> None:
    """Two causes, and none of the seconds of one is the other's."""
    slow = run(**saved(each=0.025, every=5, num_workers=0, blocked=0.0, cpu=0.014, waits=(0.014,), steps=STEPS))
    found = [f.id for f in judge(slow)]
    assert set(found) >= {"few-workers", "frequent-checkpoint"}


@pytest.mark.parametrize("every", [130, 300, 450])
def test_a_rare_but_long_checkpoint_is_worth_the_same_wherever_it_falls(run, every) -> None:
    """The pause is as long as the steps between two of them: half of the loop."""
    (finding,) = advise(run(**saved(each=0.010 * every, every=every, batches=1800)))
    assert finding.speedup.likely == pytest.approx(1.95, rel=0.08)


def test_a_pause_that_lets_the_queue_fill_is_not_wholly_lost(run) -> None:
    """The workers fall behind and catch up in every pause: without it, the loop waits for them instead."""
    behind = saved(each=0.050, every=10, num_workers=1, prefetch_factor=8, blocked=0.0135, waits=(0.0005,))
    (finding,) = advise(run(**behind))
    assert finding.speedup.likely < 1.2


def test_a_checkpoint_between_epochs_is_wholly_lost(run) -> None:
    (finding,) = advise(run(num_workers=4, step=0.010, batches=1000, between={"checkpoint": 10.5}))
    assert finding.speedup.likely == pytest.approx(21 / 10.7, rel=0.05)


def test_syncing_a_file_that_was_saved_does_not_make_checkpoints_look_twice_as_frequent(run) -> None:
    both = (
        Place(span="checkpoint", where="train.py:70", what="torch.save", count=50, seconds=8.0),
        Place(span="checkpoint", where="train.py:71", what="os.fsync", count=50, seconds=2.0),
    )
    (finding,) = advise(run(**saved(each=0.200, every=20, places=both)))
    assert "every 20 steps" in finding.says
    assert finding.change == {"checkpoint_interval": 1000}


def test_two_loaders_that_take_turns_do_not_count_a_pause_twice(run) -> None:
    from dataclasses import replace

    plain = run(**saved(each=0.010, every=2))
    process = plain.processes[0]
    twice = replace(plain, processes=(replace(process, loaders=process.loaders * 2),))
    (finding,) = advise(twice)
    share = process.in_loop["checkpoint"] / process.loop
    assert finding.speedup.low <= 1 / (1 - share)
