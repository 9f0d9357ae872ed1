"""The verdict so far: when it is written, when it is judged anew, and what it may cost."""

import json
import time
from pathlib import Path

import pytest

from gputune.core.events import Event, FetchCode, Kind, Record
from gputune.core.sample import Guest, Note
from gputune.core.units import NS
from gputune.gathering import Gatherer
from gputune.launch.run import WatchedRun, WatchOptions
from gputune.recording.folder import LIVE
from gputune.tuning import reported as told
from gputune.verdict import judging
from gputune.watching.recorder import live
from gputune.watching.recorder.live import DEAREST, FIRST_CPU_S, OLDEST, SHARE, SLOWEST, LiveWriter, differ

LOADER = {"n": "loader", "id": 1, "where": "train.py:41", "num_workers": 0, "prefetch_factor": None, "batch_size": 32}


class Training:
    """A run under way, told second by second; its clock is the one that `live` reads."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        folder.mkdir()
        run = WatchedRun(WatchOptions(("python", "train.py"), price=3600.0), folder=str(folder), rings="", troubles=[])
        self.living = LiveWriter(run)
        self.gatherer = Gatherer(("python", "train.py"), NS)
        self.at = NS
        self.judged: list[int] = []
        self.cpu = 0.0
        self.price = 0.1  # s of CPU for a verdict
        monkeypatch.setattr(live, "now", lambda: self.at)
        monkeypatch.setattr(time, "thread_time", lambda: self.cpu)
        monkeypatch.setattr(judging, "judge", self._judge)
        self.gatherer.take([Guest(0, 100, 1, NS, 0, "main", "ring"), Note(0, LOADER)])
        self._record(Kind.ITERATOR, 0, a=1, b=1, e=1)

    def _judge(self, run, failed=None):
        self.cpu += self.price
        self.judged.append(round(run.wall))
        return []

    def _record(self, kind: int, took: float, code: int = 0, **fields: int) -> None:
        t0, self.at = self.at, self.at + round(took * NS)
        self.gatherer.take([Event(0, Record(kind, code, t0, self.at, **{**dict.fromkeys("abdec", 0), **fields}))])

    def second(self, *, wait: float = 0.05, count: int = 10) -> None:
        """Take `count` batches, each waited for `wait` s, in a second; then look."""
        for _ in range(count):
            t0 = self.at
            self._record(Kind.BATCH, wait, a=1, c=32)
            self.gatherer.take([Event(0, Record(Kind.FETCH, FetchCode.INLINE, t0, self.at, 0, 0, 0, 0, 32))])
            self._record(Kind.STEP, 1 / count - wait, a=1)
        if not count:
            self.at += NS
        self.look()

    def look(self) -> None:
        self.living.look(self.gatherer, (), {})

    @property
    def told(self):
        return json.loads((self.folder / LIVE).read_text())


@pytest.fixture
def training(tmp_path, monkeypatch) -> Training:
    return Training(tmp_path / "run", monkeypatch)


def test_the_first_seconds_are_told_and_judged_once_there_are_batches_enough(training) -> None:
    training.second()
    assert training.told["judged_s"] is None
    assert training.told["whole"]["batches"] == 10
    training.second()
    training.second()
    assert training.judged == [2]
    assert training.told["judged_s"] == 3.0  # it was held against the third second, and stands
    assert training.told["whole"]["spent"]["cost"] == pytest.approx(3.0)


def test_a_first_verdict_is_looked_for_more_often_until_it_is_there(training) -> None:
    assert not training.living.expects(training.gatherer)  # nothing trains yet
    training.second()
    assert training.living.expects(training.gatherer)
    training.second()
    training.second()
    assert training.judged
    assert not training.living.expects(training.gatherer)


def test_but_not_for_ever(training) -> None:
    training.second(count=2)
    for _ in range(25):
        training.second(count=0)
    assert not training.judged
    assert not training.living.expects(training.gatherer)


def test_what_goes_on_as_it_was_is_judged_ever_more_rarely(training) -> None:
    for _ in range(100):
        training.second()
    assert training.judged[0] == 2
    assert len(training.judged) == 3
    assert training.told["updated_s"] >= 60


def test_a_run_that_changes_is_judged_again_and_its_window_apart(training) -> None:
    for _ in range(600):
        training.second()
    before = len(training.judged)
    for _ in range(100):
        training.second(wait=0.09)
    assert len(training.judged) > before
    assert 55 <= training.told["window_s"] <= 110
    assert training.told["window"]["batches"] < training.told["whole"]["batches"]


def test_nothing_is_written_where_nothing_is_new(training) -> None:
    training.second()
    (training.folder / LIVE).unlink()
    for _ in range(10):
        training.second(count=0)
    assert not (training.folder / LIVE).exists()


def test_it_costs_no_more_than_its_budget(training) -> None:
    for second in range(3000):
        training.second(wait=0.05 if second // 100 % 2 else 0.09, count=4)  # it changes all the time
    beyond = 3000 / (OLDEST - SLOWEST) * training.price  # what changes all the time is judged once a minute
    assert training.cpu < FIRST_CPU_S + SHARE * 3000 + beyond
    assert len(training.judged) >= 8


@pytest.mark.parametrize("changes", [False, True])
def test_what_is_told_was_judged_or_found_to_stand_within_the_last_minute(training, changes) -> None:
    for second in range(1500):
        training.second(wait=0.09 if changes and second // 100 % 2 else 0.05)
        if second > 5:
            assert second - training.told["judged_s"] <= OLDEST, second


def test_a_verdict_that_cost_much_is_followed_by_a_longer_pause_and_not_by_none(training) -> None:
    training.price = 3.0  # a machine that is busy with other things
    for second in range(1500):
        training.second(wait=0.09 if second // 100 % 2 else 0.05)
    assert len(training.judged) >= 4
    assert training.cpu <= FIRST_CPU_S + DEAREST * 1500 + 2 * training.price
    training.price = 0.1
    for second in range(1500, 2500):
        training.second(wait=0.09 if second // 100 % 2 else 0.05)
    assert training.told["updated_s"] - training.told["judged_s"] <= OLDEST


def test_a_training_that_stands_still_is_told_of_every_half_a_minute(training) -> None:
    for _ in range(20):
        training.second()
    for _ in range(200):
        training.second(count=0)
    assert 220 - training.told["updated_s"] <= SLOWEST


def test_after_a_verdict_that_cost_too_much_the_numbers_are_half_a_minute_old_at_the_most(training) -> None:
    training.price = 5.0  # a machine that is busy with other things
    for second in range(300):
        training.second()
        assert second + 1 - training.told["updated_s"] <= SLOWEST
    assert training.judged == [2]


def test_what_became_of_a_tuning_is_told_at_once_whatever_a_verdict_cost(training) -> None:
    training.price = 5.0
    for state in (told.WAITING, told.TRYING, told.KEPT, told.LOST):
        for _ in range(3):
            training.second()
        training.living.tuned = told.TuningStory("on", state=state).document()
        training.second()
        assert training.told["whole"]["tuned"]["state"] == state


def test_a_folder_that_cannot_be_written_costs_the_file_only(training) -> None:
    training.folder.rmdir()
    training.second()
    training.second()
    training.living.close()


def test_it_is_gone_at_the_end(training) -> None:
    training.second()
    training.living.close()
    assert list(training.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("after", "new"),
    [
        ({"pace": 10.0, "waiting": 0.5}, False),
        ({"pace": 10.4, "waiting": 0.54}, False),
        ({"pace": 10.6, "waiting": 0.5}, True),
        ({"pace": 10.0, "waiting": 0.44}, True),
        ({"pace": 10.0, "waiting": 0.5, "evaluation": 0.06}, True),
    ],
)
def test_a_change_is_one_of_the_pace_or_of_a_share(after, new) -> None:
    assert differ({"pace": 10.0, "waiting": 0.5}, after) is new
