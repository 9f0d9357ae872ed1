"""The hooks in C and in Python: they write the same records, keep the same laws, and hold on to nothing of theirs."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gputune.core.events import BatchCode, Event, Kind, SpanCode

IN_C, IN_PYTHON = "", "1"  # GPUTUNE_GUEST_PURE
Watch = Callable[..., Any]


@pytest.fixture(params=[IN_C, IN_PYTHON], ids=["in C", "in Python"])
def seen(request: pytest.FixtureRequest, watched: Watch, fake_torch: Path) -> Watch:
    """Run a script under one of the two, with the torch that is in pure Python, and check which one it was."""

    def run(code: str, **options: Any) -> Any:
        how = f"\nfrom gputune_guest import here\nassert (here.fast is None) is {bool(request.param)}"
        if request.param == IN_C:
            _skip_unless_built()
        options.setdefault("path", (fake_torch,))
        return watched("import torch" + how + code, env={"GPUTUNE_GUEST_PURE": request.param}, **options)

    return run


def _skip_unless_built() -> None:
    folder = Path(__file__).resolve().parents[2] / "probes" / "guest" / "gputune_guest"
    if not list(folder.glob("_fast*.so")):
        pytest.skip("the guest's C part is not built: no compiler when gputune was installed")


SHAPES = """
from torch.utils.data import DataLoader
class Tensor:
    def __init__(self, n): self.shape = (n, 3)
class Numbers:
    def __init__(self, n): self.n = n
    def __len__(self): return self.n
    def __getitem__(self, i): return i
def train(loader, optimizers):
    for batch in loader:
        torch.autograd.backward()
        for one in optimizers: one.step()
first, second = torch.optim.Optimizer(), torch.optim.Optimizer()
train(DataLoader(Numbers(20), batch_size=8), [first])
train(DataLoader(Numbers(20), batch_size=8, num_workers=2), [first, second])
a, b = DataLoader(Numbers(6), batch_size=2), DataLoader(Numbers(4), batch_size=1)
for one in a:
    train(b, [second])
model = torch.nn.Module()
model.eval()
with torch.no_grad():
    for batch in a: pass
model.train()
train(a, [first])
torch.save({}, "model.pt")
"""


def test_both_write_the_same_records(watched: Watch, fake_torch: Path) -> None:
    _skip_unless_built()
    told = []
    for how in (IN_C, IN_PYTHON):
        code = 'import torch\nif __name__ == "__main__":\n    ' + SHAPES.strip().replace("\n", "\n    ")
        run = watched(code, path=(fake_torch,), env={"GPUTUNE_GUEST_PURE": how}).healthy()
        told_of = [r.record for r in run.readings if isinstance(r, Event) and r.process == run.main]
        mine = [r for r in told_of if r.kind not in {Kind.PICK, Kind.READS}]  # these hang on how long something took
        assert run.records(Kind.GUEST)
        known = {Kind.BATCH: "abc", Kind.STEP: "a", Kind.BACKWARD: "", Kind.ITERATOR: "abdec", Kind.SPAN: "ad"}
        told.append([(r.kind, r.code, *(getattr(r, f) for f in known.get(r.kind, ""))) for r in mine])
        assert all(r.t0 == r.t1 for r in run.records(Kind.STEP))
    assert len(told[0]) > 100
    assert told[0] == told[1]


def test_an_iterator_is_what_it_was(seen: Watch) -> None:
    code = """
import functools, inspect, types
from torch.utils.data import DataLoader, dataloader
base = dataloader._BaseDataLoaderIter
class Mine(dataloader._SingleProcessDataLoaderIter):
    def __next__(self):
        return ("mine", super().__next__())
class Loader(DataLoader):
    def __iter__(self): return Mine(self)
