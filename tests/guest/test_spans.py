"""Pauses: each counts once, for the outermost call, and names the line that made it."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputune.core.events import Kind, SpanCode

CODE = """
import logging, os, sys, threading, torch
logging.basicConfig(stream=sys.stderr)
model = torch.nn.Linear(100, 100)
torch.save(model.state_dict(), "model.pt")
with open("other.pt", "wb") as file:
    torch.save(model.state_dict(), file)
for i in range(3):
    logging.warning("x" * 5000)
print("y" * 100_000)
with open("log", "w") as file:
    file.write("a")
    file.flush()
    os.fsync(file.fileno())
threading.Thread(target=lambda: torch.save(model.state_dict(), "thread.pt")).start()
"""


def test_checkpoints_and_logging_are_recorded_where_they_happen(watched: Callable[..., Any], tmp_path: Path) -> None:
    run = watched(CODE).healthy()
    saves = run.spans(SpanCode.CHECKPOINT, "torch.save")
    assert [s.b for s in saves] == [(tmp_path / f"{name}.pt").stat().st_size for name in ("model", "other", "thread")]
    assert [bool(s.e) for s in saves] == [False, False, True]  # the last one on another thread
    calls = told(run, SpanCode.LOGGING)
    assert (calls["logging"][0], calls["print"][0]) == (3, 1)
    assert calls["os.fsync"][0] <= 1  # a fast disk may be below what is told
    where = {note["what"]: note["where"] for note in run.notes("site")}
    assert where["logging"] == "train.py:9"
    assert where["print"] == "train.py:10"
    assert run.out == "y" * 100_000 + "\n"


def told(run: Any, code: SpanCode) -> dict[str, tuple[int, int]]:
    """Calls and ns of each kind of logging or reporting, as the records tell them."""
    names = {note["id"]: note["what"] for note in run.notes("site")}
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for span in run.spans(code):
        whole = span.t1 - span.t0
        for site, count, ns in ((span.a, span.c, whole - span.b), (span.d & 0xFFFF, span.d >> 16, span.b)):
            before = found[names.get(site, "")]
            found[names.get(site, "")] = (before[0] + count, before[1] + ns)
    return found


def test_calls_that_no_python_code_makes_are_recorded_without_a_place(watched: Callable[..., Any]) -> None:
    code = "import atexit, torch\natexit.register(print, 'x' * 200_000, flush=True)"
    run = watched(code).healthy()
    assert run.out == "x" * 200_000 + "\n"
    assert run.err == ""


REPORTING = """
import http.server, threading, urllib.request, torch
class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Quiet)
threading.Thread(target=server.serve_forever, daemon=True).start()
urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/train.py").read()
from torch.utils.tensorboard import SummaryWriter
with SummaryWriter("tb") as writer:
    writer.add_scalar("loss", 1.0, 1)
"""


def test_reporting_is_what_the_training_thread_sends(watched: Callable[..., Any]) -> None:
    pytest.importorskip("tensorboard")
    run = watched(REPORTING).healthy()
    assert len(run.spans(SpanCode.REPORTING, "http.request")) == 1
    assert len(run.spans(SpanCode.REPORTING, "http.getresponse")) == 1
    assert told(run, SpanCode.REPORTING)["tensorboard.add_scalar"][0] == 1
    assert {s.e for s in run.spans(SpanCode.REPORTING)} == {0}


DISTRIBUTED = """
import os, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
dist.init_process_group("gloo", init_method="file://" + os.path.abspath("store"), rank=0, world_size=1)
value = torch.ones(3)
dist.all_reduce(value)
dist.barrier()
dcp.save({"value": value}, checkpoint_id="dcp")
dist.destroy_process_group()
"""


def test_collectives_and_distributed_checkpoints(watched: Callable[..., Any]) -> None:
    run = watched(DISTRIBUTED).healthy()
    assert len(run.spans(SpanCode.COLLECTIVE, "torch.distributed.all_reduce")) == 1
    assert len(run.spans(SpanCode.COLLECTIVE, "torch.distributed.barrier")) == 1
    assert len(run.spans(SpanCode.CHECKPOINT, "torch.distributed.checkpoint.save")) == 1
    assert run.notes("process")[-1]["rank"] == 0
    assert run.notes("process")[-1]["world_size"] == 1


SYNC = """
import torch
x = torch.ones(4)
for _ in range(2):
    x.sum().item()
    x.tolist()
    x.cpu(), x.numpy()
