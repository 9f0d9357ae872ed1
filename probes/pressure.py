"""How long tasks stood still for want of a CPU, of storage or of memory: Linux pressure stall information."""

from gputune.core.sample import Metric, Sample, Target, Ticks, Unavailable, now
from gputune.host.procfs import OpenProcFile

PERIOD = 1.0  # s; the counters lose nothing in between
CPU = Metric("pressure.cpu", "us", "Time since boot in which some task of the machine waited for a CPU.", "counter")
IO = Metric("pressure.io", "us", "Time since boot in which some task of the machine waited for storage.", "counter")
MEMORY = Metric("pressure.memory", "us", "Time since boot in which some task waited for memory.", "counter")
METRICS = (CPU, IO, MEMORY)


def attach(target: Target) -> Ticks:
    """Read `/proc/pressure`, which Linux has since 4.20 when it is built with PSI and not booted with `psi=0`."""
    folder = target.proc / "pressure"
    files: list[tuple[Metric, OpenProcFile]] = []
    try:
        for metric in METRICS:
            files.append((metric, OpenProcFile(folder / metric.name.rpartition(".")[2])))
            files[-1][1].read()  # a kernel with PSI switched off opens it and refuses to read
        while True:
            yield [Sample(metric, now(), _stalled(file.read())) for metric, file in files]
    except OSError as reason:
        raise Unavailable(
            f"`{folder}` cannot be read ({reason.strerror}): this kernel has no pressure stall information",
            hint="boot with `psi=1`",
        ) from reason
    finally:
        for _, file in files:
            file.close()


def _stalled(data: bytes) -> int:
    """Return µs of `some avg10=0.00 avg60=0.00 avg300=0.00 total=4162295`, the first line."""
    return int(data[: data.index(b"\n")].rpartition(b"=")[2])
