"""What each worker makes of an iterable dataset is its own part: where one worker's takes longer, it is there to stay.

Batches of a dataset with an index go to the worker whose turn it is. An iterable dataset cuts itself into parts, as a
site or a shard for each worker, and nobody else makes what belongs to a slow or a heavy one: whatever the order in
which batches are delivered and however many are made ahead, a pass takes as long as the part that takes longest. What
helps is to cut it anew.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

from gputune.features import Fetch, Loader
from gputune.model.replay import Work

APART = 1.5  # times the others: a worker so slow is another kind of worker, a part so long another kind of part
ENOUGH = 5  # batches of each worker to compare workers by


def slow_worker(fetches: Sequence[Fetch]) -> tuple[int, float] | None:
    """Return (worker, times the others' median batch) where one worker is slower than all others, else None."""
    middle = {worker: median(f.wall for f in found) for worker, found in _made_by(fetches).items()}
    if len(middle) < 2:
        return None
    slowest = max(middle, key=lambda worker: middle[worker])
    others = max(value for worker, value in middle.items() if worker != slowest)
    return (slowest, middle[slowest] / others) if others and middle[slowest] >= APART * others else None


def longest_part(loader: Loader) -> int | None:
    """Return the worker whose own part of an iterable dataset takes longer than the others'; None where none does.

    Be it that its batches are slow or that it has more of them. Single batches that are far from all others are no
    part of anybody's: each counts as that worker's median.
    """
    numbers = Counter(fetch.worker for fetch in loader.fetches if fetch.worker >= 0)
    if not loader.iterable or loader.num_workers < 2 or max(numbers.values(), default=0) < ENOUGH:
        return None
    takes = [
        numbers[worker] * median([f.wall for f in loader.fetches if f.worker == worker] or [0.0])
        for worker in range(loader.num_workers)
    ]
    most = max(range(loader.num_workers), key=lambda worker: takes[worker])
    return most if takes[most] >= APART * median(takes[:most] + takes[most + 1 :]) else None


def heavy_part(loader: Loader) -> tuple[int, float] | None:
    """Return the worker that has more batches to make than the others, and its share of them; None where none has.

    None as well where its batches are slow: then it is no question of their number.
    """
    worker = longest_part(loader)
    if worker is None or slow_worker(loader.fetches) is not None:
        return None
    made = loader.made_by or Counter(fetch.worker for fetch in loader.fetches)
    return worker, made.get(worker, 0) / max(1, sum(made.values()))


def longest(loader: Loader, works: Sequence[Work]) -> float:
    """Return the s for each batch of a pass that its longest part takes alone, 0 where none is longer than others.

    `works` are the same batches as the loader's `fetches`.
    """
    worker = longest_part(loader)
    if worker is None:
        return 0.0
    pairs = zip(works, loader.fetches, strict=True)
    return sum(w.cpu + w.blocked + w.disk for w, f in pairs if f.worker == worker) / len(loader.fetches)


def in_turn(fetches: Sequence[Fetch]) -> tuple[Fetch, ...]:
    """Return the batches as they come where each worker has a share of each part and takes one of each in turn."""
    return tuple(_nobodys(_turns(list(_made_by(fetches).values()))))


def one_by_one(fetches: Sequence[Fetch]) -> tuple[Fetch, ...]:
    """Return the batches as they come where all workers make their shares of one part, and then those of the next."""
    return tuple(_nobodys(fetch for part in _made_by(fetches).values() for fetch in part))


def _turns(parts: Sequence[Sequence[Fetch]]) -> Iterator[Fetch]:
    """Yield a batch of each part a round, each time beginning with another part: no two workers are at the same."""
    for number in range(max(map(len, parts), default=0)):
        for place in range(len(parts)):
            part = parts[(place + number) % len(parts)]
            if number < len(part):
                yield part[number]


def _nobodys(fetches: Iterator[Fetch]) -> Iterator[Fetch]:
    return (replace(fetch, worker=-1) for fetch in fetches)


def _made_by(fetches: Sequence[Fetch]) -> dict[int, list[Fetch]]:
    """Return the batches of each worker that made enough of them."""
    found: dict[int, list[Fetch]] = {}
    for fetch in fetches:
        if fetch.worker >= 0:
            found.setdefault(fetch.worker, []).append(fetch)
    return {worker: made for worker, made in found.items() if len(made) >= ENOUGH}
