"""NVML may fail: a code or a hang of one call on one device costs no more than that device, and the other goes on.

31 of NVML's codes by each call that gputune makes, and a hang of each, from the start or in the middle, on one of two
simulated cards that the real pynvml reads.
"""

import contextlib
import itertools
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gputune.core.sample import Note, Sample, Target, Unavailable
from gputune.nvml import process
from gputune.probes import nvml
from tests.faults.row import Broken, Case, chance, must

sys.path.insert(0, str(Path(__file__).parents[2] / "simgpu"))
from simgpu import Cards, build, create

TESTS = "probes/test_nvml.py, test_nvml_devices.py"
CODES = (*range(1, 31), 999)
HANG = -1
BY_DEVICE = (
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetName",
    "nvmlDeviceGetPcieThroughput",
    "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetProcessUtilization",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceRegisterEvents",
    "nvmlGpmQueryDeviceSupport",
    "nvmlGpmSampleGet",
)
LACKS = {  # what only an older driver is asked: what that lacks, and the code for it
    "nvmlDeviceGetPcieThroughput": ("counts of PCIe", 3),
    "nvmlDeviceGetCurrentClocksThrottleReasons": ("nvmlDeviceGetCurrentClocksEventReasons", 13),
}
AT_FIRST = (  # nobody calls them again
    "nvmlInit",
    "nvmlDeviceGetCount_v2",
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlGpmSampleAlloc",
    "nvmlEventSetCreate",
)
OF_ALL = (*AT_FIRST, "nvmlGpmMetricsGet", "nvmlEventSetWait_v2")
ALL = [
    *itertools.product((*BY_DEVICE, *OF_ALL), (*CODES, HANG), (False,)),
    *itertools.product((*BY_DEVICE, *OF_ALL[len(AT_FIRST) :]), (*CODES, HANG), (True,)),  # once it reads
]
random.Random(1).shuffle(ALL)
QUICK, FULL, SHARE = 150, len(ALL), 6
SECONDS = 300.0
FIGURE = "longest from a call that hangs until that was told, s"
TOLD = 3.0  # s from a call that hangs until that is told
TRIES = 3  # a machine with other things to do may be late once: who is late each time does not keep it
START = 12.0  # s of an initialisation, which is waited for a minute elsewhere: that is not what is tried
PATIENCE = 200.0  # s
STARTED = 60.0  # s in which each call of a start was made
MEETS = 3.0  # s in which a call that is made again and again is made
ROUNDS = 3  # more readings of the healthy device that are waited for


class Read:
    """The probe, tick by tick."""

    def __init__(self) -> None:
        self._ticks = nvml.attach(Target(root_pid=os.getpid(), pids=lambda: {os.getpid(): "main"}))
        self.count = 0  # readings of what the healthy device is doing
        self.over = ""  # why nothing can be read at all
        self.told: list[str] = []

    def tick(self) -> None:
        try:
            found = next(self._ticks)
        except Unavailable as error:
            self.over = str(error)
            return
        for reading in found:
            if isinstance(reading, Sample):
                must(reading.metric in nvml.METRICS, f"an undeclared metric {reading.metric.name}")
                self.count += reading.metric.name == "gpu.busy" and reading.instance == "1"
            elif isinstance(reading, Note) and reading.fields.get("n") == "unavailable":
                self.told.append(str(reading.fields["why"]))

    def meet(self, hits: Callable[[], int], patience: float) -> None:
        """Tick until the call that fails was made, or for so long (s): some are made once, at the start."""
        deadline = time.monotonic() + patience
        while not hits() and not self.over and time.monotonic() < deadline:
            self.tick()
            time.sleep(0.01)

    def hang(self) -> float:
        """Tick until the call that hangs is told of, and return how long that took (s)."""
        began, told = time.monotonic(), len(self.told)
        while len(self.told) == told and not self.over:
            must(time.monotonic() - began < PATIENCE, "nobody is told")
            self.tick()
            time.sleep(0.01)
        return time.monotonic() - began

    def until(self, count: int) -> bool:
        """Tick until the healthy device was read so often; return whether NVML can be read at all."""
        deadline = time.monotonic() + PATIENCE
        while self.count < count and not self.over:
            must(time.monotonic() < deadline, f"the other device is not read any more; told: {self.told[-1:]}")
            self.tick()
            time.sleep(0.01)
        return not self.over

    def close(self) -> None:
        self._ticks.close()  # type: ignore[attr-defined] # it is a generator


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Case]:
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(build()), os.environ.get("LD_LIBRARY_PATH", "")]))
    os.environ["GPUTUNE_ALL_DEVICES"] = "1"
    process.START_DEADLINE = START

    def case(number: int) -> float | None:
        for _ in range(TRIES):
            took = tried(folder / f"state-{number}-{os.getpid()}", number)
            if took is None or took <= TOLD:
                return took
        raise Broken(f"{ALL[number]}: told {took:.1f} s after the call that hangs, and no sooner {TRIES} times")

    yield case


def tried(state: Path, number: int) -> float | None:
    """Let a call fail on cards of its own, and return how long (s) a hang was not told."""
    function, code, late = ALL[number]
    state.unlink(missing_ok=True)
    cards, read = Cards(create(state, 2)), Read()
    try:
        if function in LACKS:
            cards.fault(LACKS[function][0], LACKS[function][1], device=0)
        if late:
            read.until(1)
        fault = {"delay": -1.0} if code == HANG else {"code": code}
        met = cards.fault(function, device=0 if function in BY_DEVICE else -1, **fault)
        for _ in range(chance("nvml", number).randrange(3)):
            read.tick()
        if function not in BY_DEVICE:
            of_all(cards, read, number, met)
            return None
        read.meet(lambda: cards.hits(met), MEETS if late else STARTED)
        took = read.hang() if code == HANG and cards.hits(met) else None
        must(read.until(read.count + ROUNDS), f"all is given up: {read.over}")
        must(late or cards.hits(met), f"nobody calls {function}: nothing was tried")
        return took
    finally:
        cards.heal()
        read.close()
        state.unlink(missing_ok=True)


def of_all(cards: Cards, read: Read, number: int, met: int) -> None:
    """Look at what comes of a call that is for all devices: it is told, and all goes on once that is over."""
    function, code, _ = ALL[number]
    began = time.monotonic()
    read.meet(lambda: cards.hits(met), STARTED)
    must(cards.hits(met), f"nobody calls {function}: nothing was tried")
    if function == "nvmlInit":
        while not read.over and not read.told and time.monotonic() - began < PATIENCE:
            read.tick()
            time.sleep(0.01)
        must(read.over or read.told, "it never starts, and nobody is told")
        return
    cards.heal()
    must(read.until(read.count + 1) or code != HANG, read.over)
