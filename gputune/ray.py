"""For users of Ray Tune: a callback that records every trial, and adds to its results what gputune has found.

    from gputune.ray import RecordTrials
    tuner = tune.Tuner(train, run_config=tune.RunConfig(callbacks=[RecordTrials()]))
    tuner.fit()[0].metrics["gputune"]  # {"device_busy": 0.41, "finding": "few-workers", …}

Nothing in the trainable changes. Ray is imported when the class is asked for, and not before; docs/sweep.md has the
rest.
"""

import importlib
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from gputune.host import clusters
from gputune.host.clusters import RayNode
from gputune.launch import folders
from gputune.launch.descriptors import say
from gputune.recording.about import NewerRun
from gputune.recording.folder import FINDINGS
from gputune.report.kept import decoded
from gputune.report.told import NAMES as FLAT
from gputune.report.told import told_of as told_of  # noqa: PLC0414 - its public name here, too
from gputune.verdict import living
from gputune.watching.beside import RecorderActor, arrive

KEY = "gputune"  # in a trial's results
# What is told of a trial: the same names from its first result on, for a table's head is written then.
NAMES = (*FLAT, "recording", "why")
END_S = 60.0  # s that the last recorders get to say what they have found
LOOK_S = 0.1  # s between looks, where one waits


@dataclass(slots=True)
class Watched:
    """One trial, and what is known of it."""

    trial: Any
    arrived: Any = None  # the answer of its process that is awaited
    host: Any = None
    begun: Any = None  # the answer of the recorder's host that is awaited
    number: int | None = None  # of the recording, there
    news: Any = None
    news_at: float = 0.0
    left: bool = False  # its recorder was asked to leave
    over: bool = False  # all is known
    told: dict[str, object] = field(default_factory=lambda: dict.fromkeys(NAMES))


