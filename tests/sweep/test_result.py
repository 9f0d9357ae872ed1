"""The document has what the contract says, and the words say the same."""

import json
from dataclasses import replace

from gputune.experiment.filling import Filled
from gputune.experiment.measured import gain
from gputune.experiment.starting import State
from gputune.features import Loader
from gputune.sweep.batches import Size
from gputune.sweep.choosing import SettingStats
from gputune.sweep.limits import Limits
from gputune.sweep.result import Outcomes, document, words
from gputune.sweep.search import Found, Outcome
from gputune.sweep.settings import LoaderSetting, setting
from gputune.verdict.document import to_json

LOADER = Loader(
    where="train.py:41", num_workers=0, prefetch_factor=None, pin_memory=False, persistent_workers=False, batch_size=16
)


def workers(number: int, size: int = 16) -> LoaderSetting:
    return setting(number, 4, pin_memory=False, persistent=False, batch_size=size)


def stats(wanted: LoaderSetting, rate: float) -> SettingStats:
    return SettingStats(setting=wanted, noise=0.01, visits=[[rate] * 10])


def outcomes(best: LoaderSetting, **differs: object) -> Outcomes:
    """A sweep of a script without workers at 400 samples/s; six make 1000, and twelve run out of memory."""
    found = Found(predicted={workers(6): 980.0, workers(12): 1000.0}, memory={workers(6): 2 << 30})
    for wanted, rate in ((workers(0), 400.0), (workers(6), 1000.0)):
        found.all_stats[wanted] = stats(wanted, rate)
    found.failed[workers(12)] = Outcome(state=State.OOM, why="it ran out of \x1b[31mmemory")
    own = found.all_stats[workers(0)]
    chosen = found.all_stats.get(best) or stats(best, 1000.0)
    plain: dict[str, object] = {
        "script": "train.py",
        "loader": LOADER,
        "baseline": own,
        "best": chosen,
        "gain": gain(own, chosen),
        "found": found,
        "limits": Limits(workers=8, batches=1e9, memory=None, worker=1 << 28, batch=1 << 20, script=own.setting),
        "ceiling": 1200.0,
        "seconds": 41.0,
        "starts": 5,
    }
    return Outcomes(**{**plain, **differs})  # type: ignore[arg-type] # by name


def test_the_document_is_that_of_the_contract() -> None:
    made = json.loads(to_json(document(outcomes(workers(6)))))
    assert made["schema_version"] == 1
    assert made["best"] == {
        "num_workers": 6, "prefetch_factor": 4, "pin_memory": False, "persistent_workers": False, "batch_size": 16,
        "samples_per_s": 1000.0,
    }  # fmt: skip
    assert made["baseline"]["num_workers"] == 0
    assert made["baseline"]["prefetch_factor"] is None
    assert [(t["num_workers"], t["state"], t["predicted"], t["measured"]) for t in made["trials"]] == [
        (0, "ok", None, 400.0),
        (6, "ok", 980.0, 1000.0),
        (12, "oom", 1000.0, None),
    ]
    assert (made["trials"][1]["memory"], made["trials"][1]["shm"], made["trials"][1]["speedup"]) == (
        2 << 30,
        25 << 20,
        2.5,
    )
    assert (made["seconds"], made["effect"]) == (41.0, "changes-order")
    assert made["says"] == ["samples may come in another order than with the script's own settings"]


def test_newly_persistent_workers_are_said_to_keep_their_dataset() -> None:
    keeping = replace(workers(6), persistent_workers=True)
    assert any("does not reach them" in line for line in document(outcomes(keeping)).says)
    assert not any("does not reach them" in line for line in document(outcomes(workers(6))).says)


def test_the_words_have_every_setting_and_the_best_in_a_sentence() -> None:
    said = words(document(outcomes(workers(6))), "train.py")
    assert "the loader built at train.py:41" in said
    assert "best: num_workers=6, prefetch_factor=4: ×2.5 (2.4–2.6) the samples/s of the script's own" in said
    assert "oom: it ran out of \\x1b[31mmemory" in said
    assert "about 1,200 samples/s would be the most" in said
    assert "\x1b" not in said


def test_where_nothing_is_better_it_says_so() -> None:
    made = document(outcomes(workers(0)))
    assert made.effect == "identical"
    assert "best: the script's own settings; nothing that was tried is surely faster" in words(made, "train.py")
    assert "the best so far" in words(document(outcomes(workers(0), stopped=True)), "train.py")


def test_where_nothing_was_tried_it_does_not_say_that_something_was() -> None:
    own = stats(workers(0), 400.0)
    alone = Found(predicted={workers(6): 980.0}, all_stats={workers(0): own})
    for differs, expected in (
        ({"measured": False}, "nothing but the script's own settings was measured: which ones are best is not known"),
        ({"stopped": True}, "nothing but the script's own settings was measured"),
        ({}, "best: the script's own settings; no others are predicted to be faster"),
    ):
        made = document(outcomes(workers(0), found=alone, **differs))
        assert expected in words(made, "train.py")
        assert "tried" not in words(made, "train.py")
        assert ("  as it is" in words(made, "train.py")) == (not made.measured)
        assert made.measured == differs.get("measured", True)


def test_batch_sizes_are_rows_and_change_learning() -> None:
    sizes = [
        Size(setting=workers(0, 32), state=State.OK, rate=900.0, filled=Filled(share=0.95)),
        Size(setting=workers(0, 64), state=State.OOM, why="it ran out of memory"),
    ]
    made = document(outcomes(workers(6, 32), sizes=sizes))
    assert made.effect == "changes-learning"
    assert [(row.batch_size, row.replayed, row.state) for row in made.trials[:2]] == [
        (32, True, "ok"),
        (64, True, "oom"),
    ]
    said = words(made, "train.py")
    assert "it filled 95% of the memory of the device" in said
    assert "batch_size=32" in said
