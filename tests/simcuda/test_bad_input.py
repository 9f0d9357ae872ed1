"""What is odd about a machine or a script is one true sentence, and the training ends as it does without gputune."""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import wait_until

Maker = Callable[..., Any]
Act = Callable[[Any, Path], None]  # on the cards, beside the run in this folder
GPUTUNE = (sys.executable, "-m", "gputune")
PATIENCE = 120.0  # s
GPU_IS_LOST = 15  # NVML
ATTEMPTS = 3  # in 2 of 42 bare runs, and in none of 42 watched ones, a thread of torch ends them
# a frame of the guest's in a traceback: its line, the code, and the marks under that
OURS = re.compile(r'  File "[^"]*/gputune_guest/[^\n]*\n(?:    [^\n]*\n)*')
TRAIN = """
import os, sys, time, torch
from torch import nn
from torch.utils.data import DataLoader
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
class Data:
    def __len__(self): return 64 * 60
    def __getitem__(self, i): return torch.full((64,), float(i % 7)), i % 10
def train(first=device, second=device, each=lambda n: None):
    head, tail = nn.Linear(64, 128).to(first), nn.Linear(128, 10).to(second)
    optimizer = torch.optim.SGD([*head.parameters(), *tail.parameters()], lr=0.01)
    for n, (x, y) in enumerate(DataLoader(Data(), batch_size=64)):
        each(n)
        loss = nn.functional.cross_entropy(tail(torch.relu(head(x.to(first))).to(second)), y.to(second))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if n % 20 == 0: print(n, loss.item() if loss.is_cuda else "", flush=True)
"""


@dataclass
class Ended:
    """How a script ended: bare, or watched."""

    status: int
    out: str
    err: str


def once(new: Callable[[], Any], code: str, env: dict[str, str], act: Act | None, *wrap: str) -> tuple[Ended, Path]:
    """Run a training, `act` on its cards meanwhile, and return how it ended, and where; again where torch itself fell.

    Each time on new cards: `act` has left those of the time before as it has made them.
    """
    for _ in range(ATTEMPTS):
        machine = new()
        ended = attempt(machine, code, env, act, *wrap)
        machine.state.unlink()
        if not machine._simcuda.is_torchs_own(ended.status, ended.err):
            break
    return ended, machine.folder / folder_of(wrap)


def folder_of(wrap: tuple[str, ...]) -> str:
    """Return what a run's folder is called."""
    return "watched" if wrap else "bare"


def attempt(machine: Any, code: str, env: dict[str, str], act: Act | None, *wrap: str) -> Ended:
    """Run it once."""
    folder = machine.folder / folder_of(wrap)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN + code)
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        process = subprocess.Popen(
            [*wrap, "python", "train.py"], env=machine.environment() | env, cwd=folder, stdout=out, stderr=err
        )
        try:
            if act is not None:
                act(machine.cards, folder)
            status = process.wait(PATIENCE)
        finally:
            process.kill()
    err_text = OURS.sub("", (folder / "err").read_text()).replace(f"{folder}/", "")
    return Ended(status, (folder / "out").read_text(), err_text)


def both(
    maker: Maker,
    code: str,
    *,
    devices: int = 1,
    env: dict[str, str] | None = None,
    act: Act | None = None,
) -> tuple[Ended, dict[str, Any], str]:
    """Run a training bare and watched: both end alike. Returns how, the verdict, and the report's text."""
    bare, _ = once(lambda: maker(devices), code, env or {}, act)
    watch = (*GPUTUNE, "watch", "--quiet", "--json", "verdict.json", "--out", "run", "--")
    watched, folder = once(lambda: maker(devices), code, env or {}, act, *watch)
    assert watched == bare
    assert errors(folder / "run") == []
    report = subprocess.run([*GPUTUNE, "report", folder / "run"], capture_output=True, text=True, check=True)
    return bare, json.loads((folder / "verdict.json").read_text()), " ".join(report.stdout.split())


def errors(run: Path) -> list[str]:
    """Return what the guest said of errors of its own."""
    from gputune.core.sample import Note
    from gputune.recording.reading import readings

    notes = (each for tick in readings(run) for each in tick if isinstance(each, Note))
    return [str(note.fields) for note in notes if note.fields.get("n") in {"error", "off"}]


def come_to_it(folder: Path) -> None:
    """Wait until the training has come to the step at which it waits for what is done to the card."""
    wait_until((folder / "up").exists)


def vanish(cards: Any, folder: Path) -> None:
    """Take the card away in that step."""
    come_to_it(folder)
    cards.set(lost=1)
    cards.xid(79)
    (folder / "gone").touch()


WAITS = """
def each(n):
    if n == 40:
        open("up", "w").close()
        while not os.path.exists("gone"): time.sleep(0.01)
"""


