"""The machine that we are on and its runs, for a screen in front of it and for an agent that serves it."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gputune.core.errors import GputuneError
from gputune.core.sample import Reading
from gputune.feeds.machine import MachineReader, Take
from gputune.feeds.one_run import OneRun
from gputune.feeds.past import Curves
from gputune.feeds.present import wait_and_rate
from gputune.feeds.rows import Node, Past, RunRow, Update, harmless
from gputune.feeds.tasks import Kin
from gputune.recording.about import NotARun
from gputune.runs.whereabouts import live_runs

if TYPE_CHECKING:
    from gputune.feeds.pasts import KeptPast  # it imports pyarrow

CLOCKS = time.time_ns() - time.monotonic_ns()
LOOK_S = 2.0  # s between looks for runs that have begun


class LocalFeed:
    """A run that was found stays, when it has ended, as ended.

    `find` gives the folders of the runs that go on; `beside` is given the readings of the machine, as they come.
    """

    def __init__(
        self,
        name: str = "",
        *,
        find: Callable[[], list[Path]] = live_runs,
        beside: Take | None = None,
        follows: bool = True,
    ) -> None:
        self._curves = Curves()
        self._beside = beside
        self._machine = MachineReader(name, self._taken)
        self._looks: tuple[str, int] = ("", 0)
        self._kept: KeptPast | None = None  # by an agent of this machine
        self._find = find
        self._follows = follows
        self._due = 0.0
        self._until = 0
        self._runs: dict[Path, OneRun] = {}
        self._refused: set[Path] = set()
        self._told: dict[str, tuple[int, RunRow]] = {}  # id to when it was last told anew, and how

    def poll(self, since: int) -> Update:
        """Return this machine, always, and the runs that have changed since; at first the machine alone.

        What reads recordings takes longer to import than a screen should stay empty.
        """
        first = not self._until
        if not first:
            self._look_around()
        self._until += 1
        rows = [_in_job(run) for run in self._runs.values()]
        for row in rows:
            known = self._told.get(row.id)
            if known is None or known[1] != row:
                self._told[row.id] = (self._until, row)
        gone = tuple(self._told.keys() - {row.id for row in rows})
        for run in gone:
            del self._told[run]
        node = replace(_about_runs(self._machine.look(self._kin()), rows), job=self._jobs(rows))
        return Update(
            until=self._until,
            nodes=(replace(node, seen=time.time()),),
            runs=tuple(row for at, row in self._told.values() if at > since),
            runs_gone=gone,
            past=harmless(self._past()),
            more=first or any(run.behind for run in self._runs.values()),
        )

    def seek(self, run: str, at: float | None) -> None:
        """Show that run as it was."""
        for each in self._runs.values():
            if each.id == run:
                each.seek(at)

    def look_at(self, node: str, span: int) -> None:
        """Tell how this machine went: as its agent has kept it, where one serves, else since this feed was made."""
        if node and not self._looks[0] and self._follows:
            self._kept = _kept()
        self._looks = (node, span)

    def _past(self) -> Past | None:
        node, span = self._looks
        if not node:
            return None
        if self._kept is not None:
            from gputune.wire.client import AgentFailed  # noqa: PLC0415 - pyarrow is not loaded before the screen is there

            try:
                self._kept.read()
            except AgentFailed:  # it has ended: what was read here remains
                self._kept = None
        return (self._curves if self._kept is None else self._kept).past(node, span)

    def _taken(self, readings: list[Reading]) -> None:
        if self._follows:  # an agent's recording tells it whoever asks
            self._curves.take(readings, CLOCKS)
        if self._beside is not None:
            self._beside(readings)

    def close(self) -> None:
        """Give everything back."""
        for run in self._runs.values():
            run.close()
        self._machine.close()

    def _look_around(self) -> None:
        at = time.monotonic()
        if at < self._due:
            return
        self._due = at + LOOK_S
        for folder in self._find():
            known = self._runs.get(folder)
            if folder in self._refused or (known is not None and not known.gone):  # else another run has its place now
                continue
            try:
                self._runs[folder] = self._named(OneRun(folder, self._machine.name, follows=self._follows))
            except NotARun:  # not written yet: `run.json` is its first file
                continue
            except GputuneError:  # of a newer gputune
                self._refused.add(folder)
        ended = [folder for folder, run in self._runs.items() if run.ended]
        for folder in ended[:-16]:  # runs that have ended and are still shown
            self._runs.pop(folder).close()
            self._refused.add(folder)

    def _named(self, run: OneRun) -> OneRun:
        """Return the run with a unique id: folders of the same name get the name of their parent folder as well."""
        taken = {each.id for each in self._runs.values() if each.folder != run.folder}
        for parent in run.folder.resolve().parents:
            if run.id not in taken:
                break
            name = run.id.removeprefix(f"{run.node}/")
            run.id = f"{run.node}/{parent.name}/{name}"
        return run

    def _jobs(self, rows: Sequence[RunRow]) -> str:
        """Return the jobs of the live runs: most machines have one."""
        return ", ".join(sorted({row.job for row in rows} - {""}))

    def _kin(self) -> list[Kin]:
        return [run.kin for run in self._runs.values() if not run.ended]


def _in_job(run: OneRun) -> RunRow:
    """Return a run's row, with its job while it is live."""
    row = run.look()
    return replace(row, job=run.job) if row.state == "live" else row


def _kept() -> "KeptPast | None":
    """Return what an agent of this user keeps of this machine, None where none serves."""
    from gputune.wire import places  # noqa: PLC0415 - as above

    socket = places.socket()
    if not socket.exists():
        return None
    from gputune.recording import lean  # noqa: PLC0415 - as above

    lean()
    from gputune.feeds.pasts import KeptPast  # noqa: PLC0415 - as above
    from gputune.wire.address import Address  # noqa: PLC0415 - as above
    from gputune.wire.client import AgentClient  # noqa: PLC0415 - as above

    return KeptPast(AgentClient(Address(places.host(), path=str(socket)), None))


def _about_runs(node: Node, rows: Sequence[RunRow]) -> Node:
    """Return the node with what its live runs tell of it: all that wait together, and the best of their findings."""
    live = [row for row in rows if row.state == "live"]
    wait, rate = wait_and_rate(live)
    findings = [f for row in live if row.verdict is not None for f in row.verdict.findings]
    best = max(findings, key=lambda f: f.speedup.likely, default=None)
    return replace(
        node,
        wait=wait,
        rate=rate,
        finding=best.id if best else "",
        gain=best.speedup.likely if best else None,
        runs=tuple(row.id for row in rows),
    )