it = iter(DataLoader(list(range(4)), batch_size=2))
assert type(it) is dataloader._SingleProcessDataLoaderIter
assert next(it) == [0, 1]
assert it.__next__() == [2, 3]
assert list(Loader(list(range(4)), batch_size=2)) == [("mine", [0, 1]), ("mine", [2, 3])]
assert base.__next__.__name__ == "__next__"
assert base.__next__.__qualname__ == "_BaseDataLoaderIter.__next__"
assert base.__next__.__module__ == dataloader.__name__
assert isinstance(base.__next__.__wrapped__, types.FunctionType)
assert inspect.unwrap(base.__next__) is base.__next__.__wrapped__
assert str(inspect.signature(base.__next__)) == "(self)"
assert str(inspect.signature(it.__next__)) == "()"
assert inspect.isroutine(base.__next__)
assert isinstance(it.__next__, types.MethodType) and it.__next__.__self__ is it
base.__next__.note = 1
assert base.__next__.note == 1 and vars(base.__next__)["note"] == 1
del base.__next__.note
assert not hasattr(base.__next__, "note")
for wrong in (lambda: base.__next__(), lambda: base.__next__(it, 1), lambda: base.__next__(it, x=1)):
    try: wrong()
    except TypeError as error: assert "__next__" in str(error), error
    else: raise AssertionError
from gputune_guest import ring
ring.step_back("as a test")
assert isinstance(vars(base)["__next__"], types.FunctionType)
assert next(iter(DataLoader([1]))) == [1]
"""
    run = seen(code)
    assert run.status == 0, run.err
    assert [note["why"] for note in run.notes("off")] == ["as a test"]
    assert run.notes("error") == []


def test_their_exceptions_pass_unchanged(seen: Watch) -> None:
    code = """
import signal
from torch.utils.data import DataLoader
class Own(BaseException): pass
class Broken:
    def __init__(self, error): self.error = error
    def __len__(self): return 2
    def __getitem__(self, i):
        if self.error is signal.SIGINT: signal.raise_signal(self.error)
        raise self.error
for error in (KeyError("theirs"), Own(), StopIteration(7), GeneratorExit(), SystemExit(3), signal.SIGINT):
    it = iter(DataLoader(Broken(error)))
    try: it.__next__()
    except BaseException as raised:
        assert raised is error or (error is signal.SIGINT and type(raised) is KeyboardInterrupt), raised
        assert raised.__context__ is None
        names = []
        trace = raised.__traceback__
        while trace: names.append(trace.tb_frame.f_code.co_name); trace = trace.tb_next
        assert names[-1] == "__getitem__", names
    else: raise AssertionError(error)
"""
    run = seen("\nimport signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)" + code).healthy()
    assert [b.code for b in run.records(Kind.BATCH)] == [
        BatchCode.FAILED,
        BatchCode.FAILED,
        1,
        BatchCode.FAILED,
        BatchCode.FAILED,
        BatchCode.FAILED,
    ]


def test_an_error_of_ours_stays_ours(seen: Watch) -> None:
    code = """
from torch.utils.data import DataLoader
from gputune_guest import evaluation, loader, samples
def broken(*args): raise RuntimeError("ours")
samples.forward.begin = broken
assert list(DataLoader([1, 2, 3])) == [[1], [2], [3]]
evaluation.on_step = broken
torch.optim.Optimizer().step()
torch.optim.Optimizer().step()
it = iter(DataLoader([1, 2, 3], num_workers=1))
it._task_info = None
try: next(it)
except TypeError: pass
"""
    run = seen(code)
    assert (run.status, run.err) == (0, "")
    what = [note["what"] for note in run.notes("error")]
    assert what[0] == "RuntimeError: ours"
    assert len(what) == 3
    assert [b.code for b in run.records(Kind.BATCH)][:4] == [0, 0, 0, 1]


def test_nothing_of_theirs_is_held(seen: Watch) -> None:
    code = """
import gc, sys, weakref
from torch.utils.data import DataLoader
from gputune_guest import here, loader, step, ring
shared = object()
class Same:
    def __len__(self): return 100_000
    def __getitem__(self, i): return shared
data, optimizer = Same(), torch.optim.Optimizer()
def counts(): return [sys.getrefcount(x) for x in (shared, data, optimizer, it, None, type(it), loader._sampled)]
it = iter(DataLoader(data))
for _ in range(1000): next(it); optimizer.step()
gc.collect()
blocks, before = sys.getallocatedblocks(), counts()
for _ in range(90_000): next(it); optimizer.step()
gc.collect()
after = counts()
assert all(abs(a - b) < 50 for a, b in zip(after, before)), (before, after)
assert sys.getallocatedblocks() - blocks < 500, sys.getallocatedblocks() - blocks
gone = [weakref.ref(it), weakref.ref(optimizer), weakref.ref(data)]
del it, optimizer, data
gc.collect()
assert [ref() for ref in gone] == [None] * 3
assert not loader._iterators and not step._optimizers
# what is made in the place of one that is gone is somebody new
numbers = []
for _ in range(50):
    it = iter(DataLoader([1, 2]))
    next(it)
    numbers.append(loader._iterators[id(it)].number)
    del it
