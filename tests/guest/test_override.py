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

class Buckets(BatchSampler):
    pass

plain = BatchSampler(RandomSampler(Numbers()), 4, True)
NAMES = ("num_workers", "prefetch_factor", "persistent_workers", "batch_size", "in_order", "pin_memory")

def told(*loaders):
    size = lambda each: getattr(each.batch_sampler, "batch_size", None)
    print(json.dumps([{"size": size(each), **{name: getattr(each, name) for name in NAMES}} for each in loaders]))

"""
Watched = Callable[..., Any]
PIN = {"pin_memory": True}

# (loader, what a rule for its line sets, attributes that it has then, setting that is refused and a word of the reason)
CASES: list[tuple[str, dict[str, Any], dict[str, Any], tuple[str, str] | None]] = [
    (
        "Numbers(), batch_size=4, shuffle=True",
        {"num_workers": 3, "prefetch_factor": 4, "persistent_workers": True, "batch_size": 5, "in_order": False},
        {"num_workers": 3, "prefetch_factor": 4, "persistent_workers": True, "batch_size": 5, "in_order": False},
        None,
    ),
    (
        "Numbers(), 4, True, num_workers=2, prefetch_factor=4, persistent_workers=True, timeout=9",
        {"num_workers": 0},
        {"num_workers": 0, "prefetch_factor": None, "persistent_workers": False, "batch_size": 4},
        None,
    ),
    ("Numbers(), batch_sampler=plain", {"batch_size": 10}, {"size": 10}, None),
    (
        "Numbers(), batch_sampler=Buckets(plain.sampler, 4, True)",
        {"batch_size": 10},
        {"size": 4},
        ("batch_size", "Buckets"),
    ),
    ("Numbers(), None, True", {"batch_size": 10}, {"batch_size": None}, ("batch_size", "dataset makes")),
    ("Stream()", {"num_workers": 2}, {"num_workers": 0}, ("num_workers", "stream")),
    ("Stream(), num_workers=2", {"num_workers": 1}, {"num_workers": 1}, None),
    ("Numbers()", {"prefetch_factor": 4}, {"num_workers": 0}, ("prefetch_factor", "needs workers")),
    ("Numbers()", {"persistent_workers": True}, {"num_workers": 0}, ("persistent_workers", "needs workers")),
    ("Numbers()", {"num_workers": -1}, {"num_workers": 0}, ("num_workers", "no such number")),
    ("Numbers()", {"num_workers": True}, {"num_workers": 0}, ("num_workers", "no such number")),
    ("Numbers()", {"batch_size": 0}, {"batch_size": 1}, ("batch_size", "no such number")),
    (
        "Numbers()",
        {"in_order": 0, "num_workers": 2},
        {"num_workers": 2, "in_order": True},
        ("in_order", "neither true nor false"),
    ),
    ("Numbers(), batch_size=4", {"batch_size": 4}, {"batch_size": 4}, None),
]


def at(code: str, text: str, later: int = 0) -> str:
    """Return the place of the first line of `code` that has `text` in it, or of one that is `later`."""
    first = next(n for n, line in enumerate(code.splitlines(), start=1) if text in line)
    return f"train.py:{first + later}"


def test_each_loader_gets_what_is_asked_for_at_its_line_and_possible_and_says_the_rest(watched: Watched) -> None:
    code = HEAD + "made = [\n" + "".join(f"    DataLoader({loader}),\n" for loader, *_more in CASES) + "]\ntold(*made)"
    rules = [{"where": at(code, "made = [", 1 + n), "set": change} for n, (_loader, change, *_more) in enumerate(CASES)]
    run = watched(code, env={"GPUTUNE_OVERRIDE": json.dumps(rules)}).healthy()
    notes = {note["where"]: note for note in run.notes("override")}
    for rule, found, (loader, change, attributes, refused) in zip(rules, json.loads(run.out), CASES, strict=True):
        assert {name: found[name] for name in attributes} == attributes, loader
        said = notes.pop(rule["where"], {"change": {}, "refused": {}})
        assert list(said["refused"]) == ([refused[0]] if refused else []), loader
        assert not refused or refused[1] in said["refused"][refused[0]]
        assert not set(said["change"]) & set(said["refused"])
        assert all(change[name] == value for name, value in said["change"].items())
    assert notes == {}


def test_without_a_place_every_loader_that_shuffles_is_meant(watched: Watched) -> None:
    code = """
