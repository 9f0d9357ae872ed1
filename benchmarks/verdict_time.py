"""How long after the end of an hour's run its verdict is there: features, every advisor, the document, the words.

The hour is the made-up one of `recording_size.py`, 180,000 batches with their fetches.
"""

import random
import time

from common import emit, figure
from recording_size import START, STEP, batches, ticks

from gputune.core.events import Event, Kind, Record
from gputune.core.sample import Guest, Note, Reading
from gputune.gathering import Gatherer
from gputune.report.terminal import render
from gputune.verdict import judging
from gputune.verdict.building import Overhead, build, to_json

HOUR = 3600
ROUNDS = 7
BUDGET = 0.3


def story() -> list[Reading]:
    """Return who takes part in the made-up hour: a training process, its worker, its loader."""
    settings = {"num_workers": 4, "prefetch_factor": 2, "batch_size": 32, "where": "train.py:41"}
    return [
        Guest(0, 100, 1, START, 0, "main", "ring"),
        *(Guest(i, 100 + i, 100, START, 0, "worker", "ring") for i in range(1, 5)),
        Note(0, {"n": "loader", "id": 1, **settings}),
        Event(0, Record(Kind.ITERATOR, 0, START, START + 1000, 1, 1, 0, 1, 4)),
        *(Event(0, Record(Kind.MEMBER, 0, START, START, 1, 100 + i, 0, 0, i)) for i in range(1, 5)),
    ]


def main() -> None:
    """Measure and print."""
    gatherer = Gatherer(("python", "train.py"), START)
    gatherer.take(story())
    verdicts = []
    stream = batches(random.Random(2))
    ahead = next(stream)
    for t, readings in ticks(HOUR, random.Random(1)):
        while ahead.record.t1 <= t:
            readings.append(ahead)
            ahead = next(stream)
        gatherer.take(readings)
    for _ in range(ROUNDS):
        began = time.perf_counter()
        features = gatherer.features(START + HOUR * 1_000_000_000, exit_code=0)
        document = build(features, judging.judge(features), overhead=Overhead())
        to_json(document)
        render(document, width=80, colour=False, run_folder="run")
        verdicts.append(time.perf_counter() - began)
    count = features.processes[0].batches
    if count < 0.9 * HOUR / STEP:
        raise SystemExit(f"only {count} batches were gathered: the figure would be of another run")
    emit([figure("verdict after the end of an hour's run", "s", verdicts, BUDGET, f"{count} batches")])


if __name__ == "__main__":
    main()