assert len(set(numbers)) == 50
cycle = iter(DataLoader([1]))
cycle.me = cycle
next(cycle)
del cycle
gc.collect()
assert not loader._iterators
for _ in range(50):
    list(DataLoader([1, 2])); torch.optim.Optimizer().step()
assert not loader._iterators and not step._optimizers
"""
    run = seen(code)
    assert (run.status, run.err) == (0, "")
    assert run.notes("error") == []


def test_threads_share_one_numbering(seen: Watch) -> None:
    code = """
import threading
from torch.utils.data import DataLoader
def run():
    optimizer = torch.optim.Optimizer()
    for batch in DataLoader(list(range(200)), batch_size=1): optimizer.step()
threads = [threading.Thread(target=run) for _ in range(4)]
for one in threads: one.start()
for one in threads: one.join()
"""
    run = seen(code).healthy()
    by: dict[int, list[int]] = {}
    for batch in run.records(Kind.BATCH):
        by.setdefault(batch.a, []).append(batch.b)
    assert sorted(by.values()) == [list(range(201))] * 4
    assert len(run.records(Kind.STEP)) == 800


def test_a_forked_child_writes_its_own(seen: Watch) -> None:
    code = """
import os
from torch.utils.data import DataLoader
it = iter(DataLoader(list(range(8)), batch_size=2))
optimizer = torch.optim.Optimizer()
next(it); optimizer.step()
child = os.fork()
next(it); optimizer.step()
if child: assert os.waitpid(child, 0)[1] == 0
else:
    from gputune_guest import ring
    ring.end()
    os._exit(0)
"""
    run = seen(code)
    assert (run.status, run.err) == (0, "")
    processes = [p for p, guest in run.guests.items() if guest.role == "main"]
    indices = sorted([b.b for b in run.records(Kind.BATCH, p)] for p in processes)
    assert indices == [[0], [0, 1]]
    assert sorted(len(run.records(Kind.STEP, p)) for p in processes) == [1, 2]
    assert run.notes("error") == []


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_have_it_too(seen: Watch, method: str) -> None:
    code = f"""
import multiprocessing
from torch.utils.data import DataLoader
if __name__ == "__main__":
    multiprocessing.set_start_method({method!r})
    assert [b for b in DataLoader(list(range(6)), batch_size=2, num_workers=2)] == [[0, 1], [2, 3], [4, 5]]
"""
    run = seen(code).healthy()
    assert len(run.workers) == 2
    assert sum(f.c for worker in run.workers for f in run.records(Kind.FETCH, worker)) == 6
    assert {b.d >= 0 for b in run.records(Kind.BATCH)} == {True}


MADE = """
from torch.utils.data import DataLoader
from gputune_guest import ring
class Left:
    def __len__(self): return 1200
    def __getitem__(self, i): return getattr(ring.here, "plain", 0)
if __name__ == "__main__":
    most = 0
    for batch in DataLoader(Left(), batch_size=3, num_workers=2): most = max(most, *batch)
    print(most > 0)
"""


def test_what_workers_make_is_told_alike_whoever_tells_it(watched: Watch, fake_torch: Path) -> None:
    _skip_unless_built()
    told = []
    for how in (IN_C, IN_PYTHON):
        run = watched("import torch" + MADE, path=(fake_torch,), env={"GPUTUNE_GUEST_PURE": how}).healthy()
        assert run.out == f"{how == IN_C}\n"
        makings: list[list[tuple[int, int, int]]] = []
        for worker in run.workers:
            records = [r.record for r in run.readings if isinstance(r, Event) and r.process == worker]
            mine = [r for r in records if r.kind in {Kind.FETCH, Kind.READS}]
            assert all(r.t0 <= r.t1 and 0 <= r.a < 1e9 and -1 <= r.b < 1e9 for r in mine if r.kind == Kind.FETCH)
            made = [r for r in mine if r.kind == Kind.FETCH]
            assert all(one.t1 <= two.t0 for one, two in pairwise(made))
            makings.append([(r.kind, r.code, r.c if r.kind == Kind.FETCH else r.e) for r in mine[:150]])
        told.append(sorted(makings))
    assert told[0] == told[1]
    assert sum(kind == Kind.READS for kind, _, _ in told[0][0]) > 8


NESTED = """
import time
from torch.utils.data import DataLoader
from gputune_guest import delaying, fetch, reads, ring
reads.ahead = lambda: 1000  # as where nothing is read: then C is left as much as can be
seen, held = [], []
delaying.of_worker = lambda *_: Held()
class Held:
    def never(self): return True
    def before(self): held.append(fetch._inside and ring.here.within)
    def after(self, *_): pass
    def skipped(self, *_): pass
