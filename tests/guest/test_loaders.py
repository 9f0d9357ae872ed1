"""Loaders of the real torch: workers of every kind, iterators of every shape, and errors that stay what they were."""

import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from gputune.core.events import BatchCode, Event, FetchCode, IteratorCode, Kind, SpanCode
from gputune.core.sample import Note, Reading

HEAD = """
import sys, threading, torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

class Numbers(Dataset):
    def __len__(self):
        return 22
    def __getitem__(self, i):
        return torch.full((4,), float(i)), i

class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        yield from range(info.id, 10, info.num_workers) if info else range(10)

"""


def test_a_loader_that_a_framework_builds_anew_was_built_where_the_script_did(watched: Callable[..., Any]) -> None:
    """accelerate and Lightning build another loader over the dataset of the script's, with its settings."""
    code = """
import pathlib
library = pathlib.Path("site-packages/accelerate")
library.mkdir(parents=True)
(library / "__init__.py").write_text("import torch\\n" "class Shard(torch.utils.data.DataLoader):\\n" "    pass\\n"
    "def prepare(loader):\\n" "    return Shard(loader.dataset, batch_size=loader.batch_size)\\n")
sys.path.insert(0, "site-packages")
import accelerate
loader = DataLoader(Numbers(), batch_size=4)
prepared = accelerate.prepare(loader)
other = accelerate.Shard(Numbers(), batch_size=2)
assert len(list(prepared)) == 6 and len(list(other)) == 11
"""
    run = watched(HEAD + code).healthy()
    assert {note["batch_size"]: note["where"] for note in run.notes("loader")} == {4: "train.py:24", 2: "train.py:26"}


@pytest.mark.flaky(reruns=1, reason="Python's resource tracker warned once of a semaphore of spawn that was gone")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_every_start_method_are_seen(watched: Callable[..., Any], method: str) -> None:
    code = """
if __name__ == "__main__":
    loader = DataLoader(Numbers(), batch_size=4, num_workers=2, multiprocessing_context=METHOD)
    assert [len(y) for x, y in loader] == [4, 4, 4, 4, 4, 2]
"""
    run = watched(HEAD + code.replace("METHOD", repr(method))).healthy()
    assert run.out == run.err == ""
    (note,) = run.notes("loader")
    assert (note["start_method"], note["where"], note["length"]) == (method, "train.py:18", 6)
    members = run.records(Kind.MEMBER)
    assert {m.b for m in members} == {run.guests[worker].pid for worker in run.workers}
    assert all(run.role_before_records(worker) == "worker" for worker in run.workers)
    fetched = [f for worker in run.workers for f in run.records(Kind.FETCH, worker)]
    assert sorted(f.c for f in fetched) == [2, 4, 4, 4, 4, 4]
    assert all(f.a > 0 and f.t1 > f.t0 and 0 <= f.d <= f.t1 - f.t0 for f in fetched)
    assert max(f.e for f in fetched) == 4 * 4 * 4 + 4 * 8
    assert sum(b.c for b in run.records(Kind.BATCH)) == 22
    assert all(run.guests[worker].ended for worker in run.workers)
    assert {note["threads"] for note in run.notes("worker")} == {1}
    starts = run.spans(SpanCode.LOADER_START)
    assert [s.c for s in starts] == [0, 1]  # constructed, and shut down


SHARDS = """
class All(IterableDataset):
    def __iter__(self):
        torch.manual_seed(torch.utils.data.get_worker_info().seed)  # asks, and shares nothing out
        return iter(range(10))

if __name__ == "__main__":
    for kind, workers, expected in ((Stream, 2, 2), (All, 2, 4), (Stream, 0, 2)):
        assert len(list(DataLoader(kind(), batch_size=5, num_workers=workers))) == expected
"""


def test_a_dataset_that_asks_which_worker_it_is_in_is_told_from_one_that_does_not(watched: Callable[..., Any]) -> None:
    run = watched(HEAD + SHARDS).healthy()
    assert run.err == ""
    assert len(run.workers) == 4
    told = [r.process for r in run.readings if isinstance(r, Note) and r.fields["n"] == "shards"]
    assert sorted(told) == sorted([run.main, *run.workers[:2]])  # those of the first loader, and who needs no workers


