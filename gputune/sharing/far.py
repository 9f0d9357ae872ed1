"""One process of a packed run somewhere in a cluster, as it is seen from here: asked for news, and never waited for."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from gputune.core.hygiene import clean
from gputune.host import clusters
from gputune.sharing.fitting import Probed
from gputune.sharing.hosted import Hosted, News
from gputune.sharing.tasks import Task
from gputune.verdict.packed import Packed, ProcRow

ANSWER_S = 30.0  # s that an actor gets to answer before its node is taken for lost: the node itself may be busy
CLOSE_S = 40.0  # s that it gets to end what is left
LOST = 125  # exit code of a process whose node was lost: nobody knows its own
FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class Far:
    """A task, and the actor that holds its launcher."""

    def __init__(self, task: Task, ray: Any) -> None:
        self.task = task
        self.state = "waiting"
        self.bundle = -1
        self.code: int | None = None
        self.why = ""
        self.said = ""  # by its launcher, in the end
        self.status = 0  # that it left with
        self.document: Packed | None = None
        self.probed: Probed | None = None
        self._ray = ray
        self._actor: Any = None
        self._begun: Any = None  # the answer to `start` that is awaited
        self._asked: Any = None  # the answer to `news` that is awaited
        self._asked_at = self._started = self._ended = 0.0
        self._at = 0  # B of its log that are here

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

    def start(self, group: Any, bundle: int, asks: dict[str, float], spec: str) -> None:
        """Have it started in a bundle of a placement group."""
        strategy = self._ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
            placement_group=group, placement_group_bundle_index=bundle
        )
        options = {"num_cpus": asks["CPU"], "num_gpus": asks.get("GPU", 0), "max_restarts": 0}
        self._actor = self._ray.remote(Hosted).options(**options, scheduling_strategy=strategy).remote()
        self._begun = self._actor.start.remote(spec, self.task.cwd or str(Path.cwd()))
        self.bundle, self.state, self._started = bundle, "running", time.monotonic()
        Path(self.task.log).unlink(missing_ok=True)

    def awaited(self) -> Any:
        """Return the answer that is awaited; ask for news where none is."""
        if self._begun is None and self._asked is None:
            self._asked, self._asked_at = self._actor.news.remote(self._at), time.monotonic()
        return self._begun or self._asked

    def took(self) -> tuple[bool, bytes]:
        """Take the answer, which is there; return whether the process has ended, and what is new in its log."""
        answer, first = self._begun or self._asked, self._begun is not None
        self._begun = self._asked = None
        try:
            told = self._ray.get(answer)
        except Exception as error:  # noqa: BLE001 - Ray raises what it likes, and what was raised on the node
            self._lost(clusters.first_line(error))
            return True, b""
        if first:
            if told:
                self._lost(str(told))
            return bool(told), b""
        return self._news(msgspec.json.decode(told, type=News))

    def _news(self, news: News) -> tuple[bool, bytes]:
        if news.log:
            with os.fdopen(os.open(self.task.log, FLAGS, 0o600), "ab") as file:
                file.write(news.log)
            self._at += len(news.log)
        if news.document:
            self.document = msgspec.json.decode(news.document, type=Packed)
        if news.over:
            self._over(news)
        return news.over, news.log

    def _over(self, news: News) -> None:
        """Learn how it has ended."""
        self.said, self.status, self.code = news.said, max(0, news.status), news.status or LOST
        if self.document is not None:
            if self.document.procs and not self.document.running:  # else its launcher was killed
                self.code = self.document.procs[0].exit_code
        elif news.said.strip():
            self.why = clean(news.said.strip().splitlines()[0].removeprefix("error: "), 200)
        if news.probed:
            self.probed = msgspec.json.decode(news.probed, type=Probed)

    def is_silent(self) -> bool:
        """Return whether its actor has not answered for so long that it is given up."""
        if self._asked is None or time.monotonic() - self._asked_at < ANSWER_S:
            return False
        self._lost(f"its node has not answered for {ANSWER_S:.0f} s")
        return True

    def _lost(self, why: str) -> None:
        self.why, self.code = f"lost: {clean(why, 200)}", LOST

    def send(self, number: int) -> None:
        """Have a signal handed on to it."""
        if self.state == "running":
            self._actor.send.remote(number)

    def leaving(self) -> Any:
        """Ask its actor to end what is left; return the answer, None where there is nobody to ask."""
        self.state, self._ended = "ended", time.monotonic()
        return None if self.why.startswith("lost") else self._actor.close.remote()

    def kill(self) -> None:
        """Give its place back."""
        with suppress(Exception):
            self._ray.kill(self._actor)

    def let_go(self) -> None:
        """End what is left of it, and give its place back."""
        answer = self.leaving()
        with suppress(Exception):  # its node has just been lost, and with it whatever was left
            if answer is not None:
                self._ray.get(answer, timeout=CLOSE_S)
        self.kill()