class Inner:
    def __len__(self): return 4
    def __getitem__(self, i): return i
class Outer:
    def __init__(self, late): self.late = late
    def __len__(self): return 1200
    def __getitem__(self, i):
        alone, before = getattr(ring.here, "plain", 0), len(held)
        inner = sum(sum(b) for b in DataLoader(Inner(), batch_size=2)) if i >= self.late else 0
        return inner, len(held) - before, getattr(ring.here, "plain", 0), alone
if __name__ == "__main__":
    for late in (0, 900):
        rows = [row for batch in DataLoader(Outer(late), batch_size=3, num_workers=1) for row in batch]
        left, before = [row[2] for row in rows[late + 1:]], [row[3] for row in rows[:late]]
        print(late, max(row[1] for row in rows), sum(many > 0 for many in left), any(before))
"""


def test_what_a_dataset_reads_from_a_loader_of_its_own_is_not_left_to_c(watched: Watch, fake_torch: Path) -> None:
    """Nor is the worker held up before it, in the middle of a batch; also where C was at work when it began to."""
    _skip_unless_built()
    run = watched("import torch" + NESTED, path=(fake_torch,), env={"GPUTUNE_GUEST_PURE": IN_C}).healthy()
    assert run.out == "0 0 0 False\n900 0 0 True\n"


UNREADABLE = """
from torch.utils.data import DataLoader
from gputune_guest import ring
class Left:
    def __len__(self): return 1200
    def __getitem__(self, i):
        if i == 901 and ring.here.plain > 0: ring.here.schedstat = -1  # from the second reading on it is not to be had
        return ring.here.plain
if __name__ == "__main__":
    print(max(max(batch) for batch in DataLoader(Left(), batch_size=3, num_workers=1)) > 0)
"""


def test_a_wait_for_a_cpu_that_cannot_be_read_any_more_is_not_known(watched: Watch, fake_torch: Path) -> None:
    _skip_unless_built()
    run = watched("import torch" + UNREADABLE, path=(fake_torch,), env={"GPUTUNE_GUEST_PURE": IN_C}).healthy()
    assert run.out == "True\n"
    assert min(r.b for worker in run.workers for r in run.records(Kind.FETCH, worker)) == -1


def test_a_build_of_another_version_is_not_used(watched: Watch, fake_torch: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    (old / "sitecustomize.py").write_text(
        "import sys, types\nsys.modules['gputune_guest._fast'] = types.SimpleNamespace(INTERFACE=0)\n"
    )
    code = "import torch\nfrom torch.utils.data import DataLoader\nlist(DataLoader([1, 2]))\n"
    code += "from gputune_guest import here\nprint(here.fast, here._native())"
    run = watched(code, path=(old, fake_torch)).healthy()
    assert run.out == "None None\n"
    assert len(run.records(Kind.BATCH)) == 3


def test_an_odd_interpreter_goes_without(watched: Watch, fake_torch: Path) -> None:
    code = "import sys, torch\nfrom gputune_guest import here\nsys.abiflags = 't'\nprint(here._native())"
    assert watched(code, path=(fake_torch,), env={"GPUTUNE_GUEST_PURE": ""}).healthy().out == "None\n"


REAL = """
import warnings, torch
from torch.utils.data import DataLoader
warnings.simplefilter("ignore")
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
def train(batch):
    model(batch).sum().backward()
    optimizer.step()
    return batch + 1
it = iter(DataLoader(torch.arange(16.0).reshape(8, 2), batch_size=1))
"""


def test_what_is_compiled_calls_them_as_ever(watched: Watch) -> None:
    code = """
