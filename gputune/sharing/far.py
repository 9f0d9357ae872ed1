"""One process of a packed run somewhere in a cluster, as it is seen from here: asked for news, and never waited for."""

import os
import time
from pathlib import Path
from typing import Any

import msgspec

from gputune.core.hygiene import clean
from gputune.experiment.remote import Heard, Holder, Lost, ProcessNotBegun
from gputune.sharing.fitting import Probed
from gputune.sharing.hosted import launched
from gputune.sharing.spec import PROBED
from gputune.sharing.tasks import Task
from gputune.verdict.packed import FILE, Packed, ProcRow

LOST = 125  # exit code of a process whose node was lost: nobody knows its own
FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class RemoteTask(Holder):
    """A task, and the actor that holds its launcher."""

    def __init__(self, task: Task, ray: Any) -> None:
        super().__init__(ray)
        self.task = task
        self.state = "waiting"
        self.bundle = -1
        self.code: int | None = None
        self.why = ""
        self.lost = False  # nobody is there to be asked
        self.said = ""  # by its launcher, in the end
        self.status = 0  # that it left with
        self.document: Packed | None = None
        self.probed: Probed | None = None
        self._started = self._ended = 0.0

    @property
    def row(self) -> ProcRow:
        """Return its row of the summary."""
        wall = (self._ended or time.monotonic()) - self._started if self._started else None
        log, name = str(Path(self.task.log).absolute()), self.task.label if self.task.job.name else ""
        plain = ProcRow(
            index=self.task.slot, pid=0, exit_code=self.code, log=log, wall_s=wall, samples_per_s=None, name=name
        )
        if self.document is not None and self.document.procs:
            plain = msgspec.structs.replace(self.document.procs[0], index=plain.index, log=log, name=name)
        return msgspec.structs.replace(plain, state=self.state, why=self.why or plain.why)

    def launch(self, group: Any, bundle: int, asks: dict[str, float], spec: str) -> None:
        """Have it started in a bundle of a placement group."""
        strategy = self._ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
            placement_group=group, placement_group_bundle_index=bundle
        )
        self.start(launched(spec, self.task.cwd or str(Path.cwd())), asks, strategy)
        self.bundle, self.state, self._started = bundle, "running", time.monotonic()
        Path(self.task.log).unlink(missing_ok=True)

    def hear(self, *, answered: bool) -> tuple[bool, bytes]:
        """Take the answer, where there is one; return whether the process has ended, and what is new in its log."""
        try:
            if answered:
                return self._news(self.took())
            self.check()
        except Lost as lost:
            self.why, self.code, self.lost = clean(str(lost), 200), LOST, not isinstance(lost, ProcessNotBegun)
            return True, b""
        return False, b""

    def _news(self, news: Heard) -> tuple[bool, bytes]:
        if news.log:
            with os.fdopen(os.open(self.task.log, FLAGS, 0o600), "ab") as file:
                file.write(news.log)
        if FILE in news.files:
            self.document = msgspec.json.decode(news.files[FILE], type=Packed)
        if news.over:
            self._over(news)
        return news.over, news.log

    def _over(self, news: Heard) -> None:
        """Learn how it has ended."""
        self.said, self.status, self.code = news.said, max(0, news.status), news.status or LOST
        if self.document is not None:
            if self.document.procs and not self.document.running:  # else its launcher was killed
                self.code = self.document.procs[0].exit_code
        elif news.said.strip():
            self.why = clean(news.said.strip().splitlines()[0].removeprefix("error: "), 200)
        if PROBED in news.files:
            self.probed = msgspec.json.decode(news.files[PROBED], type=Probed)

    def leaving(self) -> Any:
        """Ask its actor to end what is left; return the answer, None where there is nobody to ask."""
        self.state, self._ended = "ended", time.monotonic()
        return None if self.lost else self.closing()
