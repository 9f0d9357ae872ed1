"""NVML as it goes wrong in the field, played by the simulated library to the real pynvml."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from simgpu import DRIVER_NOT_LOADED, MISMATCH, NO_PERMISSION, NOT_SUPPORTED, UNKNOWN, Cards, Device

from gputune.core.sample import Note, Reading, Sample, Target, Unavailable
from gputune.nvml import process as nvml_process
from gputune.probes import nvml

Maker = Callable[..., Cards]
PATIENCE = 60.0  # s; a deadline, not a pause
FUNCTION_NOT_FOUND = 13


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    """This process as the job."""
    monkeypatch.delenv("GPUTUNE_ALL_DEVICES", raising=False)
    return Target(root_pid=os.getpid(), pids=lambda: {os.getpid(): "main"})


class Probe:
    """The probe at work: what it read so far."""

    def __init__(self, target: Target) -> None:
        self.ticks = nvml.attach(target)
        self.samples: dict[str, list[Sample]] = {}
        self.notes: list[dict[str, Any]] = []

    def until(self, happened: Callable[[], object]) -> None:
        """Tick until something happened, or the deadline is over."""
        deadline = time.monotonic() + PATIENCE
        while not happened():
            assert time.monotonic() < deadline, (sorted(self.samples), self.notes)
            for reading in next(self.ticks):
                self.take(reading)
            time.sleep(0.02)

    def take(self, reading: Reading) -> None:
        if isinstance(reading, Sample):
            assert reading.metric in nvml.METRICS
            self.samples.setdefault(reading.column, []).append(reading)
        elif isinstance(reading, Note):
            self.notes.append(reading.fields)

    def has(self, *columns: str) -> bool:
        return all(column in self.samples for column in columns)

    def last(self, column: str) -> float:
        self.until(lambda: column in self.samples)
        return self.samples[column][-1].value

    def more(self, column: str) -> None:
        """Wait for another sample."""
        count = len(self.samples.get(column, ()))
        self.until(lambda: len(self.samples.get(column, ())) > count)

    def said(self) -> str:
        """Return the last word on what cannot be read."""
        return str(next((note["why"] for note in reversed(self.notes) if note["n"] == "unavailable"), ""))

    def devices(self) -> list[str]:
        return [str(note["index"]) for note in self.notes if note["n"] == "device"]

    def close(self) -> None:
        self.ticks.close()  # type: ignore[attr-defined] # it is a generator


@pytest.fixture
def probe(target: Target) -> Iterator[Callable[[], Probe]]:
    probes: list[Probe] = []

    def make() -> Probe:
        probes.append(Probe(target))
        return probes[-1]

    yield make
    for one in probes:
        one.close()


def child() -> int:
    """Return the pid of the process that makes the calls."""
    process = nvml_process._shared[0]._process
    assert process is not None
    return process.pid


def test_a_healthy_card_is_read_in_base_units(simgpu: Maker, probe: Callable[[], Probe]) -> None:
    simgpu().set(throttle=0x20, clock_sm=990)
    gpu = Device()
    gpu.alloc(3 << 30)
    gpu.launch(60.0)
    watched = probe()
    watched.until(lambda: watched.has("gpu.job.busy[0]", "gpu.sm.active[0]", "gpu.busy[0]"))
    watched.until(lambda: watched.last("gpu.busy[0]") == 1.0 and watched.last("gpu.job.busy[0]") == 1.0)
    assert watched.last("gpu.job.memory[0]") == 3.5 * 2**30
    assert watched.last("gpu.memory.used[0]") == 3.5 * 2**30
    assert watched.last("gpu.memory.total[0]") == 80 * 2**30
    assert watched.last("gpu.memory.reserved[0]") == 512 * 2**20
    assert watched.last("gpu.clock.sm[0]") == 990e6
    assert watched.last("gpu.clock.sm.max[0]") == 1980e6
    assert watched.last("gpu.throttle[0]") == 0x20
    assert 70 <= watched.last("gpu.power[0]") <= 380
    assert watched.last("gpu.power.limit[0]") == 700
    assert watched.last("gpu.power.limit.default[0]") == 700
    assert watched.last("gpu.pcie.width[0]") == 16
    assert watched.last("gpu.capability[0]") == 9.0
    assert watched.last("gpu.ecc[0]") == 0
    assert watched.said() == ""
    assert watched.devices() == ["0"]
    gpu.close()


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (DRIVER_NOT_LOADED, "the NVIDIA driver is not loaded"),
        (MISMATCH, "the NVIDIA driver and its library have different versions"),
        (NO_PERMISSION, "this user may not use NVML"),
        (UNKNOWN, "NVML cannot be used"),
    ],
)
def test_nvml_that_cannot_start_is_named_with_its_fix(
    simgpu: Maker, probe: Callable[[], Probe], code: int, why: str
) -> None:
    simgpu().fault("nvmlInit", code)
    with pytest.raises(Unavailable, match=why) as caught:
        probe().until(lambda: False)
    assert caught.value.hint


def test_a_missing_library_is_named_with_its_fix(
    probe: Callable[[], Probe], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")  # hides one that this machine may have
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    with pytest.raises(Unavailable, match=r"no NVIDIA driver library \(libnvidia-ml.so.1\)") as caught:
        probe().until(lambda: False)
    assert "driver" in caught.value.hint


def test_no_device_is_said(simgpu: Maker, probe: Callable[[], Probe]) -> None:
    simgpu(devices=0)
    with pytest.raises(Unavailable, match="finds no GPU"):
        probe().until(lambda: False)


def test_a_lost_device_costs_itself_only(
    simgpu: Maker, probe: Callable[[], Probe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTUNE_ALL_DEVICES", "1")
    cards = simgpu(devices=3)
    watched = probe()
    watched.until(lambda: watched.has("gpu.busy[0]", "gpu.busy[1]", "gpu.busy[2]"))
    cards.set(1, lost=1)
    cards.xid(79, device=1)
    watched.until(watched.said)
    assert re.fullmatch(r"device 1 cannot be read: the device is lost \(.*\), since \d\d:\d\d:\d\d", watched.said())
    assert watched.last("gpu.xid[1]") == 79
    watched.more("gpu.busy[0]")
    watched.more("gpu.busy[2]")


def test_a_device_that_is_lost_from_the_start_costs_itself_only(
    simgpu: Maker, probe: Callable[[], Probe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTUNE_ALL_DEVICES", "1")
    simgpu(devices=2).set(0, lost=1)
    watched = probe()
    watched.until(lambda: watched.has("gpu.busy[1]") and "device 0 cannot be read" in watched.said())
    assert watched.devices() == ["1"]


@pytest.mark.slow
def test_a_hung_call_costs_one_gap_in_one_column(simgpu: Maker, probe: Callable[[], Probe]) -> None:
    cards = simgpu()
    watched = probe()
    watched.until(lambda: watched.has("gpu.busy[0]", "gpu.power[0]"))
    before = child()
    cards.fault("nvmlDeviceGetPowerUsage", delay=-1)
    watched.until(watched.said)
    assert re.fullmatch(r"power of device 0 does not answer, since \d\d:\d\d:\d\d", watched.said())
    watched.more("gpu.busy[0]")
    watched.more("gpu.energy[0]")
    assert child() != before
    assert not Path(f"/proc/{before}").exists()


def test_waiting_for_xid_events_may_hang_too(simgpu: Maker, probe: Callable[[], Probe]) -> None:
    simgpu().fault("nvmlEventSetWait_v2", delay=-1)
    watched = probe()
    watched.until(lambda: watched.said().startswith("Xid events of NVML does not answer"))
    watched.more("gpu.busy[0]")


def test_a_driver_that_does_not_say_which_cuda_it_runs_is_asked_for_all_else(
    simgpu: Maker, probe: Callable[[], Probe]
) -> None:
    simgpu().fault("nvmlSystemGetCudaDriverVersion_v2", delay=-1)
    watched = probe()
    watched.until(lambda: watched.said().startswith("version of CUDA of NVML does not answer"))
    watched.more("gpu.busy[0]")


def test_a_hung_initialisation_is_said_and_the_end_does_not_wait(simgpu: Maker, probe: Callable[[], Probe]) -> None:
    simgpu().fault("nvmlInit", delay=-1)
    watched = probe()
    watched.until(watched.said)
    assert re.fullmatch(r"NVML is still starting, since \d\d:\d\d:\d\d", watched.said())
    hung = child()
    watched.close()
    assert not Path(f"/proc/{hung}").exists()


def test_unknown_error_for_good_is_cured_by_a_new_initialisation(simgpu: Maker, probe: Callable[[], Probe]) -> None:
    cards = simgpu()
    watched = probe()
    watched.until(lambda: watched.has("gpu.busy[0]"))
    cards.fault("nvmlInit", UNKNOWN)
    cards.unknown_error()
    watched.until(watched.said)
    assert watched.said().startswith("NVML answers with nothing but unknown errors, since ")
    cards.heal()
    watched.more("gpu.busy[0]")
    watched.until(lambda: " until " in watched.said())


def test_a_field_that_gives_unknown_error_is_told_from_nvml_that_is_gone(
    simgpu: Maker, probe: Callable[[], Probe]
) -> None:
    simgpu().fault("nvmlDeviceGetTemperature", UNKNOWN)
    watched = probe()
    watched.until(watched.said)
    assert watched.said().startswith("temperature of device 0 failed with an unknown error, since ")
    watched.more("gpu.busy[0]")


def test_a_reader_that_was_killed_comes_back(simgpu: Maker, probe: Callable[[], Probe]) -> None:
    simgpu()
    watched = probe()
    watched.until(lambda: watched.has("gpu.busy[0]"))
    os.kill(child(), signal.SIGKILL)
    watched.until(watched.said)
    watched.more("gpu.busy[0]")


def test_a_device_in_mig_mode_has_no_utilisation_rather_than_none_used(
    simgpu: Maker, probe: Callable[[], Probe]
) -> None:
    simgpu().set(mig=1)
    watched = probe()
    watched.until(lambda: watched.has("gpu.memory.used[0]", "gpu.power[0]"))
    assert watched.said() == "device 0 is in MIG mode: its utilisation is not measurable"
    assert not watched.has("gpu.busy[0]")
    assert [note["mig"] for note in watched.notes if note["n"] == "device"] == [True]


def test_nonsense_given_with_success_is_not_recorded(simgpu: Maker, probe: Callable[[], Probe]) -> None:
    cards = simgpu()
    cards.fault("nvmlDeviceGetMemoryInfo_v2", value=2**63 - 1)
    cards.fault("nvmlDeviceGetPowerUsage", value=4_000_000_000)
    watched = probe()
    watched.until(lambda: "memory of" in watched.said() and "power of" in watched.said())
    assert "power of device 0 is not to be trusted: gpu.power is said to be 4e+06" in watched.said()
    watched.more("gpu.busy[0]")
    assert not watched.has("gpu.memory.used[0]")
    assert not watched.has("gpu.power[0]")


def test_unified_memory_is_the_hosts(simgpu: Maker, probe: Callable[[], Probe]) -> None:
    cards = simgpu()
    cards.name("NVIDIA GB10")
    cards.fault("nvmlDeviceGetMemoryInfo", NOT_SUPPORTED)
    cards.fault("nvmlDeviceGetMemoryInfo_v2", NOT_SUPPORTED)
    gpu = Device()
    gpu.alloc(1 << 30)
    watched = probe()
    watched.until(lambda: watched.has("gpu.memory.total[0]"))
    meminfo = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    assert meminfo is not None
    assert watched.last("gpu.memory.total[0]") == int(meminfo[1]) * 1024
    assert watched.last("gpu.memory.used[0]") == 1.5 * 2**30
    gpu.close()


def test_memory_that_no_known_part_shares_is_missing_and_said(simgpu: Maker, probe: Callable[[], Probe]) -> None:
    cards = simgpu()
    cards.fault("nvmlDeviceGetMemoryInfo", NOT_SUPPORTED)
    cards.fault("nvmlDeviceGetMemoryInfo_v2", NOT_SUPPORTED)
    watched = probe()
    watched.until(lambda: "memory of device 0 is not supported by this device" in watched.said())
    watched.more("gpu.busy[0]")
    assert not watched.has("gpu.memory.total[0]")


def test_older_drivers_are_asked_in_older_ways(simgpu: Maker, probe: Callable[[], Probe]) -> None:
    cards = simgpu()
    for function in (
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetCurrentClocksEventReasons",
    ):
        cards.fault(function, FUNCTION_NOT_FOUND)
    cards.set(fields=0, gpm=0, throttle=4)
    gpu = Device()
    watched = probe()
    watched.until(lambda: watched.has("gpu.memory.used[0]", "gpu.throttle[0]", "gpu.job.memory[0]", "gpu.pcie.rx[0]"))
    assert watched.last("gpu.memory.used[0]") == 2**30  # the driver's share cannot be told apart
    assert int(watched.last("gpu.throttle[0]")) & 4
    assert watched.last("gpu.job.memory[0]") == 2**29
    assert watched.said() == ""
    gpu.close()


def test_a_list_of_processes_in_another_layout_is_not_believed(simgpu: Maker, probe: Callable[[], Probe]) -> None:
    simgpu().ghost(2**31 - 5, 1 << 30, 0.0)
    watched = probe()
    watched.until(lambda: "a newer nvidia-ml-py may help" in watched.said())
    watched.more("gpu.busy[0]")


def test_fields_that_many_cards_lack_are_left_out_without_a_word(simgpu: Maker, probe: Callable[[], Probe]) -> None:
    cards = simgpu()
    cards.fault("nvmlDeviceGetTotalEccErrors", NOT_SUPPORTED)
    cards.fault("nvmlDeviceGetTotalEnergyConsumption", NOT_SUPPORTED)
    cards.fault("nvmlDeviceGetPowerUsage", NO_PERMISSION)
    watched = probe()
    watched.until(lambda: watched.has("gpu.busy[0]") and watched.said())
    assert watched.said().startswith("power of device 0 may not be read by this user")
    assert "errors" not in watched.said()
    assert "energy" not in watched.said()


def test_each_field_that_cannot_be_read_is_told_by_its_name(simgpu: Maker, probe: Callable[[], Probe]) -> None:
    cards = simgpu()
    cards.fault("nvmlDeviceGetPowerManagementDefaultLimit", FUNCTION_NOT_FOUND)
    cards.fault("nvmlDeviceGetPowerUsage", NO_PERMISSION)
    watched = probe()
    watched.until(lambda: "default power limit" in watched.said() and "; " in watched.said())
    rows = next(note["lacks"] for note in reversed(watched.notes) if note["n"] == "unavailable")
    told = {field: (what, why) for field, what, why in rows}
    assert told["power"][0] == "power of device 0"
    assert told["power"][1].startswith("may not be read by this user")
    assert told["default power limit"][1].startswith("is not known to this driver")
    assert watched.said() == "; ".join(f"{what} {why}" for what, why in told.values())


def test_only_the_devices_the_job_is_on_are_read(simgpu: Maker, probe: Callable[[], Probe]) -> None:
    simgpu(devices=4)
    gpu = Device(2)
    watched = probe()
    watched.until(lambda: watched.has("gpu.busy[2]"))
    watched.more("gpu.busy[2]")
    assert {column.partition("[")[2] for column in watched.samples} == {"2]"}
    assert watched.devices() == ["2"]
    gpu.close()


def test_a_job_that_is_on_no_device_of_many_has_none(simgpu: Maker, probe: Callable[[], Probe]) -> None:
    cards = simgpu(devices=2)
    asked = cards.fault("nvmlDeviceGetProcessUtilization")
    watched = probe()
    watched.until(lambda: cards.hits(asked) > 3)
    assert not watched.samples


def test_cuda_visible_devices_names_the_devices_before_the_job_is_on_them(simgpu: Maker) -> None:
    simgpu(devices=3)
    env = dict(os.environ, CUDA_VISIBLE_DEVICES="1,0")
    job = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=env)
    watched = Probe(Target(root_pid=job.pid, pids=lambda: {job.pid: "main"}))
    try:
        watched.until(lambda: watched.has("gpu.busy[0]", "gpu.busy[1]"))
        assert sorted(watched.devices()) == ["0", "1"]
        assert not watched.has("gpu.busy[2]")
    finally:
        watched.close()
        job.communicate(b"\n", timeout=PATIENCE)


def test_reading_ends_with_the_recorder_even_in_a_hung_call(simgpu: Maker, eventually: Callable[..., None]) -> None:
    cards = simgpu()
    reached = cards.fault("nvmlDeviceGetUtilizationRates", delay=-1)
    code = (
        "import os, sys, time; from gputune.probes import nvml; from gputune.core.sample import Target\n"
        "from gputune.nvml import process as n\n"
        "ticks = nvml.attach(Target(os.getpid(), lambda: {os.getpid(): 'main'}))\n"
        "while not n._shared or n._shared[0]._process is None: next(ticks)\n"
        "print(n._shared[0]._process.pid, flush=True)\n"
        "while True: next(ticks); time.sleep(0.02)"
    )
    recorder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert recorder.stdout is not None
    reader = int(recorder.stdout.readline())
    eventually(lambda: cards.hits(reached))
    recorder.kill()
    recorder.communicate(timeout=PATIENCE)
    eventually(lambda: not _words_of(reader))


def _words_of(pid: int) -> bytes:
    """Return a process's command; nothing once it has ended, which it may between a look and the next."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_name_cannot_speak_to_the_terminal(simgpu: Maker, probe: Callable[[], Probe]) -> None:
    simgpu().name("evil \x1b]52;c;aGk=\x07 card")
    with closing(probe()) as watched:
        watched.until(watched.devices)
        assert "\x1b" not in str(watched.notes)


