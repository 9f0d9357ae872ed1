"""The same tasks on the user's Ray cluster, where one card is not enough: `gputune share --ray ADDRESS`.

One copy runs alone first, with a whole GPU to itself, and is ended. What it needed becomes the fraction of a GPU, the
CPUs and the memory that each process asks for (`fractions.py`), in one placement group with a bundle for each that runs
at once. Each process has a launcher of its own on its node (`hosted.py`); logs come here while they are written.
"""

import shlex
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from gputune.core.errors import GputuneError
from gputune.core.figures import size
from gputune.core.hygiene import clean, mask
from gputune.core.pace import Pace
from gputune.experiment.living import end_with_us
from gputune.experiment.remote import LOOK_S, Heard, Holder, Lost
from gputune.host import clusters
from gputune.launch import folders, signals
from gputune.launch.descriptors import say
from gputune.sharing import preparing
from gputune.sharing.closing import verdict
from gputune.sharing.far import RemoteTask
from gputune.sharing.farpack import FarPack
from gputune.sharing.farrefusals import ClusterTooSmall, FarCopyFailed, NoNeed, check
from gputune.sharing.fitting import Need, Probed, Room
from gputune.sharing.fractions import Portion, Whole, ask, best, refusal
from gputune.sharing.hosted import CARD, looked_at
from gputune.sharing.living import kept
from gputune.sharing.spec import AUTO, Spec, TaskSpec, total
from gputune.sharing.summary import shown
from gputune.sharing.tasks import Task, tasks
from gputune.sharing.window import WindowMeans
from gputune.verdict.packed import FILE, Packed, ProcRow

CARD_S = 60.0  # s that a card of the cluster gets to say what it has, a new worker of Ray included


