"""Part 1, the machine: card, driver, torch, CPUs, link, the card's performance counters, and `gputune doctor`."""

import json
import os
import platform
import subprocess
from collections.abc import Iterator

from gpuday.check import Check, Step, told
from gpuday.day import ROOT, Day

SMI = (
    "name,driver_version,vbios_version,pcie.link.gen.max,pcie.link.width.max,clocks.max.sm,power.limit,mig.mode.current"
)
C_PARTS = ("gputune", "probes/guest/gputune_guest")


def about() -> dict[str, object]:
    """Return what every table is headed by."""
    import torch  # noqa: PLC0415 - the first to import it: what is missing is said before

    card = torch.cuda.get_device_properties(0)
    return {
        "card": card.name,
        "cards": torch.cuda.device_count(),
        "memory": f"{card.total_memory / 2**30:.0f} GiB",
        "multiprocessors": card.multi_processor_count,
        "torch": f"{torch.__version__}, CUDA {torch.version.cuda}",
        "python": platform.python_version(),
        "host": f"{len(os.sched_getaffinity(0))} CPUs, {cpu()}, Linux {platform.release()}",
    }


def cpu() -> str:
    """Return the processor's name."""
    with open("/proc/cpuinfo") as file:  # noqa: PTH123 - a line of the kernel's
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def card(_: Day) -> Iterator[Check]:
    """Say what torch sees."""
    for name, value in about().items():
        if name != "cards":
            yield told(name, "", str(value))
    yield told("cards", "1", float(str(about()["cards"])))


def driver(day: Day) -> Iterator[Check]:
    """Say what nvidia-smi does."""
    row = day.run(["nvidia-smi", f"--query-gpu={SMI}", "--format=csv,noheader"]).splitlines()[0]
    yield told("nvidia-smi", "", row, SMI)


def doctor(day: Day) -> Iterator[Check]:
    """Say what gputune can measure here, performance counters (GPM) among it."""
    rows = json.loads(day.run(day.ours("doctor", "--json", "--python", day.python)))["checks"]
    states = ", ".join(f"{row['name']} {row['state']}" for row in rows)
    yield told("gputune doctor", "", states)
    nvml = "; ".join(row["says"] for row in rows if row["name"] in {"nvml", "gpm"} or "GPM" in row["says"])
    yield told("NVML and GPM as the doctor has it", "", nvml or "it says nothing of them")


def tree(day: Day) -> Iterator[Check]:
    """Say which gputune this is."""
    yield told("gputune", "", day.run(day.ours("--version")).strip() + revision())
    built = [
        file.name for folder in ("gputune", "probes/guest/gputune_guest") for file in (ROOT / folder).glob("_*.so")
    ]
    yield told("its parts in C", "", ", ".join(sorted(built)) or "none: built where a compiler is, or carried")


def revision() -> str:
    """Return the commit of this tree, where git can tell."""
    try:
        command = ["git", "-C", os.path.dirname(__file__), "describe", "--always", "--dirty"]  # noqa: PTH120 - git's own
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return f" at {done.stdout.strip()}" if done.returncode == 0 else ""


TORCH_ROWS = ("card", "memory", "multiprocessors", "torch", "python", "host", "cards")
STEPS = (
    Step(TORCH_ROWS, 1, card),
    Step(("gputune", "its parts in C"), 1, tree),
    Step(("gputune doctor", "NVML and GPM as the doctor has it"), 3, doctor),
    Step(("nvidia-smi",), 1, driver),
)