class Told:
    """A subscription that has had these answers; device 0 is chosen."""

    chosen = (0,)

    def __init__(self, *answers: nvml_process.Answer) -> None:
        self._answers = answers

    def read(self) -> tuple[nvml_process.Answer, ...]:
        """Return all of them, at every tick."""
        return self._answers

    def choose(self, devices: tuple[int, ...]) -> None:
        """Take no notice."""


def test_a_list_of_nobody_says_nothing_of_the_jobs_share(target: Target) -> None:
    card = nvml_process.NvmlDevice(0, "A", "GPU-0", 0, mig=False)
    nobody = nvml_process.Answer(1, people={0: ()}, devices=(card,))
    ours = nvml_process.Answer(2, people={0: ((os.getpid(), 1 << 30, 0.5),)})
    others = nvml_process.Answer(3, people={0: ((1, 1 << 30, 0.5),)})
    job = nvml._Job(target, Told(nobody, ours, others))  # type: ignore[arg-type] # it is asked for no more than this
    shares = [(r.t, r.value) for r in job.tick() if isinstance(r, Sample) and r.metric is nvml.JOB_BUSY]
    assert shares == [(2, 0.5), (3, 0.0)]


@pytest.mark.slow
def test_a_device_that_cannot_be_identified_hides_no_other(
    simgpu: Maker, probe: Callable[[], Probe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTUNE_ALL_DEVICES", "1")
    monkeypatch.setattr(nvml_process, "START_DEADLINE", 1.0)
    simgpu(devices=2).fault("nvmlDeviceGetMinorNumber", device=0, delay=-1)
    watched = probe()
    watched.until(lambda: watched.has("gpu.busy[1]"))
    assert "identification of device 0 does not answer" in watched.said()
    assert watched.devices() == ["1"]
