"""The launcher: a process of its own that starts the tasks, watches them to their end, and says what came of it.

It is what the supervisor (`gputune/launch/supervisor.py`) runs in a command's place, so it is recorded like one. It
holds no thread and no handler: all signals are blocked and taken one by one, as the supervisor does. When the
supervisor is gone it ends all tasks; when it is killed itself, the kernel kills the tasks and the supervisor the rest.
"""

import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import json, structs

from gputune.core.errors import GputuneError
from gputune.core.hygiene import clean
from gputune.core.pace import Pace
from gputune.launch import family, signals
from gputune.launch.descriptors import is_open, null, say
from gputune.sharing.cards import SharedDevices
from gputune.sharing.gauge import Gauge
from gputune.sharing.living import RecentPace, ShareLiveWriter
from gputune.sharing.logs import Logs, painted
from gputune.sharing.member import Mask, Member
from gputune.sharing.metric import metric
from gputune.sharing.placing import Places
from gputune.sharing.progress import Progress
from gputune.sharing.spec import PROBED, VARIABLE, Spec, decode
from gputune.sharing.state_machine import Course
from gputune.sharing.supervising import TaskSupervisor
from gputune.sharing.window import Eyes
from gputune.verdict.packed import Packed

BEAT_S = 0.1  # s between two looks, where no signal comes
ORPHANED_S = 5.0  # s that tasks get to end once the process that was started by hand is gone
OURS = 1


