"""What a number of workers does to the samples: as it was measured with torch."""

import pytest

from gputune.effects import of_workers
from gputune.features import Loader


def loader(workers: int, **differs: object) -> Loader:
    facts = {"where": "t.py:1", "prefetch_factor": 2, "pin_memory": False, "persistent_workers": False, "batch_size": 4}
    return Loader(num_workers=workers, **{**facts, **differs})


@pytest.mark.parametrize(
    ("now", "then", "persistent", "differs", "effect"),
    [
        (2, 6, False, {}, "same-order"),
        (6, 2, True, {"persistent_workers": True}, "same-order"),
        (0, 4, False, {}, "changes-order"),
        (0, 4, False, {"order": "shared"}, "changes-order"),
        (0, 4, False, {"order": "shared", "draws": True}, "changes-order"),
        (0, 4, False, {"order": "shared", "draws": False}, "same-order"),
        (0, 4, False, {"order": "own", "draws": True}, "same-order"),
        (0, 4, False, {"order": "fixed", "draws": True}, "same-order"),
        (0, 4, True, {"order": "shared", "draws": False}, "changes-order"),
        (0, 4, True, {"order": "own"}, "changes-order"),
        (0, 4, True, {"order": "fixed"}, "same-order"),
        (4, 0, False, {}, "changes-order"),
        (2, 4, True, {}, "changes-order"),
        (0, 4, False, {"iterable": True}, "may-duplicate"),
        (2, 4, False, {"iterable": True, "shards": False}, "may-duplicate"),
        (2, 4, False, {"iterable": True, "shards": True}, "changes-order"),
        (0, 1, False, {"iterable": True}, "changes-order"),
        (4, 4, True, {"iterable": True, "shards": False}, "changes-order"),
    ],
)
def test_the_effect_of_a_number_of_workers(now, then, persistent, differs, effect) -> None:
    assert of_workers(loader(now, **differs), then, persistent=persistent) == effect