class TrialRecorder:
    """What the callback does. `folder`: where recordings go, `gputune-runs/<time>-tune` without one."""

    def __init__(self, folder: str | None = None, *, stacks: bool = False) -> None:
        self._wish = folder
        self._stacks = stacks
        self._forget()

    def _forget(self) -> None:
        self._folder: Path | None = None
        self._watched: dict[str, Watched] = {}
        self._hosts: dict[str, Any] = {}
        self._said = False

    def __getstate__(self) -> dict[str, object]:
        """Return what is kept where Tune keeps its callbacks: what was wished, and no handle."""
        return {"wish": self._wish, "stacks": self._stacks}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._wish, self._stacks = state["wish"], state["stacks"]
        self._forget()

    # what Tune calls

    def setup(self, *_: object, **__: object) -> None:
        """Make the folder of the recordings."""
        if self._folder is None:
            try:
                self._folder = Path(folders.chosen(self._wish) if self._wish else folders.fresh(("tune",)))
            except Exception as error:  # noqa: BLE001 - trials are worth more than their recordings
                self._trouble(f"trials are not recorded: {error}")

    def on_trial_start(self, iteration: int, trials: Any, trial: Any, **_: object) -> None:  # noqa: ARG002 - Tune's
        """Let the guest into the trial's process before it begins."""
        self._guarded(self._start, trial)

    def on_trial_result(
        self,
        iteration: int,  # noqa: ARG002 - Tune's
        trials: Any,  # noqa: ARG002 - as above
        trial: Any,
        result: dict[str, object],
        **_: object,
    ) -> None:
        """Add what is known by now, for loggers that write each result as it comes."""
        watched = self._watched.get(trial.trial_id)
        result[KEY] = dict(watched.told) if watched is not None else dict.fromkeys(NAMES)

    def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **_: object) -> None:  # noqa: ARG002 - as above
        """Have its recorder leave, and say what it has found."""
        self._guarded(self._leave, trial)

    on_trial_error = on_trial_complete

    def on_step_end(self, iteration: int, trials: Any, **_: object) -> None:  # noqa: ARG002 - as above
        """Take what recorders have told, without waiting."""
        self._guarded(self._look)

    def on_experiment_end(self, trials: Any, **_: object) -> None:  # noqa: ARG002 - as above
        """Wait for the last recorders, and let go of everything."""
        self._guarded(self._finish)

    # one trial

    def _start(self, trial: Any) -> None:
        actor = trial.temporary_state.ray_actor
        if actor is None or self._folder is None:
            return
        self._watched[trial.trial_id] = Watched(trial, arrived=actor.__ray_call__.remote(_arrive))

    def _leave(self, trial: Any) -> None:
        watched = self._watched.get(trial.trial_id)
        if watched is None or watched.left or watched.over:
            return
        until = time.monotonic() + 10.0  # s that a trial which is over already gets to tell where it was
        while watched.number is None and not watched.over and time.monotonic() < until:
            self._follow(watched)
            time.sleep(0 if watched.number is not None else LOOK_S)
        watched.left = True
        if watched.number is None:
            self._end(watched, "its process ended before it could be recorded")
        else:
            watched.host.leave.remote(watched.number)

    def _look(self) -> None:
        for watched in self._watched.values():
            if not watched.over:
                self._follow(watched)

    def _follow(self, watched: Watched) -> None:
        """Take one answer of a trial's, if it is there, and ask for the next."""
        if watched.arrived is not None and _is_there(watched.arrived):
            answer, watched.arrived = watched.arrived, None
            self._arrived(watched, answer)
        elif watched.begun is not None and _is_there(watched.begun):
            answer, watched.begun = watched.begun, None
            watched.number = int(_ray().get(answer))
        elif watched.number is not None:
            self._hear(watched, watched.number)

    def _arrived(self, watched: Watched, answer: Any) -> None:
        try:
            node, pid, rings = _ray().get(answer)
        except Exception as error:  # noqa: BLE001 - its process is gone
            self._end(watched, clusters.first_line(error))
            return
        watched.host = self._host(str(node))
        watched.begun = watched.host.begin.remote(pid, rings, stacks=self._stacks)

    def _hear(self, watched: Watched, number: int) -> None:
        if watched.news is not None and _is_there(watched.news):
            answer, watched.news = watched.news, None
            told = _ray().get(answer)
            if isinstance(told, dict):
                self._found(watched, told)
            elif isinstance(told, bytes) and told:
                with suppress(msgspec.DecodeError):
                    watched.told.update(told_of(living.decoded(told).whole))
        # 2.0 s between two looks at what is known of a trial that goes on
        elif watched.news is None and time.monotonic() - watched.news_at > (LOOK_S if watched.left else 2.0):
            watched.news_at = time.monotonic()
            ask = watched.host.found if watched.left else watched.host.live
            watched.news = ask.remote(number)

    def _found(self, watched: Watched, files: Mapping[str, bytes]) -> None:
        """Keep a recording, and add what was found to the trial's results."""
        if FINDINGS in files:
            with suppress(msgspec.DecodeError, NewerRun):
                watched.told.update(told_of(decoded(files[FINDINGS], self._folder or Path())))
        if self._folder is not None:
            watched.told["recording"] = str(kept(self._folder, str(watched.trial), files))
        self._end(watched, "" if FINDINGS in files else "its recorder left without a verdict")

    def _end(self, watched: Watched, why: str) -> None:
        watched.over = True
        watched.told["why"] = why or None
        watched.trial.last_result[KEY] = dict(watched.told)

    def _host(self, node: str) -> Any:
        """Return the actor on a node; it takes no resource there."""
        if node not in self._hosts:
            ray = _ray()
            pinned = clusters.pinned(ray, RayNode(id=node, name=node))
            self._hosts[node] = ray.remote(RecorderActor).options(num_cpus=0, scheduling_strategy=pinned).remote()
        return self._hosts[node]

    def _finish(self) -> None:
        for watched in list(self._watched.values()):
            self._leave(watched.trial)
        until = time.monotonic() + END_S
        while time.monotonic() < until and any(not watched.over for watched in self._watched.values()):
            self._look()
            time.sleep(LOOK_S)
        for host in self._hosts.values():
            with suppress(Exception):
                _ray().get(host.close.remote(), timeout=END_S)
            _ray().kill(host)
        self._hosts.clear()

    # what goes wrong

    def _guarded(self, do: Any, *arguments: Any) -> None:
        """Do it; what fails is said once, and the trials go on."""
        try:
            do(*arguments)
        except Exception as error:  # noqa: BLE001 - trials are worth more than their recordings
            self._trouble(f"a trial is not recorded: {clusters.first_line(error)}")

    def _trouble(self, text: str) -> None:
        if not self._said:
            self._said = True
            say(f"gputune: {text}\n")


def kept(folder: Path, name: str, files: Mapping[str, bytes]) -> Path:
    """Write the files of a recording into a folder of its own, and return that. Names never lead out of it."""
    place = folder / (folders.name_of((name,)) or "trial")
    place.mkdir(mode=0o700, exist_ok=True)
    for file, data in files.items():
        target = place / file
        if place.resolve() not in target.resolve().parents:
            continue
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(0o600)
    return place


def _arrive(_trainable: object) -> tuple[str, int, str]:
    """Run in the trial's process: let the guest in; return where it is."""
    pid, rings = arrive()
    return str(_ray().get_runtime_context().get_node_id()), pid, rings


def _is_there(reference: Any) -> bool:
    return bool(_ray().wait([reference], timeout=0)[0])


def _ray() -> Any:
    return importlib.import_module("ray")


def __getattr__(name: str) -> Any:
    """Make `RecordTrials` when it is asked for: a class of ours that is one of Tune's callbacks too."""
    if name != "RecordTrials":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        base = importlib.import_module("ray.tune").Callback
    except ImportError:
        raise ImportError("Ray Tune is not installed in this environment: pip install 'gputune[ray]'") from None
    made = type(base)(name, (TrialRecorder, base), {"__module__": __name__, "__doc__": TrialRecorder.__doc__})
    globals()[name] = made
    return made