"""


def test_waits_for_the_device_are_recorded_when_there_is_one(watched: Callable[..., Any]) -> None:
    run = watched(SYNC, env={"GPUTUNE_GUEST_SYNC": "1"}).healthy()
    for what in ("item", "tolist", "cpu", "numpy"):
        assert len(run.spans(SpanCode.SYNC, f"Tensor.{what}")) == 2
    assert watched(SYNC).healthy().spans(SpanCode.SYNC) == []  # this torch has no device: nothing is patched


READ = """
import logging, sys, torch
logging.basicConfig(stream=sys.stderr)
x = torch.ones(4)
print(x, "y" * 200_000)
logging.warning("%s %s", x.sum(), "z" * 200_000)
print("plain", "y" * 200_000)
print(float(x.sum()), int(x.sum()), bool(x.sum()), "{:.1f}".format(x.sum()), 1 if x.sum() > 1 else 0)
"""


def test_what_a_log_line_waits_for_the_device_is_told_before_the_rest_of_it(watched: Callable[..., Any]) -> None:
    run = watched(READ, env={"GPUTUNE_GUEST_SYNC": "1"}).healthy()
    reads = {what: len(run.spans(SpanCode.SYNC, what)) for what in ("print", "logging")}
    assert reads == {"print": 1, "logging": 1}
    lines = run.spans(SpanCode.LOGGING, "print")
    (read,) = run.spans(SpanCode.SYNC, "print")
    assert read.t0 < read.t1 <= lines[0].t0  # of close lines one record is made, by the name of the longer ones
    assert {note["where"] for note in run.notes("site") if note["what"] == "logging"} == {"train.py:6"}
    assert run.out.startswith("tensor([1., 1., 1., 1.]) y")


def test_tensors_taken_for_numbers_and_for_conditions_are_waited_for(watched: Callable[..., Any]) -> None:
    run = watched(READ, env={"GPUTUNE_GUEST_SYNC": "1"}).healthy()
    waits = {what: len(run.spans(SpanCode.SYNC, f"{what}(tensor)")) for what in ("float", "int", "bool")}
    assert waits == {"float": 1, "int": 1, "bool": 2}
    assert len(run.spans(SpanCode.SYNC, "Tensor.item")) == 1
    assert run.out.endswith("4.0 4 True 4.0 1\n")


def test_a_copy_back_to_the_host_waits_unless_it_is_told_not_to(watched: Callable[..., Any], fake_torch: Path) -> None:
    code = """
import torch
tensor = torch.Tensor()
tensor.is_cuda = True
assert not tensor.to("cpu").is_cuda
tensor.to("cpu", non_blocking=True)
tensor.to("cuda")
"""
    run = watched(code, path=(fake_torch,), env={"FAKE_CUDA": "12.4"}).healthy()
    assert len(run.spans(SpanCode.SYNC, "Tensor.to")) == 1
    assert run.spans(SpanCode.COPY_H2D) == []


def test_a_tensor_on_a_device_that_is_filled_from_the_host_is_copied_to(
    watched: Callable[..., Any], fake_torch: Path
) -> None:
    code = """
