"""Scripts that end, or fail, while an iterator of a DataLoader lives: each kind of loader at each end.

`SERVER` imports torch once and forks: each child is a `__main__` of its own, which falls off its end as a script does,
so that the whole of the interpreter's end is there: threads, `atexit`, modules whose names are set to None, `__del__`.
"""

TORCH = "import torch, torch.utils.data; torch.set_num_threads(1)"
SERVER = """
import gc, json, os, resource, signal, sys
{library}
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
gc.disable()  # else it is chance when torch's own garbage goes, and in which process
gc.freeze()  # what is torch's own need not be walked through at each end
statuses = {{}}  # what is told lies where a trial keeps nothing apart
for name in json.load(open("cases.json")):
    pid = os.fork()
    if not pid:
        os.dup2(os.open("rings/%s.err" % name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        signal.alarm(60)
        trial = sys.modules.get("gputune_guest.trial")
        if trial is not None:
            trial.current.owner = os.getpid()  # the fork stands for the training itself
        break
    statuses[name] = os.waitpid(pid, 0)[1]
else:
    json.dump(statuses, open("rings/statuses.json", "w"))
    os._exit(0)
name = "case-%s.py" % name
sys.modules["__main__"] = type(sys)("__main__")
sys.modules["__main__"].name = name
exec(compile(open(name).read(), name, "exec"), vars(sys.modules["__main__"]))
"""

DATA = """
import os, signal, sys, torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler
class Numbers(Dataset):
    bad = None
    def __len__(self): return 64
    def __getitem__(self, i):
        if i == self.bad: raise KeyError("no such sample: %d" % i)
        return torch.tensor([float(i)])
class Stream(IterableDataset):
    bad = None
    def __iter__(self): return (Numbers.__getitem__(self, i) for i in range(64))
class InfiniteDataLoader:
    def __init__(self, dataset):
        sampler = RandomSampler(dataset, replacement=True, num_samples=int(1e10))
        self.train_loader = DataLoader(dataset, sampler=sampler, batch_size=4, num_workers=1)
        self.data_iter = iter(self.train_loader)
    def next(self): return next(self.data_iter)
"""

# Workers that are not forked import what they unpickle: it lies beside the scripts, as `importable.py`.
IMPORTED = "from importable import Numbers\nloader = DataLoader(Numbers(), batch_size=4, "
IMPORTABLE = """
import torch, torch.utils.data
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, i): return torch.tensor([float(i)])
"""

LOADERS = {
    "inline": "loader = DataLoader(data, batch_size=4)",
    "workers": "loader = DataLoader(data, batch_size=4, num_workers=2)",
    "stream": "data.__class__ = Stream\nloader = DataLoader(data, batch_size=4, num_workers=1)",
    "persistent": "loader = DataLoader(data, batch_size=4, num_workers=1, persistent_workers=True)",
    "infinite": "it = InfiniteDataLoader(data).data_iter",
    "unbatched": "loader = DataLoader(data, batch_size=None, num_workers=1)",
    "spawned": f"{IMPORTED}num_workers=1, multiprocessing_context='spawn')",
    "forkserver": f"{IMPORTED}num_workers=1, multiprocessing_context='forkserver')",
    "shuffled": "loader = DataLoader(data, batch_size=4, shuffle=True, drop_last=True, generator=torch.Generator())",
}
FEW = {"inline", "workers", "stream", "persistent", "infinite"}  # that are tried each time
BEGUN = """
it = globals().get("it") or iter(loader)
for _ in range(3): next(it)
"""

ENDS = {
    "end": "",
    "exit": "sys.exit(3)",
    "error": "def fail(): raise ValueError('theirs')\nfail()",
    "atexit": """
import atexit
def last():
    global it
    print(len(next(it)), file=sys.stderr)
    it = None
atexit.register(last)
""",
    "del": """
class Holder:
    def __init__(self, it): self.it, self.err = it, sys.stderr
    def __del__(self, next=next, len=len, print=print):
        print(len(next(self.it)), file=self.err)
        self.it._shutdown_workers() if hasattr(self.it, "_shutdown_workers") else None
holder = Holder(it)
del it
""",
    "now": "os._exit(4)",
    "fork": """
pid = os.fork()
if pid: print(os.waitpid(pid, 0)[1], file=sys.stderr)
else:
    it = loader = None
    os._exit(0)
""",
    "daemon": """
import threading
ready = threading.Event()
def work():
    next(it)
    ready.set()
    threading.Event().wait()
threading.Thread(target=work, daemon=True).start()
ready.wait()
""",
    "thread": """
import threading
def work():
    threading.main_thread().join()
    print(len(next(it)), file=sys.stderr)
    raise ValueError("in a thread")
threading.Thread(target=work).start()
""",
    "late": "sys.kept = sys.modules['__main__']",  # what is imported after it loses its names first: we do
    "cycle": "it.itself = it\nimport gc\ngc.disable()\ndel it",
}
WITH_EACH = {"end", "del", "late", "cycle", "thread"}  # ends at which kinds of loaders differ: they are freed by them

FAILS = """
import traceback
def attempt(function, *args, **kwargs):
    try: function(*args, **kwargs)
    except BaseException: traceback.print_exc()
def told(data, **kwargs): return list(DataLoader(data, **kwargs))
"""