def named(x): return it.__next__() + x
def given(x): return next(it) + x
found = [torch.compile(f, backend="eager")(0).tolist() for f in (named, given)]
assert found == [[[0.0, 1.0]], [[2.0, 3.0]]], found
step = torch.compile(lambda: train(next(it)), backend="eager")
step(), step()
assert len(list(it)) == 4
"""
    run = watched(REAL + code).healthy()
    assert [b.b for b in run.records(Kind.BATCH)] == list(range(9))


def test_a_profiler_of_theirs_sees_what_it_saw(watched: Watch) -> None:
    code = """
from torch.profiler import profile
train(next(it))
with profile(with_stack=True, profile_memory=True, record_shapes=True) as seen: train(next(it))
memory = seen._memory_profile()
kinds = {memory._categories.get(key, version) for _, _, (key, version), _ in memory.timeline}
assert "OPTIMIZER_STATE" in {kind.name for kind in kinds if kind}, kinds
assert sum("_optimizer_step_code" in str(event.name) for event in seen.events()) == 1
"""
    run = watched(REAL + code)
    assert run.status == 0, run.err
    assert run.notes("error") == []
    assert len(run.records(Kind.STEP)) == 2


@pytest.mark.parametrize("pure", [IN_C, IN_PYTHON], ids=["in C", "in Python"])
def test_who_compiles_after_a_while_finds_what_steps_aside(watched: Watch, pure: str) -> None:
    code = """
import types
def ours(): return torch.optim.Optimizer._optimizer_step_code.__defaults__[0]
train(next(it))
quick = ours()
forward = torch.compile(model, backend="eager", fullgraph=True)
assert ours() is not quick and isinstance(ours(), types.FunctionType)
forward(next(it)), train(next(it))
def update():
    for p in model.parameters(): p.grad = torch.ones_like(p)
    optimizer.step()
    return 1
torch.compile(update, backend="eager")()
broken = {why: n for why, n in torch._dynamo.utils.counters["graph_break"].items() if "gputune" in why}
assert not broken, broken
"""
    run = watched(REAL + code, env={"GPUTUNE_GUEST_PURE": pure}).healthy()
    assert len(run.records(Kind.BACKWARD)) == 2
    assert len(run.records(Kind.STEP)) >= 2


APART_LOOP = """
import threading
from torch.utils.data import DataLoader
asked, saved, got = threading.Event(), threading.Event(), []
class Late:
    def __len__(self): return 2
    def __getitem__(self, i):
        asked.set()
        assert saved.wait(60)
        return i
torch.optim.Optimizer().step()
thread = threading.Thread(target=lambda: got.extend(DataLoader(Late(), batch_size=1)))
thread.start()
assert asked.wait(60)
torch.save({}, "model.pt")
saved.set()
thread.join()
assert got == [[0], [1]]
list(DataLoader([1], batch_size=1))
"""


def test_what_another_thread_waits_for_the_training_does_not(seen: Watch) -> None:
    run = seen(APART_LOOP).healthy()
    assert [b.code for b in run.records(Kind.BATCH)] == [
        BatchCode.APART,
        BatchCode.APART,
        BatchCode.APART | BatchCode.END,
        0,
        BatchCode.END,
    ]
    assert [s.e for s in run.spans(SpanCode.CHECKPOINT)] == [0]
    assert [bool(s.e) for s in run.spans(SpanCode.LOADER_START)] == [True, False]
    mark = run.open()
    assert mark is None or not mark.t0 or mark.t0 in [b.t0 for b in run.records(Kind.BATCH)[3:]]


def test_a_thread_that_makes_the_first_step_trains(seen: Watch) -> None:
    code = """
import threading
from torch.utils.data import DataLoader
def train():
    optimizer = torch.optim.Optimizer()
    for batch in DataLoader([1, 2, 3], batch_size=1): optimizer.step()
    torch.save({}, "model.pt")
thread = threading.Thread(target=train)
thread.start()
thread.join()
"""
    run = seen(code).healthy()
    assert [b.code for b in run.records(Kind.BATCH)] == [BatchCode.APART, 0, 0, BatchCode.END]
    assert [s.e for s in run.spans(SpanCode.CHECKPOINT)] == [0]