told(
    DataLoader(Numbers(), shuffle=True),
    DataLoader(Numbers(), sampler=WeightedRandomSampler([1.0] * 20, 20)),
    DataLoader(Numbers(), batch_sampler=BatchSampler(RandomSampler(Numbers()), 4, True)),
    DataLoader(Numbers()),
    DataLoader(Stream()),
)
for wrong in (dict(batch_size=2, nonsense=1), dict(shuffle=True, timeout=-3)):
    try:
        DataLoader(Numbers(), **wrong)
    except Exception as error:
        print(type(error).__name__)
"""
    stream = {"where": at(HEAD + code, "DataLoader(Stream())"), "set": {"num_workers": 3}, "duplicates": True}
    rules = [{"set": {"num_workers": 2, **PIN}}, stream]
    run = watched(HEAD + code, env={"GPUTUNE_OVERRIDE": json.dumps(rules)}).healthy()
    told, *errors = run.out.splitlines()
    assert [loader["num_workers"] for loader in json.loads(told)] == [2, 2, 2, 0, 3]
    assert errors == ["TypeError", "ValueError"]  # their own mistakes are told by torch
    import torch

    if not torch.accelerator.is_available():  # pinned memory is for a device
        assert all("no device" in note["refused"]["pin_memory"] for note in run.notes("override")[:3])


def test_samples_come_in_the_order_of_the_sampler_and_each_of_them_once(watched: Watched) -> None:
    code = """
class Mine(DataLoader):
    def __init__(self, dataset, size, **more):
        super().__init__(dataset, size, **more)

if __name__ == "__main__":
    loader = Mine(Numbers(), 3, sampler=list(reversed(range(20))), drop_last=True)
    assert type(loader) is Mine and len(loader) == 5
    print(json.dumps([int(x) for batch in loader for x in batch[:, 0]]))
"""
    caller = at(HEAD + code, "super().__init__")  # the line that calls DataLoader itself, as recordings have it
    rule = {"where": caller, "set": {"num_workers": 2, "batch_size": 4}}
    run = watched(HEAD + code, env={"GPUTUNE_OVERRIDE": json.dumps([rule])}).healthy()
    assert json.loads(run.out) == list(reversed(range(20)))
    assert len(run.workers) == 2


@pytest.mark.parametrize("wrong", ["{", "{}", '[{"set": {"shuffle": true}}]', '[{"where": "a"}]'])
def test_rules_that_cannot_be_read_change_nothing_and_are_said(watched: Watched, fake_torch: Path, wrong: str) -> None:
    code = "from torch.utils.data.dataloader import DataLoader\nprint(DataLoader([1, 2]).num_workers)"
    run = watched(code, path=(fake_torch,), env={"GPUTUNE_OVERRIDE": wrong})
    assert run.out == "0\n"
    assert run.notes("error")


def test_workers_of_every_loader_are_bounded_and_never_raised(watched: Watched) -> None:
    code = (
        HEAD + "told(DataLoader(Numbers(), num_workers=4, prefetch_factor=3), DataLoader(Numbers(), num_workers=1))\n"
    )
    rule = {"set": {}, "most": {"num_workers": 2}}
    run = watched(code, env={"GPUTUNE_OVERRIDE": json.dumps([rule])}).healthy()
    assert [row["num_workers"] for row in json.loads(run.out)] == [2, 1]