def test_bytes_that_are_no_tensors_are_told_apart(watched: Callable[..., Any]) -> None:
    code = """
def words(items):
    return [b"x" * 400 for _ in items], torch.zeros(4)

if __name__ == "__main__":
    assert len(list(DataLoader(Numbers(), batch_size=11))) == 2
    assert len(list(DataLoader(Numbers(), batch_size=22, collate_fn=words))) == 1
"""
    run = watched(HEAD + code).healthy()
    assert [bool(f.code & FetchCode.PLAIN) for f in run.records(Kind.FETCH)] == [False, False, True]
    assert [f.code >> 8 for f in run.records(Kind.FETCH)][-1] == 1


KINDS = {
    "a named tuple": "Pair(x, 1)",
    "a dict of its own kind": "collections.OrderedDict(x=x)",
    "a mapping with a dict inside": "collections.UserDict(x=x)",
    "a list of its own kind": "Own([x, x[:0]])",
    "a class with attributes, itself among them": "Batch(x)",
    "a class with slots": "Slotted(x)",
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_the_bytes_of_a_batch_of_any_kind_are_counted_without_running_its_code(
    watched: Callable[..., Any], kind: str
) -> None:
    code = """
import collections
Pair = collections.namedtuple("Pair", "x y")

class Own(list):
    def __iter__(self): raise AssertionError("it was asked")
    __getitem__ = __len__ = __iter__

class Batch:
    def __init__(self, x):
        self.x, self.name, self.own = x, None, self

class Slotted:
    __slots__ = ("x", "never_set", "__weakref__")
    def __init__(self, x):
        self.x = x

def each(items):
    x = torch.zeros(1000)
    return KIND

if __name__ == "__main__":
    assert len(list(DataLoader(Numbers(), batch_size=22, collate_fn=each))) == 1
"""
    run = watched(HEAD + code.replace("KIND", kind)).healthy()
    (fetch,) = run.records(Kind.FETCH)
    assert fetch.e == 4000
    assert not fetch.code & FetchCode.PLAIN


def test_a_batch_that_is_made_on_a_gpu_is_told_apart(watched: Callable[..., Any]) -> None:
    code = """
from torch.utils.data import DataLoader
class There:  # as much of a tensor on a GPU as is looked at
    nbytes, is_cuda = 400, True
    def element_size(self): return 4
for collate in (list, lambda rows: [There() for _ in rows]):
    for _ in DataLoader([b"1", b"2"], batch_size=2, collate_fn=collate): pass
"""
    codes = [fetch.code for fetch in watched(code).healthy().records(Kind.FETCH)]
    assert [bool(each & FetchCode.ON_GPU) for each in codes] == [False, True]


def test_the_tensors_of_a_batch_are_counted(watched: Callable[..., Any]) -> None:
    code = """
def each(items):
    return [torch.zeros(2) for _ in range(COUNT)], {"more": torch.zeros(3), "word": "w"}

if __name__ == "__main__":
    for COUNT in (2, 300):
        assert len(list(DataLoader(Numbers(), batch_size=22, num_workers=1, collate_fn=each))) == 1
"""
    run = watched(HEAD + code).healthy()
    assert [f.code >> 8 for worker in run.workers for f in run.records(Kind.FETCH, worker)] == [3, 127]


def test_iterators_of_every_shape(watched: Callable[..., Any]) -> None:
    code = """
if __name__ == "__main__":
    def numbers(loader):
        return list(loader)
    # persistent workers: one iterator, two epochs
    loader = DataLoader(Numbers(), batch_size=11, num_workers=1, persistent_workers=True, prefetch_factor=4)
    assert len(numbers(loader)) == len(numbers(loader)) == 2
    # no batches at all, a batch sampler, an iterable dataset, out of order
    assert len(numbers(DataLoader(Numbers(), batch_size=None))) == 22
    assert len(numbers(DataLoader(Numbers(), batch_sampler=[[0, 1, 2], [3]]))) == 2
    assert len(numbers(DataLoader(Stream(), batch_size=4, num_workers=2))) == 4
    assert len(numbers(DataLoader(Stream(), batch_size=4))) == 3
    assert len(numbers(DataLoader(Numbers(), batch_size=4, num_workers=2, in_order=False))) == 6
    # their own subclass and its own attributes
    class Mine(DataLoader):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.mine = 1
        def __iter__(self):
            for batch in super().__iter__():
                yield batch
    assert len(numbers(Mine(Numbers(), batch_size=22, collate_fn=lambda items: items))) == 1
    # nested, and given to another thread
    inner = DataLoader(Numbers(), batch_size=11)
    outer = DataLoader(Numbers(), batch_size=11)
    assert [len(numbers(inner)) for _ in outer] == [2, 2]
    it, got = iter(DataLoader(Numbers(), batch_size=11)), []
    thread = threading.Thread(target=lambda: got.append(next(it)))
    thread.start(); thread.join()
    assert type(it).__name__ == "_SingleProcessDataLoaderIter" and len(got) == 1
    assert not [name for name in vars(it) if "gputune" in name]
"""
    run = watched(HEAD + code).healthy()
    assert run.err == ""
    notes = {note["id"]: note for note in run.notes("loader")}
    iterators = run.records(Kind.ITERATOR)
    of: dict[int, list[Any]] = {i.b: [] for i in iterators}
    loader_of = {i.a: i.b for i in iterators}
    for batch in run.records(Kind.BATCH):
        of[loader_of[batch.a]].append(batch)
    samples = {number: [b.c for b in batches if not b.code & ~BatchCode.APART] for number, batches in of.items()}
    assert samples[1] == [11] * 4
    assert samples[2] == [0] * 22  # not batched by torch: how many samples that is, nobody knows
    assert samples[3] == [3, 1]
    assert sorted(samples[4]) == [1, 1, 4, 4]
    assert samples[5] == [4, 4, 2]
    assert sorted(samples[6]) == [2, 4, 4, 4, 4, 4]
    assert samples[7] == [22]
    assert sorted(map(len, (samples[8], samples[9], samples[10]))) == [1, 2, 4]
    assert [i.d for i in iterators if i.b == 1] == [0, 1]  # the second epoch resets
    assert [i.code for i in iterators if i.b == 1] == [IteratorCode.NEW, 0]
    inner = next(batches for batches in of.values() if len(batches) == 6 and len(of[1]) == 6 and batches is not of[1])
    assert [b.code for b in inner] == [0, 0, BatchCode.END] * 2
    assert {notes[4]["iterable"], notes[5]["iterable"]} == {True}
    assert notes[6]["in_order"] is False
    assert notes[2]["batch_size"] is None


OF_TORCHDATA = """
import pathlib
folder = pathlib.Path("site-packages/torchdata/stateful_dataloader")
folder.mkdir(parents=True)
(folder / "__init__.py").write_text("from .stateful_dataloader import StatefulDataLoader\\n")
(folder / "stateful_dataloader.py").write_text('''
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, default_collate
from torch.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind

class StatefulDataLoader(DataLoader):
    def __init__(self, dataset, batch_size=1):
        self.dataset, self.num_workers, self.prefetch_factor = dataset, 0, None
        self.pin_memory, self.pin_memory_device, self.timeout, self.worker_init_fn = False, "", 0, None
        self.multiprocessing_context, self.in_order, self._dataset_kind = None, True, _DatasetKind.Map
        self.batch_size, self.drop_last, self.sampler = batch_size, False, SequentialSampler(dataset)
        self.batch_sampler, self.generator = BatchSampler(self.sampler, batch_size, False), None
        self.collate_fn, self.persistent_workers = default_collate, False
        self._DataLoader__initialized, self._IterableDataset_len_called, self._iterator = True, None, None

    def __iter__(self):
        return _StatefulSingleProcessDataLoaderIter(self, None)

class _StatefulSingleProcessDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader, state):
        super().__init__(loader)
        self._fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last)

    def _next_data(self):
        return self._fetcher.fetch(self._next_index())

class _StatefulMultiProcessingDataLoaderIter(_StatefulSingleProcessDataLoaderIter):
    pass
''')
sys.path.insert(0, "site-packages")
from torchdata.stateful_dataloader import StatefulDataLoader
loader = StatefulDataLoader(Numbers(), batch_size=11)
assert [len(y) for x, y in loader] == [11, 11]
"""


def test_a_loader_with_iterators_of_its_own_is_one_as_well(watched: Callable[..., Any]) -> None:
    """As torchdata's has them, whose constructor does not call torch's."""
    run = watched(HEAD + OF_TORCHDATA).healthy()
    (note,) = run.notes("loader")
    built = (HEAD + OF_TORCHDATA).split("\n").index("loader = StatefulDataLoader(Numbers(), batch_size=11)") + 1
    assert (note["own_kind"], note["batch_size"]) == ("StatefulDataLoader", 11)
    assert note["where"] == f"train.py:{built}"
    (iterator,) = run.records(Kind.ITERATOR)
    assert iterator.b == note["id"]
    assert [b.c for b in run.records(Kind.BATCH)] == [11, 11, 0]


def test_a_loader_built_again_each_epoch_is_one_loader(watched: Callable[..., Any]) -> None:
    code = """
def build(data, size):
    return DataLoader(data, batch_size=size)
for epoch in range(3):
    for batch in build(Numbers(), 11): pass
a, b = build(Numbers(), 2), build(Numbers(), 2)
list(a), list(b)
"""
    run = watched(HEAD + code).healthy()
    assert [note["batch_size"] for note in run.notes("loader")] == [11, 2, 2]  # two that live at once are two
    assert [(note["beside"], note["idle"]) for note in run.notes("loader")] == [(0, 0), (1, 1), (1, 0)]
    assert [i.b for i in run.records(Kind.ITERATOR)] == [1, 1, 1, 2, 3]
    assert [i.code for i in run.records(Kind.ITERATOR)] == [IteratorCode.NEW] * 5


def test_errors_are_theirs(watched: Callable[..., Any]) -> None:
    code = """
class Broken(Numbers):
    def __getitem__(self, i):
        if i == 5:
            raise KeyError("sample 5")
        return i
for workers in (0, 1):
    try:
        for batch in DataLoader(Broken(), batch_size=4, num_workers=workers): pass
    except KeyError as error:
        print(type(error).__name__, "sample 5" in str(error), type(error.__context__))
try:
    iter(DataLoader(Numbers(), num_workers=1, worker_init_fn=None, multiprocessing_context="fork", timeout=-1))
except ValueError as error:
    print("ValueError")
try:
    DataLoader(Numbers(), no_such_setting=1)
except TypeError as error:
    print(error)
import inspect
print(list(inspect.signature(DataLoader).parameters)[:3])
print("num_workers" in inspect.signature(DataLoader.__init__).parameters)
"""
    run = watched(HEAD + code).healthy()
    assert run.out.splitlines() == [
        "KeyError True <class 'NoneType'>",
        "KeyError True <class 'NoneType'>",
        "ValueError",
        "DataLoader.__init__() got an unexpected keyword argument 'no_such_setting'",
        "['dataset', 'batch_size', 'shuffle']",
        "True",
    ]
    assert [b.code for b in run.records(Kind.BATCH)] == [0, BatchCode.FAILED, 0, BatchCode.FAILED]
    assert [f.code & FetchCode.INLINE for f in run.records(Kind.FETCH)] == [FetchCode.INLINE]


def test_a_process_killed_in_the_middle_of_next_is_seen_to_be_there(watched: Callable[..., Any]) -> None:
    code = """
class Slow(Numbers):
    def __getitem__(self, i):
        if i == 3:
            threading.Event().wait()
        return i
for batch in DataLoader(Slow(), batch_size=1): pass
"""

    def kill(process: subprocess.Popen[str], readings: list[Reading]) -> None:
        fetched = [r for r in readings if isinstance(r, Event) and r.record.kind == Kind.BATCH]
        if len(fetched) == 3:
            process.send_signal(signal.SIGKILL)

    run = watched(HEAD + code, act=kill)
    assert run.status == -signal.SIGKILL
    opened = run.open()
    assert opened.kind == Kind.BATCH
    assert opened.t0 >= run.records(Kind.BATCH)[-1].t1
    assert run.guests[run.main].ended


def test_a_training_computes_the_same_with_and_without(watched: Callable[..., Any], tmp_path: Any) -> None:
    code = """
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
class Noisy(Numbers):
    def __getitem__(self, i):
        return torch.randn(4) + i, i
if __name__ == "__main__":
    for workers in (0, 2):
        for x, y in DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=workers):
            optimizer.zero_grad()
            loss = (model(x).squeeze() - y).square().mean()
            loss.backward()
            optimizer.step()
            print(loss.item().hex())
        schedule.step()
"""
    run = watched(HEAD + code).healthy()
    bare = watched(HEAD + code, env={"GPUTUNE_RINGS": ""})
    assert run.out == bare.out
    assert len(run.out.splitlines()) == 12
    assert len(run.records(Kind.STEP)) == 12
    assert bare.readings == [r for r in bare.readings if not isinstance(r, Event)]
