"""What goes wrong on real machines goes wrong here, in the same words."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Maker = Callable[..., Any]
HERE = Path(__file__).parent


def test_a_card_that_is_lost_is_an_error_of_the_next_call(machine: Maker) -> None:
    made = machine()
    code = """
        x = torch.zeros(4, device=device); sync(); print("up", flush=True); input()
        try: x.add_(1); sync()
        except RuntimeError as error: print(error)
    """
    process = made.start(code)
    assert process.stdout.readline() == "up\n"
    made.cards.set(lost=1)
    out, _ = process.communicate("\n", timeout=60)
    assert "CUDA error: CUDA-capable device(s) is/are busy or unavailable" in out


def test_a_forked_child_cannot_use_cuda(machine: Maker) -> None:
    code = """
        import ctypes
        torch.zeros(4, device=device)
        if not os.fork():
            print(ctypes.CDLL(None).cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(8)), flush=True)
            try: torch.zeros(4, device=device)
            except RuntimeError as error: print("forked" in str(error), flush=True)
            os._exit(0)
        os.wait()
    """
    assert machine().run(code) == ["3", "True"]


def test_an_event_that_a_forked_child_lets_go_of_ends_it(machine: Maker) -> None:
    code = """
        event = mark()
        pid = os.fork()
        if not pid:
            os.close(2)
            del event
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    assert machine().run(code) == ["-6"]  # as seen on an H100, torch 2.11: CUDA error: initialization error


SECOND = "GPU-51a9a1e0-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("visible", "seen"), [("1", [1]), ("2,0", [2, 0]), (SECOND, [1]), ("", []), ("0,7,1", [0]), ("0,0", [])]
)
def test_only_visible_devices_are_seen(machine: Maker, visible: str, seen: list[int]) -> None:
    code = """
        print(torch.cuda.device_count())
        for i in range(torch.cuda.device_count()): print(torch.cuda.get_device_properties(i).pci_bus_id - 1)
    """
    words = [int(word) for word in machine(3).run(code, {"CUDA_VISIBLE_DEVICES": visible})]
    assert words == [len(seen), *seen]


def test_a_driver_that_is_too_old_is_told_so_by_torch(machine: Maker) -> None:
    code = """
        print(torch.cuda.is_available())
        try: torch.zeros(4, device=device)
        except RuntimeError as error: print("driver on your system is too old (found version 12000)" in str(error))
    """
    assert machine().run(code, driver=12000) == ["False", "True"]


def test_two_cards_in_one_process_keep_their_own_time(machine: Maker) -> None:
    code = """
        ends = []
        for i in range(2):
            with torch.cuda.device(i): torch.cuda._sleep((50 + 100 * i) * MS); ends.append(mark())
        x = torch.ones(3, device="cuda:0").to("cuda:1")
        ends[0].synchronize(); print(ends[1].query()); ends[1].synchronize(); print(x.device, x.tolist() == [1, 1, 1])
    """
    assert machine(2).run(code) == ["False", "cuda:1", "True"]


def test_the_users_own_preload_is_kept(machine: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "libm.so.6")
    made = machine()
    assert made.environment()["LD_PRELOAD"].split(":")[1:] == ["libm.so.6"]
    assert made.run("\nprint(torch.cuda.is_available())") == ["True"]


def test_the_command_gets_its_status_and_gputune(tmp_path: Path) -> None:
    code = "import shutil, sys, torch; print(torch.cuda.device_count(), bool(shutil.which('gputune'))); sys.exit(7)"
    command = [sys.executable, HERE / "run.py", "--devices", "3", "--no-spin", "--", "python", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (7, "3 True\n")


def test_without_the_wheel_one_sentence_and_status_77(tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    (tmp_path / "venv" / "lib" / "python3" / "site-packages").mkdir(parents=True)
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho 'ERROR: no such wheel' >&2\nexit 1\n")  # a pip that finds nothing
    python.chmod(0o700)
    command = [sys.executable, HERE / "simcuda.py"]
    env = {"SIMCUDA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (77, "")
    assert done.stderr.startswith("no simulated CUDA: `pip install")
    assert done.stderr.count("\n") == 1
