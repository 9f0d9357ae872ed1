"""What the thread of `pin_memory=True` takes for each batch: torch's own thread, with memory that only seems pinned."""

from collections.abc import Callable
from typing import Any

import pytest

from gputune.core.events import BatchCode, Kind

CODE = """
import threading, time, torch
from torch.utils.data import DataLoader
from torch.utils.data._utils import pin_memory as pinning
from torch.utils.data._utils.worker import get_worker_info

class Accelerator:
    type = "pretended"

for name, value in dict(
    is_available=lambda: True,
    current_accelerator=lambda *a, **k: Accelerator,
    current_device_index=lambda: 0,
    set_device_index=lambda index: None,
).items():
    setattr(torch.accelerator, name, value)

def pinned(tensor, *args):
    assert threading.current_thread() is not threading.main_thread()
    end = time.thread_time() + 0.002
    while time.thread_time() < end:
        pass
    return tensor.clone()

torch.Tensor.pin_memory = pinned

class Batch:
    def __init__(self, parts):
        self.x = torch.stack(parts)
        self.by = ""
    def pin_memory(self):
        self.x = self.x.pin_memory()
        self.by = threading.current_thread().name
        return self

def collate(parts):
    KIND

loader = DataLoader(torch.zeros(40, 8), batch_size=2, num_workers=2, pin_memory=True, collate_fn=collate,
                    persistent_workers=PERSISTENT)
for epoch in range(2):
    for x in loader:
        CHECK
"""
PLAIN = ("return torch.stack(parts)", "assert type(x) is torch.Tensor and x.shape == (2, 8)")
CUSTOM = ("return Batch(parts)", 'assert type(x) is Batch and sorted(vars(x)) == ["by", "x"] and x.by != "MainThread"')
NAMED = ('return {"x": torch.stack(parts), "n": "a"}', 'assert type(x) is dict and x["n"] == "a"')


def script(kind: tuple[str, str] = PLAIN, *, persistent: bool = False) -> str:
    return CODE.replace("KIND", kind[0]).replace("CHECK", kind[1]).replace("PERSISTENT", str(persistent))


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("kind", [PLAIN, CUSTOM, NAMED], ids=["tensor", "class", "dict"])
def test_each_batch_is_told_with_its_number(
    watched: Callable[..., Any], kind: tuple[str, str], persistent: bool
) -> None:
    run = watched(script(kind, persistent=persistent)).healthy()
    pins, batches = run.records(Kind.PIN), [b for b in run.records(Kind.BATCH) if not b.code & BatchCode.END]
    assert len(pins) == len(batches) == 40
    assert {p.a for p in pins} == {b.a for b in batches}
    assert sorted(p.c for p in pins) == sorted(2 * list(range(20)))
    for pin in pins:
        assert 2_000_000 <= pin.d <= pin.t1 - pin.t0 + 1_000_000
        assert 0 < pin.b < 1_000_000_000
    assert all(1 <= pin.code <= 1001 for pin in pins[1:20] if pin.t1 - pin.t0 < 50_000_000)
    assert not run.out


def test_a_batch_is_pinned_before_it_is_gotten(watched: Callable[..., Any]) -> None:
    run = watched(script()).healthy()
    pinned = {(p.a, p.c): p for p in run.records(Kind.PIN)}
    for batch in run.records(Kind.BATCH):
        if not batch.code & BatchCode.END:
            assert pinned[batch.a, batch.b].t1 <= batch.t1


def test_what_the_batches_consist_of_is_said_once(watched: Callable[..., Any]) -> None:
    for kind in (PLAIN, CUSTOM, NAMED):
        (note,) = watched(script(kind)).healthy().notes("pinned")
        assert (note["types"], note["shape"]) == ({"torch.float32": 64}, [2, 8])
        break


def test_an_error_of_theirs_in_pinning_is_theirs(watched: Callable[..., Any]) -> None:
    code = script().replace("    return tensor.clone()", '    raise ValueError("theirs")')
    run = watched(code.replace("for epoch in range(2):\n    for x in loader:", "try:\n    for x in loader:") + BOTH)
    run.healthy()
    assert run.out == "theirs\n"
    assert run.records(Kind.PIN) == []


BOTH = """
except ValueError as error:
    print("theirs" if "theirs" in str(error) else error)
"""


def test_without_pinning_there_is_nothing_to_tell(watched: Callable[..., Any]) -> None:
    run = watched(script().replace("pin_memory=True", "pin_memory=False")).healthy()
    assert run.records(Kind.PIN) == []
    assert run.notes("pinned") == []