import torch
host, there = torch.Tensor(), torch.Tensor().to("cuda")
assert there.copy_(host) is there
there.copy_(torch.Tensor().to("cuda"))  # from device to device
there.copy_(host, True)
host.copy_(there)
host.copy_(there, non_blocking=True)
"""
    run = watched(code, path=(fake_torch,), env={"FAKE_CUDA": "12.4"}).healthy()
    copies = run.spans(SpanCode.COPY_H2D, "Tensor.copy_")
    assert [(copy.b, copy.c) for copy in copies] == [(4000, 0), (4000, 2)]
    assert len(run.spans(SpanCode.SYNC, "Tensor.copy_")) == 1


COMPILED = """
import torch
from torch.nn import Linear
torch.manual_seed(0)
model = torch.nn.Sequential(Linear(4, 4), torch.nn.Dropout(0.5), Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
whole = dict(backend="eager", fullgraph=True)

@torch.compile(**whole)
def forward(x):
    model.eval()
    y = model(x)
    model.train()
    return y.sum()

@torch.compile(**whole)
def copy(x):
    return x.to(torch.float64).cpu() * 2

@torch.compile(backend="eager")
def loud(x):
    print("in the graph")
    if x.sum() > 100: return float(x.sum()) + int(x.max())
    return x.sum().item() + float(x.mean()) + int(x.max()) + bool(x.min())

x = torch.randn(3, 4)
compiled_step = torch.compile(optimizer.step, backend="eager")
for _ in range(3):
    optimizer.zero_grad()
    loss = forward(x)
    loss.backward()
    compiled_step()
    print(loss.item().hex(), copy(x).sum().item(), loud(x))
print(torch._dynamo.utils.counters["graph_break"])
"""


def test_compiled_functions_are_traced_as_they_would_have_been(watched: Callable[..., Any]) -> None:
    run = watched(COMPILED, env={"GPUTUNE_GUEST_SYNC": "1"}).healthy()
    bare = watched(COMPILED, env={"GPUTUNE_RINGS": ""})
    assert bare.status == 0, bare.err
    assert run.out == bare.out
    assert len(run.records(Kind.BACKWARD)) == 3


def test_a_guest_that_fails_takes_itself_back(watched: Callable[..., Any], fake_torch: Path) -> None:
    code = """
import torch
from torch.utils.data import dataloader
from gputune_guest import ring
ours = dataloader._BaseDataLoaderIter.__next__
for _ in range(ring.TOO_MANY):
    ring.failed(ValueError("planted"))
assert dataloader._BaseDataLoaderIter.__next__ is not ours
assert torch.save.__code__.co_filename.endswith("serialization.py")
print(list(torch.utils.data.DataLoader([1, 2])))
"""
    run = watched(code, path=(fake_torch,))
    assert (run.status, run.out) == (0, "[[1], [2]]\n"), run.err
    (off,) = run.notes("off")
    assert "planted" in str(off["why"])
    assert len(run.notes("error")) == 3
    assert run.records(Kind.BATCH) == []


def test_a_folder_that_cannot_be_written_costs_only_the_records(
    watched: Callable[..., Any], fake_torch: Path, tmp_path: Path
) -> None:
    code = "import torch; print(len(list(torch.utils.data.DataLoader([1, 2])))); torch.save(1, 'x')"
    (tmp_path / "file").write_text("")
    run = watched(code, path=(fake_torch,), env={"GPUTUNE_RINGS": str(tmp_path / "file")})
    assert (run.status, run.out, run.err) == (0, "2\n", "")
    gone = "import os, shutil; shutil.rmtree(os.environ['GPUTUNE_RINGS'])\n" + code
    run = watched(gone, path=(fake_torch,), env={"GPUTUNE_RINGS": str(tmp_path / "other")})
    assert (run.status, run.out, run.err) == (1, "", run.err)  # the script's own rmtree: there is no such folder


def test_lines_in_close_succession_are_one_span_and_a_step_between_parts_them(lightly: Callable[..., Any]) -> None:
    code = """
import logging, time, torch
log = logging.getLogger("training")
log.addHandler(logging.StreamHandler(open("log", "w")))
log.propagate = False
for batch in torch.utils.data.DataLoader(list(range(3)), batch_size=1):
    for number in range(200):
        log.warning("sample %d", number)
    time.sleep(0.01)
    for number in range(200):
        log.warning("sample %d", number)
"""
    run = lightly(code).healthy()
    assert told(run, SpanCode.LOGGING)["logging"][0] == 1200
    spans = run.spans(SpanCode.LOGGING, "logging")
    batches = run.records(Kind.BATCH)
    assert 6 <= len(spans) < 100  # a preemption may part a burst
    assert [s.t0 for s in spans] == sorted(s.t0 for s in spans)
    for span in spans:  # none reaches into a next()
        assert all(span.t1 <= b.t0 or span.t0 >= b.t1 for b in batches)


def test_lines_that_are_synced_one_by_one_are_one_record_a_step_with_their_counts(lightly: Callable[..., Any]) -> None:
    code = """
import os, time, torch
log = open("log", "w")
for batch in torch.utils.data.DataLoader(list(range(20)), batch_size=1):
    for line in range(8):
        print("line", line, "#" * 4000, file=log, flush=True)
        os.fsync(log.fileno())
"""
    run = lightly(code).healthy()
    calls = told(run, SpanCode.LOGGING)
    assert calls["print"][0] == calls["os.fsync"][0] == 160
    assert len(run.spans(SpanCode.LOGGING)) < 160  # of 320; a busy machine may part many
    whole = sum(s.t1 - s.t0 for s in run.spans(SpanCode.LOGGING))
    assert calls["print"][1] + calls["os.fsync"][1] == whole


def test_what_lies_between_calls_is_a_part_of_them_only_where_it_is_short(lightly: Callable[..., Any]) -> None:
    code = """
import sys, torch
from gputune_guest.spans import APART, Burst
us, frame = 1000, sys._getframe()
burst = Burst(7, 0)
burst.add(0, 10 * us, "print", frame)
burst.add(60 * us, 90 * us, "os.fsync", frame)  # 50 us later
burst.add(1090 * us, 1100 * us, "print", frame)  # 1 ms later
kind, code, t0, t1, site, second_ns, second, thread, count = burst.fields()
assert (code, t1 - t0, t1, thread) == (7, 100 * us, 1100 * us, 0)
assert (count, second_ns, second >> 16) == (1, 20 * us, 2)
assert site != second & 0xFFFF
assert burst.takes(7, 1200 * us, "print") and burst.takes(7, 1200 * us, "os.fsync")
assert not burst.takes(8, 1200 * us, "print") and not burst.takes(7, 1200 * us, "tqdm")
assert not burst.takes(7, 1100 * us + APART, "print")
"""
    lightly(code).healthy()


def test_files_of_numpy_pickle_and_torchscript_are_checkpoints(watched: Callable[..., Any], tmp_path: Path) -> None:
    code = """
import gzip, io, os, pickle, torch
weights, numbers = {"w": torch.randn(1000, 1000)}, list(range(300_000))
with open("model.pkl", "wb") as file:
    pickle.dump(weights, file)
with gzip.open("model.gz", "wb", 1) as file:
    pickle.dump(weights, file=file)
with open("small.pkl", "wb") as file:
    pickle.dump([1], file)
pickle.dump(numbers, io.BytesIO())
with open("/dev/null", "wb") as out, os.fdopen(os.dup(out.fileno()), "wb") as pipe:
    pickle.dump(numbers, pipe)
torch.jit.save(torch.jit.script(torch.nn.Linear(10, 10)), "model.pt")
for ours in pickle.dump, torch.jit.save:
    assert pickle.loads(pickle.dumps(ours)) is ours
"""
    run = watched(code).healthy()
    assert [s.b for s in run.spans(SpanCode.CHECKPOINT, "pickle.dump")] == [(tmp_path / "model.pkl").stat().st_size, 0]
    assert [s.b for s in run.spans(SpanCode.CHECKPOINT, "torch.jit.save")] == [(tmp_path / "model.pt").stat().st_size]
    assert len(run.spans(SpanCode.CHECKPOINT)) == 3  # what torch.save adds inside of a pickle is one with it


def test_arrays_that_numpy_saves_are_checkpoints(watched: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    code = """
import io, numpy, pickle, torch
from numpy import savez_compressed
weights = torch.randn(1000, 1000).numpy()
numpy.save("model.npy", weights)
numpy.savez("several", weights=weights)
savez_compressed("packed.npz", weights=weights)
numpy.save(io.BytesIO(), weights)
assert pickle.loads(pickle.dumps(numpy.savez)) is numpy.savez
"""
    run = watched(code).healthy()
    assert [s.b for s in run.spans(SpanCode.CHECKPOINT, "numpy.save")] == [(tmp_path / "model.npy").stat().st_size]
    assert [s.b for s in run.spans(SpanCode.CHECKPOINT, "numpy.savez")] == [0]  # numpy gave it its ending
    assert len(run.spans(SpanCode.CHECKPOINT, "numpy.savez_compressed")) == 1
    assert len(run.spans(SpanCode.CHECKPOINT)) == 3


def test_syncing_a_model_that_was_just_saved_is_told_by_itself(watched: Callable[..., Any]) -> None:
    code = """
import os, torch
with open("model.pt", "wb") as file:
    torch.save(torch.ones(1000), file)
    os.fsync(file.fileno())
print("saved")
"""
    run = watched(code).healthy()
    spans = run.records(Kind.SPAN)
    assert [s.code for s in spans][:2] == [SpanCode.CHECKPOINT, SpanCode.LOGGING]
    assert len(run.spans(SpanCode.LOGGING, "os.fsync")) == 1


def test_memory_that_is_cleaned_up_by_the_script_is_told_where_it_does_so(watched: Callable[..., Any]) -> None:
    code = """
import gc, threading, torch
kept = [[index] for index in range(300_000)]
for step in range(3):
    assert gc.collect() >= 0
thread = threading.Thread(target=gc.collect)
thread.start(); thread.join()
"""
    run = watched(code).healthy()
    assert run.out == run.err == ""
    spans = run.spans(SpanCode.CLEANUP, "gc.collect")
    assert len(spans) == 3
    assert all(span.t1 > span.t0 for span in spans)
    assert {note["where"] for note in run.notes("site") if note["what"] == "gc.collect"} == {"train.py:5"}