class Sharing:
    """One packed run in a cluster. `run` it once, and `close` it whatever comes."""

    def __init__(self, ray: Any, spec: Spec, folder: str, said: Sequence[str]) -> None:
        self.notes = list(said)
        self._ray = ray
        self._spec = spec
        self._folder = folder
        self._whole = whole_of(ray)
        self._probed = Probed(need=Need(), room=Room())
        self._wish = Portion(gpu=0.0, cpus=1.0, memory=None, at_once=1)
        self._pack = FarPack(ray, spec, self._note, self._show)
        self._began = time.monotonic()

    def run(self) -> int:
        """Run everything; return the exit code to leave with, negative for a signal. Raises GputuneError."""
        if not self._whole.gpus:
            self._note("no node of the cluster has a GPU: they share its CPUs")
        self._probed = self._needed()
        if self._pack.closing:
            return -signal.SIGINT
        self._wish, found = self._planned(self._probed)
        wish = self._wish
        self._note(f"each asks for {wish.words()}; {wish.at_once} of {len(found)} run at once")
        members = [RemoteTask(task, self._ray) for task in found]
        self._pack.serve(members, wish.bundle(), wish.at_once)
        code = self._status(members)
        made = document([far.row for far in members], self._probed, wish, self._whole)
        self._speak(
            msgspec.structs.replace(
                made,
                notes=self.notes,
                exit_code=code,
                wall_s=time.monotonic() - self._began,
            )
        )
        return code

    # what one needs

    def _needed(self) -> Probed:
        """Return what one copy needs: as it was said, else as it was seen. Raises GputuneError."""
        spec = self._spec
        if len(spec.jobs) > 1 or spec.trial <= 0:
            return self._given(max(spec.jobs, key=lambda job: job.memory or 0))
        far = RemoteTask(self._trial(), self._ray)
        self._note("one copy runs alone, with a GPU to itself" if self._whole.gpus else "one copy runs alone")
        procs = max(1, spec.at_once or total(spec.jobs, 0))
        bundle = {"CPU": self._alone_cpus(procs)}
        if self._whole.gpus:
            bundle["GPU"] = 1.0
        self._pack.serve([far], bundle, 1, probe=True)
        self._pack.release()
        if self._pack.closing:
            return Probed(need=Need(), room=Room())
        if far.probed is None:
            raise FarCopyFailed(far)
        return self._seen(far.probed)

    def _alone_cpus(self, procs: int) -> float:
        """Return the CPUs that the copy which runs alone asks for: what it would have in the pack, on one node."""
        most = max((cpus for cpus, gpus in self._whole.nodes if gpus or not self._whole.gpus), default=1.0)
        return min(most, max(1.0, self._whole.cpus // procs))

    def _trial(self) -> Task:
        """Return the task of the copy that is only measured: the first of as many as there are to be."""
        spec = self._spec
        job = msgspec.structs.replace(spec.jobs[0], name="trial", count=1)
        (task,) = tasks(msgspec.structs.replace(spec, jobs=(job,)))
        return replace(task, of=max(1, total(spec.jobs, 0)))

    def _seen(self, probed: Probed) -> Probed:
        """Say what was seen. Raises NoNeed where there are cards and nothing is known of what one takes of them."""
        need, room = probed.need, probed.room
        if self._whole.gpus and need.device is None and need.busy is None:
            raise NoNeed("the driver told nothing of the copy that ran alone")
        parts = [f"takes {size(need.device)} of {room.name}"] if need.device else []
        parts += [f"keeps it {100 * need.busy:.0f}% busy"] if need.busy is not None else []
        parts += [f"takes {size(need.host)} of its node's memory"] if need.host else []
        parts += [f"uses {need.cores:.1f} CPUs"] if need.cores is not None else []
        self._note(f"one {', '.join(parts)}") if parts else None
        return probed

    def _given(self, job: TaskSpec) -> Probed:
        """Return what was said of the need: without a trial nothing else is known. Raises NoNeed."""
        room = Room(name="a GPU")
        if self._whole.gpus:
            if job.memory is None:
                several = len(self._spec.jobs) > 1
                raise NoNeed("several jobs are not tried one by one" if several else "nothing was tried (`--trial 0`)")
            room = self._card()
        return Probed(need=Need(device=job.memory, host=job.host_memory, given=True), room=room)

    def _card(self) -> Room:
        """Return what a card of the cluster has, as far as its driver tells. Raises NoNeed where no card answers."""
        held, until = Holder(self._ray), time.monotonic() + CARD_S
        held.start(looked_at(), {"CPU": 0, "GPU": 1}, "DEFAULT")
        try:
            news = Heard()
            while not news.over:
                if not self._ray.wait([held.awaited()], timeout=max(0.0, until - time.monotonic()))[0]:
                    raise NoNeed(f"no card answered in {CARD_S:.0f} s")
                news = held.took()
                time.sleep(LOOK_S)
        except Lost as lost:
            raise NoNeed(f"no card answered ({lost})") from None
        finally:
            held.let_go(held.closing() if held.has_begun else None)
        if CARD not in news.files:
            self._note("the driver of a card told nothing of its memory: what was said is not held against it")
            return Room(name="a GPU")
        told = msgspec.json.decode(news.files[CARD])
        return Room(name=clean(str(told[0]), 64), device=told[1], device_free=told[1])

    # how many

    def _planned(self, probed: Probed) -> tuple[Portion, list[Task]]:
        """Return what each asks for, and all tasks. Raises ClusterTooSmall."""
        spec, whole = self._spec, self._whole
        asked = total(spec.jobs, 0)
        wish = ask(probed, whole, asked, at_once=spec.at_once)
        says = refusal(probed, whole, wish.at_once)
        if says and asked and not spec.queue:
            raise ClusterTooSmall(says)
        if says:
            held = [n for n in range(1, wish.at_once) if not refusal(probed, whole, n)]
            if not held:
                raise ClusterTooSmall(refusal(probed, whole, 1))
            wish = ask(probed, whole, asked, at_once=held[-1])
        if asked:
            return wish, tasks(spec)
        if not spec.at_once:
            why = "memory is the limit" if says else best(probed, whole)[1]
            self._note(f"{wish.at_once} at once should do most ({why})")
        return wish, tasks(spec, count=wish.at_once)

    # the end

    def _status(self, members: Sequence[RemoteTask]) -> int:
        if self._pack.first_failure is not None:
            return self._pack.first_failure
        if all(far.state == "ended" for far in members):
            return 0
        return -signal.SIGINT if self._pack.interrupts else 1

    def _note(self, text: str) -> None:
        self.notes.append(clean(text, 400))
        say(f"gputune: {clean(text, 400)}\n")

    def _show(self, pack: Sequence[RemoteTask], probe: bool) -> None:  # noqa: FBT001 - a callback's
        """Keep how they are by now, for who looks at the run folder."""
        rows = [msgspec.structs.replace(far.row, trial=probe) for far in pack]
        made = document(rows, self._probed, self._wish, self._whole)
        phase, seconds = "alone" if probe else "packed", time.monotonic() - self._began
        self._keep(
            msgspec.structs.replace(
                made, running=True, phase=phase, verdict="", notes=self.notes, exit_code=None, wall_s=seconds
            )
        )

    def _keep(self, made: Packed) -> str:
        """Write the document into the run folder; return why that was not possible."""
        return kept(self._folder, made) if self._folder else ""

    def _speak(self, made: Packed) -> None:
        """Print the summary, and keep the document."""
        for trouble in (*filter(None, [self._keep(made)]), *shown(made, self._spec)):
            say(f"gputune: {trouble}\n")

    def refused(self, error: GputuneError) -> None:
        """Have the document, where there is one by now, say how it has ended."""
        if self._folder and Path(self._folder, FILE).exists():
            made = document([], self._probed, self._wish, self._whole)
            notes, seconds = [*self.notes, clean(str(error.args[0]), 400)], time.monotonic() - self._began
            self._keep(msgspec.structs.replace(made, verdict="", notes=notes, exit_code=error.status, wall_s=seconds))

    def close(self) -> None:
        """Give everything back."""
        self._pack.close()
        self._ray.shutdown()


def whole_of(ray: Any) -> Whole:
    """Return what the cluster has in all."""
    has, nodes = ray.cluster_resources(), clusters.nodes(ray)
    return Whole(
        gpus=sum(node.gpus for node in nodes),
        cpus=sum(node.cpus for node in nodes) or 1.0,
        memory=float(has.get("memory", 0)),
        nodes=tuple((node.cpus, node.gpus) for node in nodes),
    )


def document(rows: Sequence[ProcRow], probed: Probed, wish: Portion, whole: Whole) -> Packed:
    """Return the document of a run. `together` is the sum of each one's mean pace, where all ran at once."""
    paces = [Pace(row.samples_per_s, row.unit) for row in rows if row.samples_per_s is not None]
    best = None
    if len(rows) == wish.at_once == len(paces) and len({pace.unit for pace in paces}) == 1:
        shortest = min((row.wall_s for row in rows if row.wall_s is not None), default=0.0)
        best = WindowMeans(len(rows), shortest, Pace(sum(pace.rate for pace in paces), paces[0].unit), None, None)
    alone = Pace(probed.rate, probed.unit) if probed.rate else None
    gain = best.pace.rate / alone.rate if best and alone and best.pace.unit == alone.unit else None
    cards = int(whole.gpus)
    says = verdict(alone, best, gain, "", has_card=bool(cards))
    return Packed(
        procs=list(rows),
        mps=False,
        alone=alone.rate if alone else None,
        together=best.pace.rate if best else None,
        gain=gain,
        unit=best.pace.unit if best else alone.unit if alone else "",
        at_once=wish.at_once,
        device=f"{cards} {'GPU' if cards == 1 else 'GPUs'} of a cluster" if cards else "",
        verdict=says.replace("there is no GPU here", "the cluster has no GPU"),
    )


def share(address: str, spec: Spec, out: str | None, log_dir: str | None) -> int:
    """Run the tasks of a spec in a cluster, to their end; return the status. Raises GputuneError."""
    check(spec)
    ray = clusters.connect(address)
    end_with_us()
    try:
        folder, logs, said = preparing.places(spec, out, log_dir)
    except GputuneError:
        ray.shutdown()
        raise
    sharing = Sharing(ray, msgspec.structs.replace(spec, folder=folder, logs=logs), folder, said)
    try:
        code = sharing.run()
    except GputuneError as error:
        sharing.refused(error)
        folders.remove_empty(folder)
        raise
    finally:
        sharing.close()
    if code < 0:
        sys.stdout.flush()
        signals.die_of(-code)
    return code if code >= 0 else 128 - code  # only where the kernel refuses


def dry(address: str, spec: Spec) -> str:
    """Return the plan in words: the cluster, and every command. Nothing is started."""
    check(spec)
    ray = clusters.connect(address)
    try:
        lines = [
            f"node {node.name}: {node.cpus:g} CPUs, {node.gpus:g} GPUs{f' ({node.kind})' if node.kind else ''}"
            for node in clusters.nodes(ray)
        ]
    finally:
        ray.shutdown()
    for task in tasks(spec):
        lines += [f"{task.name}: {clean(shlex.join(mask(task.argv)), 400)}", f"  log {task.log}"]
    if any(job.count == AUTO for job in spec.jobs):
        lines.append("how many: as many as one copy's memory and busy share allow on all GPUs")
    if spec.trial > 0 and len(spec.jobs) == 1:
        lines.append("one copy runs alone first, with a GPU to itself: what each asks for comes from what that needs")
    return "\n".join(lines)
