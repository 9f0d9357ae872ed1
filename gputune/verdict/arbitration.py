"""Who speaks when several causes explain the same seconds.

Within a group of rivals the better prediction speaks, or, of those about as good, the cheaper change; the others are
mentioned in its evidence. Across groups no two findings claim the same seconds of the ledger; and what a run's device
hides (it computes meanwhile in any case) nobody can claim.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gputune.core.events import AROUND_LOOP, ENVIRONMENT_SPAN, POLICY_SPAN
from gputune.core.figures import MOSTLY, TINY, mean
from gputune.core.finding import AROUND, Finding, Speedup
from gputune.features import Device, Features, Loader, Process
from gputune.model import rank_team
from gputune.model.prediction import ERROR
from gputune.model.workload import device_share, for_others

CLOSE = 1.1  # predictions this near to each other are equally good: the model's error is of that order
INSTEAD = "instead."  # evidence: the likely speed-up that a silent rival promised


@dataclass(frozen=True, slots=True)
class Rivals:
    """Causes that explain the same seconds, the cheapest change first, and the words of the ledger these lie under."""

    ids: tuple[str, ...]
    spans: tuple[str, ...]
    hidden: bool = True  # the device's work goes on meanwhile: a change cannot give back more than its idle time
    apart: bool = False  # each loader is a case of its own


LOADING = Rivals(
    (
        "low-prefetch",
        "worker-restart",
        "oversubscribed-workers",
        "few-workers",
        "serialized-workers",
        "heavy-shard",
        "straggling-worker",
        "slow-pinning",
        "heavy-collate",
        "shared-manager",
        "small-files",
        "slow-storage",
        "remote-storage",
        "cold-cache",
        "heavy-preprocessing",
    ),
    ("loader.wait", "loader.start"),
    apart=True,
)
SAMPLING = Rivals(("slow-sampler",), ("loader.wait",), apart=True)  # no worker has a part in it: LOADING's are others'
HOST = Rivals(
    (
        "oversubscribed-threads",
        "sync-every-step",
        "anomaly-detection",
        "slow-producer",
        "work-after-step",
        "python-in-step",
        "preprocessing-in-loop",
        "blocking-copy",
        "unpinned-memory",
        "host-bound",
        "small-batch",
    ),
    ("step", "copy.h2d", "launch.wait", "sync"),
)
ROLLOUTS = Rivals(("slow-rollouts",), (ENVIRONMENT_SPAN, POLICY_SPAN, "step"))
DEVICE = Rivals(
    ("device-throttled", "shared-device", "no-mixed-precision", "slow-link"),
    ("launch.wait", "step", "sync", "copy.h2d"),
    hidden=False,
)
RANKS = Rivals(
    ("straggling-rank", "uneven-shards", "communication-bound"),
    ("collective", "step", "sync", "launch.wait", "loader.wait"),
    hidden=False,
)
GROUPS = (LOADING, SAMPLING, HOST, ROLLOUTS, DEVICE, RANKS)
PAUSES = {
    "frequent-checkpoint": "checkpoint",
    "frequent-logging": "logging",
    "frequent-reporting": "reporting",
    "frequent-cleanup": "cleanup",
    "frequent-eval": "evaluation",
    "work-between-passes": "between",
    "remote-calls": "collective",
}
NEAREST = {  # the first of its group's words
    "worker-restart": "loader.start",
    "sync-every-step": "sync",
    "slow-producer": "queue.wait",
    "blocking-copy": "copy.h2d",
    "unpinned-memory": "copy.h2d",
    "slow-link": "copy.h2d",
}
FILLING = frozenset({"small-batch"})  # more samples a kernel: what the device works for each of them gets less
COPIED = frozenset({"slow-pinning"})  # fewer bytes: of what the device does, only kernels are sure to stay
SPILL = "step"  # a cause that goes leaves the steps, too, in warmer caches and on freer CPUs


def settle(run: Features, found: Iterable[Finding]) -> list[Finding]:
    """Return those of the findings that speak, highest likely speed-up first."""
    return _undisputed(run, _heard(run, _of_one_rank(run, sorted(found, key=_order))))


def _of_one_rank(run: Features, found: Sequence[Finding]) -> list[Finding]:
    """Let the rank speak whose input alone is late, not loaders: their settings are the same on all ranks.

    What a loader promises beyond the rank is for it to say where the others wait for batches, too; where they do not,
    it is a remedy for this rank.
    """
    late = next((f for f in found if f.id == "straggling-rank" and _by_input(f.evidence)), None)
    if late is None:
        return list(found)
    most = late.speedup.likely * CLOSE
    loading = [f for f in found if group_of(f.id) is LOADING and not is_told(f)]
    remedies = [f for f in loading if f.speedup.likely > most] if _waits_alone(run) else []
    silent = [f for f in loading if f.speedup.likely <= most] + remedies
    told = {id(f) for f in silent}
    speaker = _mentioning(late, silent)
    if remedies:
        speaker = replace(speaker, do=f"{late.do}; or, on all ranks, {remedies[0].do}")
    return [speaker if f is late else f for f in found if id(f) not in told]


def _waits_alone(run: Features) -> bool:
    """Return whether most ranks of a job wait little for batches beside the one that waits most."""
    ranks = rank_team.team(run)
    if ranks is None:
        return False
    waits = sorted(rank_team.share(process, LOADING.spans) for process in ranks.ranks)
    # most of what a finding claims: if a better one has taken more than this, the rest is hardly its own
    return waits[(len(waits) - 1) // 2] < MOSTLY * waits[-1]  # at most half of a job's ranks are late


def _by_input(evidence: Mapping[str, float]) -> bool:
    return evidence.get("more_input_s", 0.0) >= MOSTLY * (evidence.get("own_s", 0.0) - evidence.get("others_s", 0.0))


def _order(finding: Finding) -> tuple[float, str]:
    return -finding.speedup.likely, finding.id


def group_of(name: str) -> Rivals | None:
    """Return the group that a cause belongs to; None for a cause without rivals."""
    return next((group for group in GROUPS if name in group.ids), None)


def uncovered(run: Features, finding: Finding) -> Finding:
    """Return the finding with no more gain than the device's idle time can give: the rest is hidden behind its work.

    In a job of ranks what one rank waits for its batches is hidden, too, where it would only wait for the others.
    """
    group = group_of(finding.id)
    if group is None or not group.hidden or finding.id in FILLING:
        return finding
    inside = group is HOST or finding.id in COPIED
    limit, gain, what = ceiling(run, inside=inside, less=_merged(finding)), finding.speedup, "the device's idle time"
    if group is LOADING and (waited := rank_team.ceiling(run, group.spans)) < limit:
        limit, what = waited, "what the ranks wait for together"
    if gain.high <= limit * (1 + ERROR):
        return finding
    low, likely, steady = (min(end, limit) for end in (gain.low, gain.likely, gain.steady))
    cut = Speedup(low=low, likely=likely, high=limit * (1 + ERROR), steady=steady, at_least=gain.at_least)
    basis = f"{finding.basis}; no more than {what}" if cut.likely < gain.likely else finding.basis
    return replace(finding, speedup=cut, share_lost=min(finding.share_lost, 1 - 1 / max(1.0, cut.likely)), basis=basis)


def _merged(finding: Finding) -> float:
    """Return the share of the loop that a device works now and no more then: kernels for which one takes the place."""
    return finding.evidence.get("merged_s", 0.0) / max(TINY, finding.evidence.get("step_s", 0.0))


def ceiling(run: Features, *, inside: bool = False, less: float = 0.0) -> float:
    """Return the speed-up that would keep the device busy all the time, endless where no device was measured.

    A change may leave it `less` to do, a share of the loop.
    Of several processes the one whose device idles most counts: which of them a finding means is not known here.
    The device's clock is read between steps; with `inside`, what it idles inside of them counts as well.
    """
    loops = [process for process in run.processes if process.loop > 0 and process.batches]
    shares = [_device_share(run, process) for process in loops] + (_inside(run, loops) if inside else [])
    share = min(shares, default=0.0) - less
    return 1 / share if share > 0 else float("inf")


def _inside(run: Features, loops: Sequence[Process]) -> list[float]:
    """Return the share of a loop in which kernels run, if that is known: as they were timed, else as NVML saw it."""
    if loops and all(process.kernels is not None for process in loops):
        return [min(device_share(run, process) or 0.0 for process in loops)]
    if all(device.busy is None for device in run.devices):
        return []
    waiting = max((for_others(run, p) * p.batches / p.loop for p in run.processes if p.loop > 0), default=0.0)
    return [max(0.0, min(_busy(device) for device in run.devices) - waiting)]


def _device_share(run: Features, process: Process) -> float:
    """Return the share of a process's loop in which its device works, as its clock says, which is read between steps.

    Steps that were timed work as long as others; they need not wait as long for their batches. Where one pass ends and
    another begins nobody reads it: there the device idles, unless NVML saw it busier than that. A mean of all steps
    has the first wait of each pass in it already.
    """
    known = min((_busy(device) for device in run.devices), default=0.0)
    others = for_others(run, process) * process.batches / process.loop  # a kernel that waits for another rank spins
    if not process.works:
        return max(0.0, known - others)
    worked, idled, timed = mean(process.works), mean(process.gaps), process.device_step
    usual = None if timed is None else timed.mean
    whole = worked + idled if usual is None else max(worked, usual)
    inside = worked / whole if whole else 0.0
    epochs = [epoch for loader in process.loaders if loader.training for epoch in loader.epochs if epoch.batches]
    apart = sum(epoch.picking + epoch.first_wait + epoch.shutdown for epoch in epochs) if usual is None else 0.0
    between = (apart + sum(epoch.start for epoch in epochs)) / process.loop
    return max(0.0, min(inside, max(known, inside * max(0.0, 1 - between))) - others)


def _busy(device: Device) -> float:
    """Return the share of the time in which the device worked for this job, as far as that is known."""
    busy = device.busy if device.jobs_busy is None else device.jobs_busy
    return min(1.0, busy or 0.0)


def _heard(run: Features, found: Sequence[Finding]) -> list[Finding]:
    """Return one speaker for each dispute, with its silent rivals in its evidence, and everybody without a rival."""
    disputes: dict[tuple[Rivals, str], list[Finding]] = {}
    for finding in found:
        group = group_of(finding.id)
        if group is not None and not is_told(finding):
            disputes.setdefault((group, _case(run, group, finding)), []).append(finding)
    speakers: dict[int, Finding] = {}
    silent: set[int] = set()
    for (group, _place), rivals in disputes.items():
        winner = _better(group, rivals)
        losers = [f for f in rivals if f.id != winner.id]
        silent |= {id(f) for f in losers}
        speakers[id(winner)] = _mentioning(winner, losers)
    return [speakers.get(id(f), f) for f in found if id(f) not in silent]


def is_told(finding: Finding) -> bool:
    """Return whether a finding says something else than a gain (a risk, an offer): it claims no seconds."""
    return bool(finding.risk or finding.offer)


def _better(group: Rivals, rivals: Sequence[Finding]) -> Finding:
    best = max(f.speedup.likely for f in rivals)
    near = [f for f in rivals if f.speedup.likely * CLOSE >= best]
    return min(near, key=lambda f: (group.ids.index(f.id), -f.speedup.likely))


def _case(run: Features, group: Rivals, finding: Finding) -> str:
    """Return the place of the loader that a finding is about, where each loader is a case of its own."""
    loader = loader_of(run, finding) if group.apart else None
    return loader.where if loader else ""


def loader_of(run: Features, finding: Finding) -> Loader | None:
    """Return the training loader that a finding is about; one about none in particular, the most waited-for."""
    loaders = [loader for process in run.processes for loader in process.loaders if loader.training]
    loaders.sort(key=lambda loader: -loader.wait_total)
    return next((loader for loader in loaders if loader.where == finding.where), loaders[0] if loaders else None)


def _mentioning(speaker: Finding, silent: Iterable[Finding]) -> Finding:
    likely: dict[str, float] = {}
    for finding in silent:
        name = INSTEAD + finding.id
        likely[name] = max(likely.get(name, 0.0), finding.speedup.likely)
    return replace(speaker, evidence={**speaker.evidence, **likely}) if likely else speaker


def _undisputed(run: Features, found: Sequence[Finding]) -> list[Finding]:
    """Give each finding the seconds it claims, best first; who comes too late for most of its own is only mentioned."""
    purse = _Purse(capacities(run.processes))
    if not purse:  # nobody was heard from inside: there is no ledger to hold claims against
        return list(found)
    kept: list[Finding] = []
    for finding in found:
        if is_told(finding) or finding.id in AROUND or _is_twin(finding, kept):
            kept.append(finding)
            continue
        taken = purse.take(finding)
        if not kept or taken >= MOSTLY * finding.share_lost:
            share = taken if taken < finding.share_lost else finding.share_lost
            kept.append(replace(finding, share_lost=share))
            purse.spend(finding)
        else:
            kept = [_mentioning(f, [finding]) if f.id == purse.taker(finding) else f for f in kept]
    return kept


def _is_twin(finding: Finding, kept: Iterable[Finding]) -> bool:
    """Return whether the same was found of another device or rank, which works at the same time."""
    group = group_of(finding.id)
    return (group is None or not group.apart) and any(f.id == finding.id for f in kept)


class _Purse:
    """The shares of the loop that findings may still claim, by the ledger's words, of the process that has most."""

    def __init__(self, capacities: Mapping[str, float]) -> None:
        self._left = dict(capacities)
        self._all = 1.0
        self._takers: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._left)

    def take(self, finding: Finding) -> float:
        """Return how much of what a finding claims is still there."""
        return sum(share for _span, share in self._parts(finding))

    def spend(self, finding: Finding) -> None:
        """Take it away."""
        for span, share in self._parts(finding):
            self._left[span] -= share
            self._all -= share
            self._takers.setdefault(span, finding.id)

    def taker(self, finding: Finding) -> str:
        """Return the finding that has the first of the seconds that this one wanted."""
        takers = [self._takers[span] for span in claimed(finding.id) if span in self._takers]
        return takers[0] if takers else next(iter(self._takers.values()), "")

    def _parts(self, finding: Finding) -> list[tuple[str, float]]:
        wanted = min(finding.share_lost, self._all)
        parts = []
        for span in claimed(finding.id) or tuple(sorted(self._left, key=lambda s: -self._left[s])):
            share = min(wanted, self._left.get(span, 0.0))
            if share > 0:
                parts.append((span, share))
                wanted -= share
        return parts


def claimed(name: str) -> tuple[str, ...]:
    """Return the words of the ledger under which the seconds of a cause lie, the likeliest first; () for any."""
    group = group_of(name)
    spans = group.spans if group else (PAUSES[name],) if name in PAUSES else ()
    if name in NEAREST:
        spans = (NEAREST[name], *(span for span in spans if span != NEAREST[name]))
    return spans if not spans or SPILL in spans else (*spans, SPILL)


def capacities(processes: Iterable[Process]) -> dict[str, float]:
    """Return the share of the loop under each of the ledger's words, 0 to 1: of the process that has most of it."""
    most: dict[str, float] = {}
    for process in processes:
        if process.loop > 0:
            _raise(most, {name: s / process.loop for name, s in process.ledger.items() if name not in AROUND_LOOP})
    return most


def _raise(most: dict[str, float], shares: Mapping[str, float]) -> None:
    for name, share in shares.items():
        most[name] = min(1.0, max(share, most.get(name, 0.0)))