class Launcher:
    """One packed run, from its first task to its last."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._notes: list[str] = []
        self._began = time.monotonic()
        self._orphaned_at = 0.0
        self._prepared = False
        self._cards = SharedDevices()
        mask: Mask = set(spec.mask)
        self._crew = TaskSupervisor(spec, dict(os.environ), mask, self._tell)
        self._crew.ended = self._ended
        progress = Progress(Path(spec.rings or os.devnull), self._crew.slot_of)
        self._pattern = metric(spec.metric) if spec.metric else None
        self._places = Places(spec, self._cards, self._note)
        self._eyes = Eyes(progress, self._logs_of(()), Gauge(self._crew, self._cards), self._places)
        self._course = Course(spec, self._crew, self._places, self._eyes, self._logs_of, self._note)
        self._living = ShareLiveWriter(spec.folder, RecentPace(self._eyes), self._present)

    def run(self) -> int:
        """Run all tasks; return the exit code to leave with, negative for a signal."""
        status = None
        try:
            self._listen(0)  # a Ctrl-C that came while we were being loaded: nobody starts
            self._course.begin()
            self._live()
            self._meet_cards()
        except GputuneError as refused:
            self._clear()
            say(f"{refused}\n")
            self._notes.append(clean(str(refused.args[0]), 400))
            status = refused.status
        finally:
            self._crew.kill()
            self._places.close()
            self._cards.close()
        self._course.pack.keep()
        if status is None:
            self._speak()
        elif self._living.written:
            self._living.put(structs.replace(self._document({}, running=False), exit_code=status, verdict=""))
        return self._crew.status if status is None else status

    def _live(self) -> None:
        """Beat by beat, until all have ended. Raises GputuneError where the run is refused."""
        while True:
            self._course.tick()
            self._crew.start()  # before anything else of this beat: the first one starts nothing but the tasks
            self._cards.poll()
            self._look()
            self._crew.look()
            if self._course.phase == "packed" and self._crew.over:
                return
            self._listen(BEAT_S)
            self._crew.reap()
            self._mind_parent()

    def _look(self) -> None:
        self._eyes.progress.look()
        self._eyes.logs.look(self._crew.running)
        self._eyes.gauge.look()
        members = self._crew.members
        states = tuple((member.state, member.paused, member.attempts) for member in members)
        self._living.look(self._crew.running, (self._course.phase, states))
        # 2.0 s after the start: then there is time to load what the summary needs
        if not self._prepared and time.monotonic() - self._began > 2.0:
            self._prepared = True
            import gputune.sharing.summary  # noqa: F401, PLC0415 - the summary needs it then, and is waited for

    def _ended(self, member: Member) -> None:
        """Learn all of a process that has ended. Raises GputuneError where the run is not gone on with."""
        self._eyes.progress.look(now=True)
        self._eyes.logs.last(member)
        self._course.ended(member)

    def _meet_cards(self) -> None:
        """Find out whether there is a card, where the tasks were faster than the driver: the verdict says so."""
        if not (self._crew.closing or self._places.is_without_card):
            # 2.0 s in which it is found out whether there is a card at all, at the end of a run shorter than that
            self._cards.meet(2.0)
        if self._places.card is None:
            self._places.meet()

    def _listen(self, longest: float) -> None:
        """Wait for a signal, and take all that are there."""
        info = signals.awaited(signals.WATCHED, longest)
        while info is not None:
            if os.getppid() == self._spec.parent:  # else it is the kernel's word of that, and all are ended anyway
                self._crew.take(info)
            info = signals.awaited(signals.WATCHED, 0)

    def _mind_parent(self) -> None:
        """End all once the process that was started by hand is gone."""
        if os.getppid() == self._spec.parent:
            return
        if not self._orphaned_at:
            self._orphaned_at = time.monotonic()
            self._crew.close("its launcher was killed")
        elif time.monotonic() - self._orphaned_at > ORPHANED_S:
            self._crew.kill()

    def _clear(self) -> None:
        """End what runs, of a run that was refused."""
        self._crew.ended = lambda _member: None
        self._crew.close("the run was refused")
        until = time.monotonic() + self._spec.grace + ORPHANED_S
        while not self._crew.over and time.monotonic() < until:
            self._crew.look()
            self._listen(BEAT_S)
            self._crew.reap()
            self._mind_parent()

    # what people and files are told

    def _logs_of(self, members: Sequence[Member]) -> Logs:
        return Logs(members, self._pattern, self._show if self._spec.follow else None)

    def _show(self, slot: int, line: str) -> None:
        """Print a line of a task: on stdout, unless that is for the document."""
        text = painted(line, slot) if self._spec.colour else line
        data = f"{text}\n".encode("utf-8", "backslashreplace")
        try:
            os.write(2 if self._spec.as_json else 1, data)
        except OSError:  # nobody reads it: the logs have it all the same
            return

    def _tell(self, text: str) -> None:
        say(f"{text}\n" if text.startswith("error: ") else f"gputune: {clean(text, 400)}\n")

    def _note(self, text: str) -> None:
        self._notes.append(text)
        self._tell(text)

    def _speak(self) -> None:
        """Print the summary, and keep the document."""
        from gputune.sharing.summary import shown  # noqa: PLC0415 - the tasks start sooner without it

        self._keep_probed()
        made = self._document({}, running=False)
        self._living.put(made)
        for trouble in (*filter(None, [self._living.trouble]), *shown(made, self._spec)):
            self._tell(trouble)

    def _keep_probed(self) -> None:
        """Keep what a copy has shown that was only to be measured."""
        if self._course.probed is None:
            return
        from gputune.recording.folder import Folder  # noqa: PLC0415 - as above

        with Folder(Path(self._spec.folder)) as folder:
            folder.write(PROBED, json.encode(self._course.probed))

    def _present(self, recent: Mapping[int, Pace]) -> Packed:
        return self._document(recent, running=True)

    def _document(self, recent: Mapping[int, Pace], *, running: bool) -> Packed:
        from gputune.sharing.closing import document  # noqa: PLC0415 - as above

        seconds = time.monotonic() - self._began
        return document(self._crew, self._course, self._eyes, self._notes, recent, seconds=seconds, running=running)


def main() -> None:
    """Run what the variable asks for, and leave as the first failure did. Does not return."""
    for standard in (0, 1, 2):
        if not is_open(standard):
            null(standard)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, signals.WATCHED)  # as they are since our start, for a family
    family.adopt()
    family.die_with_parent(signal.SIGTERM)
    try:
        code = Launcher(decode(os.environ.pop(VARIABLE))).run()
    except BaseException as error:  # noqa: BLE001 - one sentence, never a traceback; what ran is ended below
        what = f"{type(error).__name__}: {clean(str(error))}"
        say(f"error: the launcher stumbled over something unexpected: {what}\n\nhint: try again\n")
        code = OURS
    family.end()
    if code < 0:
        signals.die_of(-code)
        code = 128 - code  # only where the kernel refuses
    os._exit(code)