def test_a_card_that_vanishes_in_a_step(machine: Maker) -> None:
    ended, verdict, report = both(machine, WAITS + "train(each=each)\n", act=vanish)
    assert ended.status == 1
    (row,) = verdict["failures"]
    assert (row["where"], row["lost"], row["ended"]) == ("train.py:14", True, True)
    told = re.search(r"GPU 0 was lost( \(Xid 79\))? at train.py:14: CUDA error:", report)
    assert told, report  # the Xid where it was read before the end: a lost card answers nothing more


SLOWLY = """
def each(n):
    if n == 20:
        open("up", "w").close()
        while not os.path.exists("gone"): time.sleep(0.01)
    time.sleep(0.05 if n < 20 else 0.35)  # a reading counts for five seconds
"""


@pytest.mark.parametrize("how", ["lost", "hangs"])
def test_a_card_that_can_be_read_no_more(machine: Maker, how: str) -> None:
    """The training goes on for most of its time; what was read at first is not told as if it were all of it."""

    def act(cards: Any, folder: Path) -> None:
        come_to_it(folder)
        cards.fault("*", GPU_IS_LOST) if how == "lost" else cards.fault("*", delay=-1)
        (folder / "gone").touch()

    ended, verdict, report = both(machine, SLOWLY + "train(each=each)\n", act=act)
    assert ended.status == 0
    device = verdict["device"]
    assert 0.02 < device["coverage"] < 0.5
    assert device["why"]
    told = re.search(r"busy in the (\d+)% of the loop in which it was read: ([^█]*)", report)
    assert told, report
    assert int(told[1]) == pytest.approx(100 * device["coverage"], abs=5)  # judged again, from the recording
    assert device["why"] in told[2]


def test_a_driver_that_is_too_old(machine: Maker) -> None:
    ended, _, report = both(machine, "train()\n", env={"SIMCUDA_DRIVER": "12000"})
    assert ended.status == 0
    assert "did not use CUDA: the driver (CUDA 12.0) is too old for this torch (CUDA 13.0)" in report


@pytest.mark.parametrize(("visible", "said"), [("", "is empty"), ("MIG-77", "is MIG-77")])
def test_cards_that_are_hidden(machine: Maker, visible: str, said: str) -> None:
    _, _, report = both(machine, "train()\n", env={"CUDA_VISIBLE_DEVICES": visible})
    assert f"the training did not use CUDA: CUDA_VISIBLE_DEVICES {said}" in report


def test_a_card_by_its_uuid(machine: Maker) -> None:
    uuid = "GPU-51a9a1e0-0000-4000-8000-000000000001"
    _, verdict, _ = both(machine, "train()\n", devices=3, env={"CUDA_VISIBLE_DEVICES": uuid})
    assert (verdict["device"]["count"], verdict["unused"]) == (1, [])


QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR"}  # what torch says in C as memory runs out, it says with the time
SLICE = """
told = torch.cuda.get_device_properties(0)
print(torch.cuda.device_count(), told.name, told.multi_processor_count, told.total_memory >> 20)
train(each=lambda n: time.sleep(0.05))
try: torch.empty(42 << 30, dtype=torch.uint8, device=device)
except torch.OutOfMemoryError: print("no room", flush=True)
train()
"""


@pytest.mark.parametrize(
    "wish", ["MIG-f1a9a1e0-0000-4000-8000-000000000001", "MIG-GPU-51a9a1e0-0000-4000-8000-000000000001/1/0"]
)
def test_a_mig_slice(machine: Maker, wish: str) -> None:
    def parted(devices: int) -> Any:
        made = machine(devices)
        made.cards.set(1, mig=1)
        return made

    ended, verdict, report = both(parted, SLICE, devices=2, env={"CUDA_VISIBLE_DEVICES": wish, **QUIET})
    assert ended.status == 0
    assert ended.out.startswith("1 Simulated GPU MIG 60 40448")
    assert "no room" in ended.out
    assert (verdict["device"]["count"], verdict["unused"], verdict["failures"]) == (1, [], [])
    assert [row["why"] for row in verdict["unavailable"]] == [
        "device 1 is in MIG mode: its utilisation is not measurable"
    ]
    assert verdict["out_of_memory"][0]["total_bytes"] == 40448 << 20
    assert "GPU 1" in report
    assert not {row["id"] for row in verdict["findings"]} & {"small-batch", "room-to-share", "shared-device"}


def test_a_model_over_two_cards(machine: Maker) -> None:
    code = 'train("cuda:0", "cuda:1", each=lambda n: time.sleep(0.05))\n'  # NVML is asked now and then who is on a card
    _, verdict, _ = both(machine, code, devices=2)
    assert (verdict["device"]["count"], verdict["failures"], verdict["unused"]) == (2, [], [])


def test_a_training_that_changes_cards(machine: Maker) -> None:
    code = 'train("cuda:1", "cuda:0", each=lambda n: torch.cuda.set_device(n // 10 % 2))\n'
    _, verdict, _ = both(machine, code, devices=2)
    assert verdict["failures"] == []


FORKS = """
import multiprocessing
train()
for where in (torch.device("cpu"), device):
    child = multiprocessing.get_context("fork").Process(target=train, args=(where, where), name="child")
    child.start(); child.join(); print(child.exitcode)
train()
"""


