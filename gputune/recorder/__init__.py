"""The recorder: reads the machine and the guests while the command runs, and says what was found once it has ended.

It may be killed at any time without the command noticing; the supervisor then forks its next life, which goes on with
the recording. It prints nothing before the command has ended, and nothing at all once the supervisor is gone.
Each part (a probe, the recording, the judging, the printing) fails alone, and is named once.

 end        how it learns that the command has ended      kept       the recording, isolated
 outcome    features to findings, files and words
"""

import os
import select
import shutil
from pathlib import Path

from gputune import rooms
from gputune.gathering import Gatherer
from gputune.hygiene import mask
from gputune.launch import folders
from gputune.launch.link import Failed, Link, Spoken, Started
from gputune.launch.run import Run
from gputune.recorder.end import End
from gputune.recorder.kept import Kept
from gputune.recorder.outcome import Outcome
from gputune.sample import Guest, Reading, Target
from gputune.ticker import ROOM, Ticker
from gputune.tree import Tree


def record(link: Link, run: Run, *, resumed: bool = False) -> int:
    """Record a run; return the status of this process, 0: nothing that fails here ever fails the run.

    With `resumed` an earlier life of the recorder was killed, and what it kept is read back first.
    """
    lock = folders.hold(run.rings) if run.rings else -1
    started = link.receive()
    if not isinstance(started, Started):
        if isinstance(started, Failed) and run.folder:  # nothing ran: leave nothing behind
            shutil.rmtree(run.folder, ignore_errors=True)
        if run.rings:
            folders.remove_rings(run.rings)
        return 0
    if run.all_devices:
        os.environ["GPUTUNE_ALL_DEVICES"] = "1"  # read by the NVML probe
    if run.json != "-":  # the command's stdout ends with the command
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1, inheritable=False)
        os.close(null)
    if not resumed:
        folders.sweep()
    _Life(link, run, started, resumed=resumed).live()
    if lock >= 0:
        os.close(lock)
    return 0


class _Life:
    """One life of the recorder: readings go to the gatherer and into the recording, in the end to the outcome."""

    def __init__(self, link: Link, run: Run, started: Started, *, resumed: bool) -> None:
        self._run = run
        self._link = link
        self._end = End(link, started.pid)
        self._troubles = list(run.troubles)
        command = mask(run.command)
        self._gatherer = Gatherer(command, started.t)
        self._guests: dict[int, Guest] = {}
        self._gathering = True
        self._kept = Kept(run, command, started, resumed=resumed)
        for readings in self._kept.earlier():
            self._gather(readings)
        self._tree = Tree(started.pid)
        target = Target(started.pid, self._tree.pids, rings=Path(run.rings or os.devnull), hz=run.hz)
        probes = [name for name in rooms.names(ROOM) if run.stacks or name != "stacks"]
        self._ticker = Ticker(target, hz=run.hz, sink=self._take, tree=self._tree, probes=probes)

    def live(self) -> None:
        """Record until the command has ended, then say what was found."""
        try:
            self._ticker.run(self._end, wakeup=self._end.fileno())
            self._ticker.tick(everything=True)
        except Exception as error:  # noqa: BLE001 - the rest can still be told
            self._troubles.append(f"the measuring stopped early ({type(error).__name__}: {error})")
            while not self._end():
                select.select([self._end.fileno()], [], [], 1.0)
        outcome = Outcome(self._run, self._end.result(), alone=self._end.alone)
        own_cpu = self._ticker.own_cpu
        unavailable = {**self._ticker.unavailable, **self._ticker.failed}
        self._ticker.close()
        verdict = outcome.judge(self._gatherer, unavailable, own_cpu, self._guests.values())
        self._kept.about(exit_code=outcome.exit_code, ended=self._end.result().t, unavailable=dict(unavailable))
        outcome.keep(verdict)
        before = self._kept.trouble
        outcome.speak(verdict, [*self._troubles, *outcome.troubles, before])
        self._link.send(Spoken())
        self._kept.close()
        if self._kept.trouble != before:
            outcome.add(self._kept.trouble)
        if self._run.rings:
            folders.remove_rings(self._run.rings)

    def _take(self, readings: list[Reading]) -> None:
        self._kept.take(readings)
        self._gather(readings)

    def _gather(self, readings: list[Reading]) -> None:
        for reading in readings:
            if isinstance(reading, Guest):
                self._guests[reading.process] = reading
        if self._gathering:
            try:
                self._gatherer.take(readings)
            except Exception as error:  # noqa: BLE001 - the recording goes on, and can be judged by a mended gputune
                self._gathering = False
                self._troubles.append(f"the run cannot be judged ({type(error).__name__}: {error})")
