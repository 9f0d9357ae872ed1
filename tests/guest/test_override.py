"""Settings changed as a loader is built: what is asked for and possible, and nothing else of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HEAD = """
import json, torch
from torch.utils.data import *

class Numbers(Dataset):
    def __len__(self):
        return 20
    def __getitem__(self, i):
        return torch.full((4,), float(i))

class Stream(IterableDataset):
    def __iter__(self):
        yield from range(20)

NAMES = ("num_workers", "prefetch_factor", "persistent_workers", "batch_size", "in_order", "pin_memory")

def told(*loaders):
    print(json.dumps([{name: getattr(each, name) for name in NAMES} for each in loaders]))

"""
Watched = Callable[..., Any]


@pytest.fixture
def built(watched: Watched) -> Callable[..., tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Run `code` with rules in force; return the loaders as they came to be, and what was said of them."""

    def run(code: str, *rules: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        done = watched(HEAD + code, env={"GPUTUNE_OVERRIDE": json.dumps(rules)}).healthy()
        return json.loads(done.out), done.notes("override")

    return run


def test_only_the_loader_that_is_named_gets_other_settings(built) -> None:
    code = """
train = DataLoader(Numbers(), batch_size=4, shuffle=True)
valid = DataLoader(Numbers(), batch_size=4)
told(train, valid)
"""
    change = {"num_workers": 3, "prefetch_factor": 4, "persistent_workers": True, "batch_size": 5}
    (train, valid), (note,) = built(code, {"where": "train.py:21", "set": change})
    assert {name: train[name] for name in change} == change
    assert (valid["num_workers"], valid["batch_size"]) == (0, 4)
    assert (note["where"], note["change"], note["refused"]) == ("train.py:21", change, {})


def test_without_a_place_every_loader_that_shuffles_is_meant(built) -> None:
    code = """
told(
    DataLoader(Numbers(), shuffle=True),
    DataLoader(Numbers(), sampler=WeightedRandomSampler([1.0] * 20, 20)),
    DataLoader(Numbers(), batch_sampler=BatchSampler(RandomSampler(Numbers()), 4, True)),
    DataLoader(Numbers()),
)
"""
    loaders, _notes = built(code, {"set": {"num_workers": 2}})
    assert [loader["num_workers"] for loader in loaders] == [2, 2, 2, 0]


def test_samples_come_in_the_order_of_the_sampler_and_each_of_them_once(watched: Watched) -> None:
    code = """
class Mine(DataLoader):
    def __init__(self, dataset, size, **more):
        super().__init__(dataset, size, **more)

if __name__ == "__main__":
    torch.manual_seed(1)
    loader = Mine(Numbers(), 3, sampler=list(reversed(range(20))), drop_last=True)
    assert type(loader) is Mine and len(loader) == 5
    print(json.dumps([int(x) for batch in loader for x in batch[:, 0]]))
"""
    rule = {"where": "train.py:23", "set": {"num_workers": 2, "batch_size": 4}}  # the line that calls DataLoader itself
    run = watched(HEAD + code, env={"GPUTUNE_OVERRIDE": json.dumps([rule])}).healthy()
    assert json.loads(run.out) == list(reversed(range(20)))
    assert len(run.workers) == 2


def test_without_workers_nothing_is_left_of_their_settings(built) -> None:
    code = """
told(DataLoader(Numbers(), 4, True, num_workers=2, prefetch_factor=4, persistent_workers=True, timeout=9))
"""
    (loader,), (note,) = built(code, {"set": {"num_workers": 0}})
    assert (loader["num_workers"], loader["prefetch_factor"], loader["persistent_workers"]) == (0, None, False)
    assert note["before"] == {"num_workers": 2}


def test_a_batch_sampler_of_torch_gets_the_size_and_one_of_theirs_refuses_it(built) -> None:
    code = """
class Buckets(BatchSampler):
    pass

told(
    DataLoader(Numbers(), batch_sampler=BatchSampler(RandomSampler(Numbers()), 4, True)),
    DataLoader(Numbers(), batch_sampler=Buckets(RandomSampler(Numbers()), 4, True)),
    DataLoader(Numbers(), None, True),
)
"""
    _loaders, notes = built(code, {"set": {"batch_size": 10}})
    assert notes[0]["change"] == {"batch_size": 10}
    assert notes[1]["refused"] == {"batch_size": "its batch sampler decides: Buckets"}
    assert notes[2]["refused"] == {"batch_size": "its dataset makes the batches"}


WRONG = [
    ("Stream()", {"num_workers": 2}, "stream"),
    ("Numbers()", {"prefetch_factor": 4}, "needs workers"),
    ("Numbers()", {"persistent_workers": True}, "needs workers"),
    ("Numbers()", {"num_workers": -1}, "no such number"),
    ("Numbers()", {"batch_size": 0}, "no such number"),
    ("Numbers()", {"num_workers": True}, "no such number"),
    ("Numbers()", {"in_order": 0, "num_workers": 2}, "neither true nor false"),
]


def test_what_would_be_wrong_is_refused_with_the_reason(built) -> None:
    code = "made = [\n" + "".join(f"    DataLoader({loader}),\n" for loader, _change, _why in WRONG) + "]\ntold(*made)"
    rules = [{"where": f"train.py:{21 + n}", "set": change} for n, (_loader, change, _why) in enumerate(WRONG)]
    _loaders, notes = built(code, *rules)
    assert len(notes) == len(WRONG)
    for (_loader, _change, why), note in zip(WRONG, notes, strict=True):
        (name,) = note["refused"]
        assert why in note["refused"][name]
        assert name not in note["change"]


def test_a_stream_gets_workers_from_those_who_know_that_samples_may_come_twice(built) -> None:
    rule = {"where": "train.py:20", "set": {"num_workers": 2}, "duplicates": True}
    (loader,), _notes = built("told(DataLoader(Stream()))", rule)
    assert loader["num_workers"] == 2


def test_a_device_that_is_not_there_pins_nothing(built) -> None:
    import torch

    if torch.accelerator.is_available():
        pytest.skip("this machine has a device")
    (loader,), (note,) = built("told(DataLoader(Numbers(), shuffle=True))", {"set": {"pin_memory": True}})
    assert not loader["pin_memory"]
    assert "no device" in note["refused"]["pin_memory"]


def test_their_own_mistakes_are_told_by_torch(watched: Watched) -> None:
    code = """
for wrong in (dict(batch_size=2, nonsense=1), dict(num_workers=-3, shuffle=True)):
    try:
        DataLoader(Numbers(), **wrong)
    except Exception as error:
        print(type(error).__name__)
"""
    run = watched(HEAD + code, env={"GPUTUNE_OVERRIDE": json.dumps([{"set": {"prefetch_factor": 2}}])}).healthy()
    assert run.out.split() == ["TypeError", "ValueError"]


@pytest.mark.parametrize("wrong", ["{", "{}", '[{"set": {"shuffle": true}}]', '[{"where": "a"}]'])
def test_rules_that_cannot_be_read_change_nothing_and_are_said(watched: Watched, fake_torch: Path, wrong: str) -> None:
    code = "from torch.utils.data.dataloader import DataLoader\nprint(DataLoader([1, 2]).num_workers)"
    run = watched(code, path=(fake_torch,), env={"GPUTUNE_OVERRIDE": wrong})
    assert run.out == "0\n"
    assert run.notes("error")
