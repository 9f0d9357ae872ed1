"""A training that gputune has started to time it: it ends by itself, evenly fed, and cleanly."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gputune.core.events import BatchCode, FetchCode, Kind

HEAD = """
import atexit, json, sys, torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __init__(self, folder=None):
        self.folder = folder
    def __len__(self):
        return 40
    def __getitem__(self, i):
        if self.folder:
            open(f"{self.folder}/{i}.txt").close()
        return {"x": torch.full((2,), float(i)), "i": i}

"""
Watched = Callable[..., Any]


def asked(**trial: Any) -> dict[str, str]:
    return {"GPUTUNE_TRIAL": json.dumps(trial)}


def test_it_ends_after_so_many_training_batches_through_the_script_s_own_doors(watched: Watched) -> None:
    code = """
seen = []
atexit.register(lambda: print("atexit"))
if __name__ == "__main__":
    train, valid = DataLoader(Numbers(), 4, num_workers=2), DataLoader(Numbers(), 4)
    try:
        for epoch in range(100):
            for batch in train:
                seen.append(len(batch["i"]))
            with torch.no_grad():
                print("valid", sum(len(batch["i"]) for batch in valid))
    finally:
        print("finally", len(seen))
"""
    run = watched(HEAD + code, env=asked(batches=25)).healthy()
    assert run.out.split("\n") == ["valid 40", "valid 40", "finally 25", "atexit", ""]
    assert run.err == ""
    assert run.notes("trial") == [{"n": "trial", "batches": 25}]
    training = {r.a for r in run.records(Kind.ITERATOR) if r.e}
    assert (
        sum(1 for b in run.records(Kind.BATCH) if b.a in training and not b.code & (BatchCode.END | BatchCode.FAILED))
        == 25
    )


def test_of_two_loops_the_one_that_is_meant_is_let_come_and_its_batches_count(watched: Watched) -> None:
    code = """
if __name__ == "__main__":
    first = DataLoader(Numbers(), 4)
    second = DataLoader(Numbers(), 4)
    print("first", sum(1 for _ in first))
    try:
        for epoch in range(9):
            print("second", sum(1 for _ in second))
    finally:
        print("finally")
"""
    line = (HEAD + code).split("\n").index("    second = DataLoader(Numbers(), 4)") + 1
    name = watched(HEAD + code).healthy().notes("loader")[1]["where"].partition(":")[0]
    run = watched(HEAD + code, env=asked(batches=15, where=f"{name}:{line}")).healthy()
    assert run.out.split("\n") == ["first 10", "second 10", "finally", ""]
    assert run.notes("trial") == [{"n": "trial", "batches": 15}]


def test_a_loader_in_a_thread_ends_the_script_through_its_own_doors_as_well(watched: Watched) -> None:
    code = """
import queue, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # not as whoever runs this has it
batches = queue.Queue(2)
atexit.register(lambda: print("atexit"))
def feed():
    while True:
        for batch in DataLoader(Numbers(), 4):
            batches.put(batch)
threading.Thread(target=feed, daemon=True).start()
try:
    while True:
        batches.get()
except KeyboardInterrupt:
    print("interrupted")
finally:
    print("finally")
"""
    run = watched(HEAD + code, env=asked(batches=25)).healthy()
    assert run.out.split("\n") == ["interrupted", "finally", "atexit", ""]
    assert run.notes("trial") == [{"n": "trial", "batches": 25}, {"n": "trial", "interrupted": True}]


def test_two_trials_of_one_seed_get_the_same_samples(watched: Watched, rings: Path) -> None:
    code = """
if __name__ == "__main__":
    for batch in DataLoader(Numbers(), 4, shuffle=True, num_workers=WORKERS):
        print(*batch["i"].tolist())
    print(torch.initial_seed())
"""
    outs = []
    for workers in (0, 2):
        run = watched(HEAD + code.replace("WORKERS", str(workers)), env=asked(seed=7))
        assert run.status == 0, run.err
        outs.append(run.out)
    assert outs[0] == outs[1]
    assert outs[0].endswith("\n7\n")


def test_numbers_that_samples_draw_from_python_and_numpy_are_the_same_in_two_trials(watched: Watched) -> None:
    code = """
import random
import numpy
if __name__ == "__main__":
    print([random.random() for _ in range(3)], numpy.random.rand(3).tolist())
"""
    ahead = "import numpy.random\n"
    outs = []
    for head, seed in (("", 7), ("", 7), (ahead, 7), ("", 8)):
        run = watched(head + HEAD + code, env=asked(seed=seed)).healthy()
        outs.append(run.out)
    assert outs[0] == outs[1] == outs[2]
    assert outs[0] != outs[3]


def test_a_seed_brings_no_numpy_into_a_script_that_has_none(watched: Watched, fake_torch: Path) -> None:
    code = """
import random, sys
from torch.utils.data.dataloader import DataLoader
print("numpy" in sys.modules, random.random())
"""
    outs = [watched(code, path=(fake_torch,), env=asked(seed=7)).out for _ in range(2)]
    assert outs[0] == outs[1]
    assert outs[0].startswith("False ")


def test_the_first_batch_comes_again_and_again_as_it_was(watched: Watched) -> None:
    code = """
got, numbers = [], Numbers()
for epoch in range(2):
    for batch in DataLoader(numbers, 4):
        got.append((batch["x"].tolist(), batch.pop("i").tolist()))
        if epoch:
            batch["x"].fill_(-1.0)
print(json.dumps(got))
"""
    run = watched(HEAD + code, env=asked(replay=True)).healthy()
    got = json.loads(run.out)
    assert len(got) == 20
    assert all(batch == got[0] for batch in got)
    assert [f.code & FetchCode.INLINE for f in run.records(Kind.FETCH)] == [FetchCode.INLINE]
    assert sum(b.c for b in run.records(Kind.BATCH)) == 80


def test_the_names_of_the_files_that_were_read_are_kept(watched: Watched, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for i in range(40):
        (data / f"{i}.txt").write_text(str(i))
    code = f"""
if __name__ == "__main__":
    for batch in DataLoader(Numbers({str(data)!r}), 4, num_workers=2):
        open({str(tmp_path / "out.txt")!r}, "w").close()
"""
    names = tmp_path / "names"
    watched(HEAD + code, env=asked(files=str(names))).healthy()
    read = set(names.read_text().splitlines())
    assert {str(data / f"{i}.txt") for i in range(40)} <= read
    assert str(tmp_path / "out.txt") not in read
    assert names.stat().st_mode & 0o777 == 0o600


def test_without_the_variables_neither_is_even_imported(watched: Watched, fake_torch: Path) -> None:
    code = """
import sys
from torch.utils.data.dataloader import DataLoader
print([name for name in ("loader", "trial", "override") if "gputune_guest." + name in sys.modules])
"""
    run = watched(code, path=(fake_torch,)).healthy()
    assert run.out == "['loader']\n"


def test_it_ends_once_nobody_is_there_who_reads_what_it_takes(watched: Watched) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    code = """
if __name__ == "__main__":
    import time
    try:
        for epoch in range(10000):
            for batch in DataLoader(Numbers(), 4):
                time.sleep(0.02)
    finally:
        print("finally")
"""
    run = watched(HEAD + code, env=asked(host=gone.pid)).healthy()
    assert run.out == "finally\n"
    assert len(run.notes("trial")) == 1