def test_a_fork_after_cuda_was_used(machine: Maker) -> None:
    ended, _, report = both(machine, FORKS)
    assert "Cannot re-initialize CUDA in forked subprocess" in ended.err
    assert "did not use CUDA: it was forked from a process that had used CUDA" in report


CHILDREN = """
def child(leave):
    pid = os.fork()
    if not pid:
        torch.zeros(4).to(torch.float64)  # asks nothing of the device
        leave(7)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
def each(n):
    torch.cuda._sleep(10_000_000)
    if n == 20: child(sys.exit)
train(each=each)  # its last step is over, and not told yet
child(os._exit)
child(sys.exit)
print(len(list(DataLoader(Data(), batch_size=64, num_workers=2))))
"""


def test_children_that_are_forked_beside_timed_steps(machine: Maker) -> None:
    ended, verdict, _ = both(machine, CHILDREN)
    assert ended.out.split()[-3:] == ["7", "7", "60"]
    assert "\n7\n20 " in ended.out  # from within the loop
    assert verdict["failures"] == []


def test_memory_errors_and_mig_slices(machine: Maker) -> None:
    def act(cards: Any, folder: Path) -> None:
        cards.set(mig=1)
        come_to_it(folder)
        time.sleep(1.5)  # NVML's count is read once before
        cards.set(ecc=2)
        cards.xid(48)
        time.sleep(2.5)  # and once after
        (folder / "gone").touch()

    _, verdict, _ = both(machine, WAITS + "train(each=each)\n", act=act)
    (found,) = [row for row in verdict["findings"] if row["id"] == "device-errors"]
    assert "Xid 48 (double-bit memory error)" in found["says"]
    assert any("MIG mode" in row["why"] for row in verdict["unavailable"])
    assert verdict["failures"] == []


def test_the_users_own_preload(machine: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "libm.so.6")
    ended, _, _ = both(machine, 'train()\nprint(os.environ["LD_PRELOAD"].split(":")[1:])\n')
    assert "['libm.so.6']" in ended.out


UNTOUCHED = """
import warnings
synced = 0
def count(message, *_, **__):
    global synced
    synced += "synchroniz" in str(message)
warnings.showwarning = count
warnings.simplefilter("always")
amp, side = sys.argv[1] == "amp", torch.cuda.Stream()
net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10)).to(device)
optimizer, scaler = torch.optim.SGD(net.parameters(), lr=0.01), torch.amp.GradScaler("cuda", enabled=amp)
def step(x, y):
    optimizer.zero_grad(set_to_none=False)
    with torch.autocast("cuda", dtype=torch.float16, enabled=amp):
        loss = nn.functional.cross_entropy(net(x.view(-1, 1, 8, 8).to(kept[0])), y)  # as another tensor is
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
kept = torch.zeros(64, 64, device=device), torch.zeros(64, dtype=torch.long, device=device)
if sys.argv[1] == "graph":
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3): step(*kept)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph): step(*kept)
torch.cuda.set_sync_debug_mode("warn")
for x, y in DataLoader(Data(), batch_size=64, pin_memory=True):
    with torch.cuda.stream(side if sys.argv[1] == "side" else torch.cuda.current_stream()):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
    torch.cuda.current_stream().wait_stream(side)
    if sys.argv[1] == "graph":
        for here, batch in zip(kept, (x, y)): here.copy_(batch)
        graph.replay()
    else:
        step(x, y)
torch.cuda.set_sync_debug_mode("default")
print("synchronizations", synced)
"""


def launched(folder: Path) -> list[list[list[str]]]:
    """Return kind, name and bytes of what each stream did, in its order, without the guest's holds.

    The host's synchronizations are a stream as well: torch's debug mode tells none of an event's or the device's.
    Nor do the script's own waits for another stream count: the card queues one only where it has to be waited for.
    """
    lines = [line.split() for file in folder.glob("trace.*") for line in file.read_text().splitlines()]
    streams: dict[str, list[list[str]]] = {}
    for line in sorted(lines, key=lambda line: int(line[3])):
        if "spin_kernel" not in line[5] and line[0] != "wait":
            streams.setdefault(line[2], []).append([line[0], *line[5:]])
    return sorted(streams.values())


@pytest.mark.parametrize("kind", ["plain", "amp", "graph", "side"])
def test_the_guest_adds_no_synchronization_and_no_launch(machine: Maker, kind: str) -> None:
    env = {"SIMCUDA_TRACE": "trace.%p"}
    code = f"import sys\nsys.argv[1:] = [{kind!r}]\n" + UNTOUCHED
    made: dict[str, Path] = {}
    ended, _, _ = both(machine, code, env=env, act=lambda _, folder: made.update({folder.name: folder}))
    assert ended.out.startswith("synchronizations")
    bare, watched = (launched(made[name]) for name in ("bare", "watched"))
    assert sum(map(len, bare)) > 100
    assert bare == watched
