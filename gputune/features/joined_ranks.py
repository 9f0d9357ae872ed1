"""What several watches of one job have learnt, put together: features to features."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from gputune.features import Device, Features, Machine, Process


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchShare:
    """One watch's share of a job: what it learnt, and the machine on which it ran."""

    host: str
    features: Features


def encode(part: WatchShare) -> bytes:
    """Return a part as JSON."""
    return msgspec.json.encode(part)


def decode(data: bytes) -> WatchShare:
    """Return the part that `encode` made JSON of. Raises msgspec.DecodeError."""
    return msgspec.json.decode(data, type=WatchShare)


def joined(parts: Sequence[WatchShare]) -> Features:
    """Return the whole job: its ranks in their order, its devices, and the first part's machine.

    Machines of one job are taken for equal: CPUs are those of the machine of the lowest rank.
    """
    first = parts[0]
    hosts = dict.fromkeys(part.host for part in parts)
    processes = [
        replace(process, host=part.host if len(hosts) > 1 else "")
        for part in parts
        for process in part.features.processes
    ]
    processes.sort(key=lambda p: (p.rank is None, p.rank or 0, p.pid))
    every = [part.features for part in parts]
    return replace(
        first.features,
        wall=max(f.wall for f in every),
        machine=_machine([part.features for part in parts if part.host == first.host]),
        processes=tuple(processes),
        devices=_devices(parts, processes),
        exit_code=next((f.exit_code for f in every if f.exit_code), first.features.exit_code),
        unavailable={probe: why for f in reversed(every) for probe, why in f.unavailable.items()},
        dropped=sum(f.dropped for f in every),
        failures=tuple(each for f in every for each in f.failures),
        raised=tuple(each for f in every for each in f.raised),
        unused=tuple(each for f in every for each in f.unused),
        out_of_memory=tuple(each for f in every for each in f.out_of_memory),
    )


def _machine(same: Sequence[Features]) -> Machine:
    """Return one machine as its watches see it together: what one of them takes for others may be its siblings."""
    first = same[0].machine
    jobs = [f.machine.job for f in same]
    known = [job for job in jobs if job is not None]
    siblings = sum(known) - (jobs[0] or 0.0)
    bound = sum(f.machine.cpus for f in same)  # launchers bind each rank to CPUs of its own
    return replace(
        first,
        cpus=bound if bound <= first.cpus_seen else max(f.machine.cpus for f in same),
        job=sum(known) if known else None,
        others=None if first.others is None else max(0.0, first.others - siblings),
        memory_job=_sum(f.machine.memory_job for f in same),
        ranks=sum(f.machine.ranks for f in same if f.processes) or 1,
    )


def _devices(parts: Sequence[WatchShare], processes: Iterable[Process]) -> tuple[Device, ...]:
    """Return each device once; siblings that share one are no strangers to each other."""
    ours = {process.pid for process in processes}
    found: dict[tuple[str, str], Device] = {}
    for part in parts:
        for device in part.features.devices:
            others = {pid: share for pid, share in device.others.items() if pid not in ours}
            found.setdefault((part.host, device.index), replace(device, others=others))
    return tuple(found.values())


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