FAILURES = {
    "dataset": """
bad = Numbers(); bad.bad = 9
for n in (0, 1): attempt(told, bad, batch_size=4, num_workers=n)
bad.__class__ = Stream
for n in (0, 1): attempt(told, bad, batch_size=4, num_workers=n)
told(bad, batch_size=4, num_workers=1)
""",
    "collate": """
def collate(samples): raise RuntimeError("cannot be collated")
for n in (0, 1): attempt(told, Numbers(), collate_fn=collate, num_workers=n)
class Sampler:
    def __iter__(self):
        yield 1
        raise OSError("no index")
for n in (0, 1): attempt(told, Numbers(), sampler=Sampler(), num_workers=n)
def start(worker): raise RuntimeError("does not start")
attempt(told, Numbers(), num_workers=1, worker_init_fn=start)
""",
    "files": """
class Files(Numbers):
    def __getitem__(self, i): return open("none%d" % i if i > 20 else name).read()[:4]
for n in (0, 1): attempt(told, Files(), batch_size=1, num_workers=n)
""",
    "loader": """
attempt(DataLoader, Numbers(), batch_size=-1)
attempt(DataLoader, Numbers(), num_workers=0, prefetch_factor=3)
DataLoader(Numbers(), num_workers=200)
DataLoader(Numbers(), pin_memory=True).__iter__()
""",
    "sampler": """
attempt(told, 5)
attempt(next, iter(DataLoader([])))
""",
    "interrupted": """
class Slow(Numbers):
    def __getitem__(self, i):
        os.kill(os.getpid(), signal.SIGINT)
        return i
attempt(told, Slow(), batch_size=2)
told(Slow(), batch_size=2)
""",
    "torch": """
x = torch.ones(2, requires_grad=True)
attempt(x.to, "nowhere")
attempt(x.cuda)
attempt(x.item)
attempt(float, x.detach())
attempt(x.numpy)
attempt(x.sum().numpy)
attempt(x.sum().backward, torch.ones(7))
attempt(torch.save, x, "no/such/folder/x.pt")
attempt(torch.save, lambda: 0, "x.pt")
attempt(torch.autograd.backward, torch.ones(1))
class Model(torch.nn.Module):
    def train(self, mode=True): raise NotImplementedError("no modes")
class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Model()
attempt(Model().eval)
attempt(Outer().train)
optimizer = torch.optim.SGD([x], lr=0.1)
def closure(): raise ArithmeticError("no loss")
attempt(optimizer.step, closure)
import logging, pickle
attempt(pickle.dump, lambda: 0, open("x.pkl", "wb"))
attempt(print, "x", file=5)
class Handler(logging.Handler):
    def emit(self, record): raise LookupError("no log")
logging.getLogger().addHandler(Handler())
attempt(logging.error, "x")
attempt(os.fsync, 9999)
""",
    "warned": """
x = torch.ones(1, requires_grad=True)
print(float(x * 2), file=sys.stderr)
for _ in range(2): torch.ones(1, dtype=torch.complex64).to(torch.float32)
torch.ones(1, dtype=torch.complex64).to(torch.float64)
class Log: write = print
Log().write("no instance", file=sys.stderr)
""",
    "unraisable": """
class Bad:
    def __del__(self): torch.ones(1).to("nowhere")
Bad()
def work(): torch.save(1, "no/such/folder/x.pt")
import threading
thread = threading.Thread(target=work, name="theirs"); thread.start(); thread.join()
bad = Bad()
""",
    "without": """
x = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([x], lr=0.1)
for n in range(12):
    x.sum().backward()
    optimizer.step()
    attempt(x.to, "nowhere")
    attempt(x.view, 7)
    float(x.sum() * n)
    torch.nn.Identity()(x)
    optimizer.zero_grad()
""",
}


TF = "import tensorflow, keras.src.backend.tensorflow.trainer"
TF_DATA = """
import os, sys
from tensorflow.python.data.ops.dataset_ops import _RangeDataset
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
def len(batch): return batch.shape[0]
def load(i):
    if i == bad: raise KeyError(i)
    return i
bad, data = None, _RangeDataset(64).map(load).batch(4)
"""
TF_LOADERS = {
    "eager": "loader = data",
    "fit": """
def work(batch):
    global it, work
    it = iter(data)
    raise InterruptedError
try: TensorFlowTrainer(lambda batch: work(batch)).fit(data, 1)
except InterruptedError: pass
""",
}
TF_FAILURES = {
    "theirs": "bad = 9\nfor batch in data: pass",
    "theirs-fit": "bad = 9\nTensorFlowTrainer(id).fit(data, 2, data)",
    "step": "def step(batch): raise ArithmeticError\nTensorFlowTrainer(step, known=False).fit(data, 2, data)",
    "next": "it = iter(data)\nwhile True: it.get_next()",
}


def matrix() -> dict[str, str]:
    """Return a script for each kind of loader at each end of the interpreter."""
    return {
        f"{end}-{kind}": f"{DATA}data = Numbers()\n{made}{BEGUN}{way}\n"
        for kind, made in LOADERS.items()
        for end, way in ENDS.items()
    }


def of_tensorflow() -> dict[str, str]:
    """Return the same for pipelines of tf.data, and Keras's `fit` over them."""
    found = {
        f"{end}-{kind}": f"{TF_DATA}{made}{BEGUN}{way}\n"
        for kind, made in TF_LOADERS.items()
        for end, way in ENDS.items()
    }
    return {**found, **{name: f"{TF_DATA}{code}\n" for name, code in TF_FAILURES.items()}}


def cases() -> dict[str, str]:
    """Return the scripts that are tried each time: of the matrix the ends at which kinds of loaders differ."""
    found = {
        name: code
        for name, code in matrix().items()
        for end, _, kind in [name.partition("-")]
        if kind in FEW and (end in WITH_EACH or kind in {"workers", "infinite"})
    }
    return {**found, **{name: DATA + FAILS + code for name, code in FAILURES.items()}}
