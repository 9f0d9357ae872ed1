"""Jobs made into tasks: each process with its own arguments, variables, log and place."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gputune.sharing.spec import AUTO, SLOT, Spec, TaskSpec

PREFIX = "GPUTUNE_PROCESS"  # of the two variables that every task has
UNBUFFERED = "PYTHONUNBUFFERED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One process to be started. `number` is its place among the `of` of its job, `slot` that among all tasks."""

    slot: int
    number: int
    of: int
    job: TaskSpec
    label: str  # short, and fit for a file's name: that of its log
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    log: str
    card: str = ""  # what CUDA_VISIBLE_DEVICES is to be; "" leaves it
    cpus: frozenset[int] = frozenset()  # it may run on; none: as we may

    @property
    def weight(self) -> float:
        """Return its part of the card, against those of the others."""
        weights = self.job.weights
        return weights[self.number % len(weights)] if weights else self.job.weight

    @property
    def name(self) -> str:
        """Return what people call it: `process 2`, or its job's name and number."""
        return self.label if self.job.name else f"process {self.slot}"


def tasks(spec: Spec, cards: Sequence[str] = (), *, count: int = 1) -> list[Task]:
    """Return all tasks; `count` stands in for a count that was to be found out. Counts are per card."""
    found: list[Task] = []
    for job in spec.jobs:
        each = count if job.count == AUTO else job.count
        whole = each * max(1, len(cards))
        for number in range(whole):
            card = cards[number // each] if cards else ""
            slot, place, of = spec.numbered or (len(found), number, whole)
            found.append(_task(spec, job, slot, (place, of), card))
    return found


def _task(spec: Spec, job: TaskSpec, slot: int, place: tuple[int, int], card: str) -> Task:
    number, of = place
    env = {**job.env, f"{PREFIX}_INDEX": str(number), f"{PREFIX}_NUM": str(of), SLOT: str(slot)}
    if spec.index_env:
        env |= {f"{spec.index_env}_INDEX": str(number), f"{spec.index_env}_NUM": str(of)}
    if card:
        env["CUDA_VISIBLE_DEVICES"] = card
    if (spec.follow or spec.metric) and UNBUFFERED not in os.environ:
        env.setdefault(UNBUFFERED, "1")  # or its lines come when it ends
    numbered = (spec.index_flag, str(number), spec.num_flag, str(of)) if job.index_args else ()
    label = f"process{slot}" if not job.name else job.name if of == 1 else f"{job.name}-{number}"
    argv, cwd = job.argv, job.cwd
    if spec.own_dirs:
        argv, cwd = _from_elsewhere(argv, cwd), str(Path(spec.logs, label))
    log = str(Path(spec.logs, f"{label}.log"))
    whole = (*argv, *numbered)
    return Task(slot=slot, number=number, of=of, job=job, label=label, argv=whole, env=env, cwd=cwd, log=log, card=card)


def _from_elsewhere(argv: tuple[str, ...], cwd: str) -> tuple[str, ...]:
    """Return a command with its script named by its whole path: it is to run in a folder of its own."""
    for place, word in enumerate(argv[:4]):  # of a command, among which its script is: `python -u train.py`
        path = Path(cwd, word)
        if word.endswith((".py", ".sh")) and path.exists():
            return (*argv[:place], str(path.absolute()), *argv[place + 1 :])
    return argv
