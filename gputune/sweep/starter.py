"""How the script is started under settings: the same command, the same seed, and the rules for its loader."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gputune.core.sample import Json
from gputune.experiment.budget import Budget
from gputune.experiment.living import LiveStart, StartPlan
from gputune.experiment.rungs import Rungs
from gputune.experiment.script import Script
from gputune.experiment.starting import Judge, Start, State, refused, start
from gputune.experiment.writable import Writable, writable
from gputune.sweep import apart
from gputune.sweep.settings import LoaderSetting


@dataclass(slots=True, kw_only=True)
class Starter:
    """Starts the script. `where` and `origin` are its loader and the settings it has by itself, once they are known."""

    script: Script
    folder: Path
    within: float
    seed: int
    where: str = ""
    origin: LoaderSetting | None = None
    duplicates: bool = False  # a stream that shares itself out may have more workers
    budget: Budget | None = None  # starts that are under way when it is over are ended
    may_write: tuple[str, ...] = ()  # where trials may change the user's files
    _writable: Writable | None = field(default=None, init=False)

    @property
    def writable(self) -> Writable:
        """Return where trials may write, the same for all of them."""
        if self._writable is None:
            self._writable = writable(self.script, self.folder / apart.WRITES, self.may_write)
        return self._writable

    def before(self) -> str:
        """Return what is to be known of the trials' writing before the first one, "" where there is nothing."""
        return self.writable.before()

    def close(self) -> None:
        """Leave nothing behind that was made for trials, and was not used."""
        if self._writable is not None:
            self._writable.remove()

    @property
    def at_once(self) -> int:
        """Return how many trials may run side by side without disturbing each other: on one machine one."""
        return 1

    def judge(self) -> Judge:
        """Return a judge for trials that are compared: it tells which of them are hopeless (`experiment/rungs.py`)."""
        return Rungs().goes_on

    def apart(self) -> str:
        """Return one sentence: which writing of the trials was kept apart, and which was not."""
        return apart.told(self.writable)

    def missed(self, log: Path | str) -> str:
        """Return in words what a script that failed has missed by what is kept apart, "" where that was not it."""
        return apart.reason(Path(log), self.writable)

    def plan(self, *, seconds: float, batches: int = 0, environment: Mapping[str, str] | None = None) -> StartPlan:
        """Return how long a start is."""
        return StartPlan(
            command=self.script.command,
            cwd=self.script.cwd,
            folder=self.folder,
            seconds=seconds,
            batches=batches,
            seed=self.seed,
            environment=environment or {},
            budget=self.budget,
        )

    def rules(self, wanted: LoaderSetting | None) -> list[Mapping[str, Json]]:
        """Return the rules that make the loader be built with these settings; none where it is so by itself."""
        changes = wanted.changes(self.origin) if wanted and self.origin else {}
        rule: dict[str, Json] = {"where": self.where, "set": changes, "duplicates": self.duplicates}
        return [rule] if changes else []

    def live(self, plan: StartPlan, name: str, wanted: LoaderSetting | None = None) -> LiveStart:
        """Start the script with these settings, and return it as it goes on. Raises OSError where it cannot be."""
        return LiveStart(plan, name, self.rules(wanted), self.writable)

    def start(
        self,
        plan: StartPlan,
        name: str,
        wanted: LoaderSetting | None = None,
        *,
        judge: Judge | None = None,
        spread: bool = False,  # noqa: ARG002 - of a cluster: it may run on any machine that is like the others
        **special: Json,
    ) -> Start:
        """Start the script with these settings, its own where none are wanted, and wait for its end."""
        rules = self.rules(wanted)
        where, within, writable = self.where, self.within, self.writable
        found = start(plan, name, where=where, rules=rules, within=within, judge=judge, writable=writable, **special)
        fault = refused(found, rules[0] if rules else {}) if found.state is State.OK else None
        return found if fault is None else replace(found, state=fault.state, cause=fault.cause, why=fault.why, rates=())
