"""A run as it is compared: how fast it was, in what that is counted, how sure that is, and who disturbed it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from gputune.comparing.interval import Rate
from gputune.core.pace import SAMPLES, STEPS, pace
from gputune.core.sample import Json
from gputune.runs.labels import label
from gputune.runs.one import KeptRun
from gputune.verdict.document import CpuRow, ProcessRow, Verdict

FASTEST = 1e12  # samples/s: what is faster, or slower than once in as many s, was made up


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One run, its verdict, and what its run.json says. `rate` is None where no training was seen."""

    kept: KeptRun
    verdict: Verdict
    rate: Rate | None
    unit: str

    @property
    def about(self) -> Mapping[str, Json]:
        """Return its run.json, empty for a `findings.json` that lies alone."""
        return self.kept.about

    @property
    def label(self) -> str:
        """Return what a person has called it."""
        return label(self.kept.place) if self.kept.place.is_dir() else ""

    @property
    def ranks(self) -> list[ProcessRow]:
        """Return the training processes that were heard."""
        return [row for row in self.verdict.processes if row.seen and (row.batches or row.optimizer_steps)]

    @property
    def world(self) -> int:
        """Return how many ranks the job has, as its launcher says; as many as were heard where it says nothing."""
        return max([len(self.ranks), *(row.world_size or 0 for row in self.ranks)])


def subject(one: KeptRun) -> Subject:
    """Return a run as it is compared. Raises as reading its verdict does."""
    verdict = one.verdict()
    value, unit = _pace(verdict)
    known = value is not None and 1 / FASTEST < value < FASTEST
    return Subject(kept=one, verdict=verdict, rate=_rate(one, verdict, value) if value and known else None, unit=unit)


def _rate(one: KeptRun, verdict: Verdict, value: float) -> Rate:
    error = min(1.0, max(0.0, verdict.rate_error or 0.0))
    return Rate(value=value, error=error, taken=taken(verdict), at=one.started or _moment(verdict.started))


def _moment(text: str) -> float | None:
    """Return a time that a verdict tells in s of Unix time; None where it tells none."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()  # Python 3.10 knows no Z
    except ValueError:
        return None


def _pace(verdict: Verdict) -> tuple[float | None, str]:
    """Return how fast a run was and in what: samples, or batches where their size is not known, or else steps."""
    if verdict.samples_per_s:
        return verdict.samples_per_s, SAMPLES
    found = pace(verdict.loop_s, samples=0, batches=verdict.batches, steps=0)
    return (found.rate, found.unit) if found is not None else (verdict.steps_per_s, STEPS)


def taken(verdict: Verdict) -> float:
    """Return which share of the CPUs others took from a run at the most: processes, and the machine's host.

    While half of them idle, nobody who uses the others is in its way.
    """
    stolen = min(1.0, max(0.0, verdict.stolen or 0.0))
    return 1 - (1 - stolen) * (1 - (neighbours(verdict.cpu) if crowded(verdict.cpu) else 0.0))


def neighbours(cpu: CpuRow | None) -> float:
    """Return which share of the job's CPUs anybody else used."""
    return min(1.0, max(0.0, (cpu.others or 0.0) / cpu.allowed)) if cpu and cpu.allowed > 0 else 0.0


def crowded(cpu: CpuRow | None) -> bool:
    """Return whether more than half of the job's CPUs were in use."""
    # With more than 0.5 of the CPUs in use threads share cores (a core has two CPUs), and soon wait for one
    return cpu is not None and (cpu.others or 0.0) + (cpu.job or 0.0) > 0.5 * cpu.allowed
