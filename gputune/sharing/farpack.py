"""The processes of a packed run in a cluster, from their first to their last: bundles, logs, the policy, signals."""

import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from gputune.core.hygiene import clean
from gputune.experiment.remote import CLOSE_S
from gputune.host import clusters
from gputune.sharing.far import RemoteTask
from gputune.sharing.logs import LINE_CHARS, painted
from gputune.sharing.spec import AUTO, Spec, encode
from gputune.sharing.tasks import UNBUFFERED, Task

BEAT_S = 0.5  # s between two looks

Note = Callable[[str], None]
Show = Callable[[Sequence[RemoteTask], bool], None]  # how they are, and whether the first one is only measured


class FarPack:
    """Serves processes. `first_failure` is the exit code of the one that failed first, None where none did."""

    def __init__(self, ray: Any, spec: Spec, note: Note, show: Show) -> None:
        self.first_failure: int | None = None
        self.closing = False
        self.interrupts = 0
        self._ray = ray
        self._spec = spec
        self._note = note
        self._tell = show
        self._told_at = 0.0
        self._kill_at = 0.0
        self._groups: list[Any] = []
        self._pack: list[RemoteTask] = []
        self._parts: dict[int, bytes] = {}  # slot to the beginning of a line

    @property
    def _running(self) -> list[RemoteTask]:
        return [far for far in self._pack if far.state == "running"]

    def serve(self, pack: Sequence[RemoteTask], bundle: dict[str, float], at_once: int, *, probe: bool = False) -> None:
        """Run these processes to their end, so many at once, each in a bundle of one placement group."""
        self._pack = list(pack)
        free = list(range(min(at_once, len(pack))))
        try:
            group = self._group([bundle] * len(free))
        except KeyboardInterrupt:
            self._interrupted()
            return
        while self._goes_on(bundle, free, group, probe=probe):
            self._turn(free, probe=probe)

    def _goes_on(self, bundle: dict[str, float], free: list[int], group: Any, *, probe: bool) -> bool:
        """Start each task that has a free bundle; return whether any task runs."""
        for far in self._pack:
            if far.state == "waiting" and free and not self.closing:
                far.launch(group, free.pop(0), bundle, encode(self._spec_of(far.task, probe=probe)))
        return bool(self._running)

    def _turn(self, free: list[int], *, probe: bool) -> None:
        """Hear of all that run, once."""
        try:
            for far in self._heard():
                free.append(far.bundle)
                self._ended(far, probe=probe)
            self._kill_late()
            if time.monotonic() - self._told_at > 2.0:  # s between two documents of a run that goes on
                self._told_at = time.monotonic()
                self._tell(self._pack, probe)
        except KeyboardInterrupt:
            self._interrupted()

    def _group(self, bundles: list[dict[str, float]]) -> Any:
        """Return a placement group that is ready; wait for it as long as it takes."""
        made = self._ray.util.placement_group(bundles, strategy="PACK")
        self._groups.append(made)
        began, told = time.monotonic(), False
        while not made.wait(timeout_seconds=BEAT_S):
            if told or time.monotonic() - began < 10.0:  # s after which it is said that the cluster is busy
                continue
            told = True
            wanted = {name: sum(bundle[name] for bundle in bundles) for name in bundles[0]}
            short = clusters.missing(self._ray, wanted)
            self._note(f"the cluster is busy{f', {short}' if short else ''}: waiting until there is room")
        return made

    def _spec_of(self, task: Task, *, probe: bool) -> Spec:
        """Return the spec of one task alone: its number is that among all of them."""
        spec, env = self._spec, dict(task.job.env)
        if spec.workers >= 0:
            rule = {"set": {}, "most": {"num_workers": spec.workers}}
            env["GPUTUNE_OVERRIDE"] = msgspec.json.encode([rule]).decode()
        if spec.follow:
            env.setdefault(UNBUFFERED, "1")
        job = msgspec.structs.replace(task.job, count=AUTO if probe else 1, env=env, cwd="")
        return msgspec.structs.replace(
            spec,
            jobs=(job,),
            numbered=(task.slot, task.number, task.of),
            probe=probe,
            follow=False,
            as_json=False,
            json_file="",
            mps="off",
            cpus="all",
            queue=False,
            at_once=AUTO,
            on_failure="restart" if spec.on_failure == "restart" and not probe else "continue",
        )

    def _heard(self) -> list[RemoteTask]:
        """Take what the processes have to tell; return those that have ended."""
        running, began = self._running, time.monotonic()
        waited = [far.awaited() for far in running]
        ready, _ = self._ray.wait(waited, num_returns=len(waited), timeout=BEAT_S)
        over = []
        for far, answer in zip(running, waited, strict=True):
            ended, data = far.hear(answered=answer in ready)
            self._show(far.task, data, last=ended)
            if ended:
                over.append(far)
        time.sleep(max(0.0, BEAT_S / 2 - (time.monotonic() - began)))  # they are not asked without end
        return over

    def _show(self, task: Task, data: bytes, *, last: bool) -> None:
        """Print new lines of a log, where they are followed."""
        if not self._spec.follow:
            return
        whole = (self._parts.pop(task.slot, b"") + data).replace(b"\r", b"\n")
        *lines, rest = whole.split(b"\n")
        if last and rest:
            lines.append(rest)
        elif rest:
            self._parts[task.slot] = rest
        stream = sys.stderr if self._spec.as_json else sys.stdout
        for line in lines:
            label = task.label if task.job.name else str(task.slot)
            text = f"{label} | {clean(line.decode('utf-8', 'replace'), LINE_CHARS)}"
            stream.write((painted(text, task.slot) if self._spec.colour else text) + "\n")
        stream.flush()

    def _ended(self, far: RemoteTask, *, probe: bool) -> None:
        """Let go of a process that has ended, and do what the policy says."""
        far.let_go(far.leaving())
        for note in far.document.notes if far.document is not None else ():
            self._note(note)
        if probe or not far.code:
            return
        if self.first_failure is None:
            self.first_failure = far.code
        if self._spec.on_failure == "stop" and not self.closing:
            self._note(f"{far.task.name} has failed: the others are ended, too")
            self._kill_at = time.monotonic() + self._spec.grace
            self._leave(signal.SIGTERM)

    def _interrupted(self) -> None:
        """Hand a Ctrl-C on; of two, launchers kill."""
        self.interrupts += 1
        self._leave(signal.SIGINT)

    def _leave(self, number: int) -> None:
        """Start nothing more, and send a signal to all that run."""
        self.closing = True
        for far in self._running:
            far.send(number)

    def _kill_late(self) -> None:
        """Kill who was asked to end and did not: launchers do that at their second Ctrl-C."""
        if self._kill_at and time.monotonic() > self._kill_at:
            self._leave(signal.SIGINT)

    def release(self) -> None:
        """Give the places back that were used last: what comes next asks for others."""
        for group in self._groups:
            self._ray.util.remove_placement_group(group)
        self._groups.clear()

    def close(self) -> None:
        """Give everything back, whatever still runs: all are asked to end at once."""
        left = self._running
        asked = [answer for far in left if (answer := far.leaving()) is not None]
        if asked:
            self._ray.wait(asked, num_returns=len(asked), timeout=CLOSE_S)
        for far in left:
            far.kill()
        self.release()
