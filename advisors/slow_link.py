"""The PCIe link of the device is slower than device and slot can do, and the run's copies pay for it.

What it sees: generation and lanes of the link while the device is busy (an idle device lowers them by itself) against
the most that NVML says of device and slot, and the bytes that went over it.

Why it matters: a link of a quarter of the lanes takes four times as long for each batch; what of that is not hidden
behind kernels, the device idles.

What to do: have it looked at: another slot, the riser or cable, the slot's setting in the BIOS, a neighbour card that
takes its lanes. `nvidia-smi -q` shows the link under "GPU Link Info". Smaller batches help as well: send bytes as
uint8 and convert them on the device.

When it is wrong: in virtual machines that make up their link; a rate above what the link could carry shows that, and
then nothing is said.

Sources: NVML API reference, nvmlDeviceGetCurrPcieLinkWidth and its neighbours; the rates are those of the PCI Express
specifications.
"""

from collections.abc import Iterator

from gputune.core.finding import Finding, Speedup
from gputune.features import Device, Features, PcieLink
from gputune.model.pcie import USABLE, rates
from gputune.model.prediction import ERROR
from gputune.model.workload import busy_of

SLOWER = 0.7  # of what it could do: below it, lanes or a generation are missing
NOTABLE = 0.05  # of the time that the link is in use: below it, it holds nobody up
NONSENSE = 1.1  # times its rate: more bytes than a link can carry show that it is not the link that they took
HIDDEN = 0.5  # of what could be won, where it is not known how much of the copying runs beside other work


def advise(run: Features) -> Iterator[Finding]:
    for device in run.devices:
        moved = max(device.received or 0.0, device.sent or 0.0)
        if device.link is None or not moved:
            continue
        now, most = rates(device.link)
        if not now or now > SLOWER * most or not NOTABLE <= moved / (USABLE * now) <= NONSENSE:
            continue
        yield _finding(run, device, device.link, moved / (USABLE * now))


def _finding(run: Features, device: Device, link: PcieLink, used: float) -> Finding:
    now, most = rates(link)
    used = min(1.0, used)
    saved = min(used * (1 - now / most), _idle(run, device))
    likely = 1 / (1 - saved)
    return Finding(
        id="slow-link",
        says=(
            f"GPU {device.index} ({device.name}) is linked by PCIe {link.generation} x{link.lanes}, and could be by "
            f"PCIe {link.generation_most} x{link.lanes_most}: its copies take {used:.0%} of the time and could take "
            f"{used * now / most:.0%}"
        ),
        do=(
            "have slot, riser and BIOS setting of the card looked at; until then send uint8, and convert on the device "
            "(which may round otherwise)"
        ),
        share_lost=saved,
        speedup=Speedup(low=(1 / (1 - saved * HIDDEN)) * (1 - ERROR), likely=likely, high=likely * (1 + ERROR)),
        basis="the bytes over the link at its rate now and at its best, within the time that the device idles",
        falsified_by="the same samples/s in a slot with all lanes",
        effect="identical",
        evidence={
            "generation": link.generation,
            "lanes": link.lanes,
            "generation_most": link.generation_most,
            "lanes_most": link.lanes_most,
            "link_busy": used,
            "bytes_per_s": max(device.received or 0.0, device.sent or 0.0),
        },
    )


def _idle(run: Features, device: Device) -> float:
    """Return the share of the time in which the device neither computes nor waits for data: copying shows there."""
    loops = [p for p in run.processes if p.loop > 0]
    waits = min((p.in_loop.get("loader.wait", 0.0) / p.loop for p in loops), default=0.0)
    known = busy_of(run, device)
    return min(0.99, max(0.0, 1 - (1.0 if known is None else known) - waits))
