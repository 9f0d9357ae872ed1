"""What is to be proved: a recorded run, one of its findings, and whether gputune can make its change by itself."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gputune.core.errors import BadUsage, GputuneError
from gputune.core.finding import Finding
from gputune.core.hygiene import MASK, clean
from gputune.core.sample import Json
from gputune.features import Features, Loader
from gputune.launch.folders import is_kernel
from gputune.model.prediction import known
from gputune.recording.about import read
from gputune.report.rejudging import relive
from gputune.verdict import judging
from gputune.verdict.advised import AT, parted
from gputune.verdict.arbitration import is_told, loader_of

BEST = "top"  # instead of an id: the best finding


class NothingToProve(GputuneError):  # noqa: N818 - named for what happened
    """The run has no finding that predicts anything."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"nothing was found in `{folder}` that predicts a gain",
            hint=f"`gputune prove {folder} --ceiling` measures what faster batches could bring at most",
        )


class Switched(GputuneError):  # noqa: N818 - as above
    """Settings were tried while the run went on: it was not as the script is, and not as any finding's change."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"the loader of `{folder}` was switched while it ran (`--tune`), and a proof compares runs that were not",
            hint="record one: `gputune watch -- CMD`",
        )


class NoSuchFinding(BadUsage):
    """The run has no finding of that name."""

    def __init__(self, name: str, found: Sequence[Finding]) -> None:
        twice = [finding.id for finding in found]
        ids = ", ".join(f"`{f.id}{AT + f.where if twice.count(f.id) > 1 else ''}`" for f in found)
        super().__init__(f"`{clean(name, 60)}` was not found in this run", hint=f"it has {ids}")


class NotOurs(BadUsage):
    """The change is one of the script, which gputune does not make."""

    def __init__(self, asked: "ReplayedRun", finding: Finding) -> None:
        where = f" at {clean(finding.where, 60)}" if finding.where else ""
        other = f"{str(asked.folder).rstrip('/')}-changed"
        again = shlex.join(asked.command)
        super().__init__(
            f"`{finding.id}` is mended in the script{where}, which gputune does not change: {clean(finding.do)}",
            hint=(
                "change it, then compare:\n"
                f"  gputune watch --out {shlex.quote(other)} -- {clean(again)}\n"
                f"  gputune prove {shlex.quote(str(asked.folder))} {finding.id} --against {shlex.quote(other)}"
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedRun:
    """A recorded run to be run again. The last of its findings may be such as are only worth a try."""

    folder: Path
    command: tuple[str, ...]
    cwd: str
    run: Features
    findings: tuple[Finding, ...]

    def finding(self, name: str) -> Finding:
        """Return the finding called `name`, or the best one. Raises NothingToProve or NoSuchFinding.

        `few-workers@train.py:12` is the one at that place, where several have the id; without a place the best of them.
        """
        found = [f for f in self.findings if not is_told(f)]
        if not found:
            raise NothingToProve(self.folder)
        if name == BEST:
            return found[0]
        identity, place = parted(name)
        chosen = next((f for f in found if f.id == identity and place in {"", f.where}), None)
        if chosen is None:
            raise NoSuchFinding(name, found)
        return chosen

    def rules(self, finding: Finding) -> list[Mapping[str, Json]]:
        """Return what can be set of the finding's change, as the guest's `override.py` takes it. Raises NotOurs."""
        if not finding.settable:
            raise NotOurs(self, finding)
        rule: dict[str, Json] = {"set": dict(finding.settable), "duplicates": finding.effect == "may-duplicate"}
        loader = loader_of(self.run, finding)
        return [{**rule, "where": loader.where} if loader else rule]

    def loader(self, finding: Finding | None) -> Loader | None:
        """Return the training loader that a finding is about; the most waited-for where there is no finding."""
        if finding is not None:
            return loader_of(self.run, finding)
        loaders = [loader for p in self.run.processes for loader in p.loaders if loader.training]
        return max(loaders, key=lambda loader: loader.wait_total, default=None)

    def other_loops(self, loader: Loader | None) -> float:
        """Return the share of the loop that lies in rounds of other loaders, before or after those of this one."""
        if loader is None:
            return 0.0
        found = [outlook for process in self.run.processes for outlook in known(self.run, process)]
        return next((o.other_loops / o.whole for o in found if o.loader.where == loader.where and o.whole > 0), 0.0)


def asked(folder: Path, command: Sequence[str] = ()) -> ReplayedRun:
    """Return what is known of a recorded run. `command` is what to run instead of what the recording has.

    Raises Switched, and as reading a recording does.
    """
    story = read(folder)
    tuned = story.get("tuned")
    if isinstance(tuned, dict) and tuned.get("tries"):
        raise Switched(folder)
    run, _guests = relive(folder)
    perhaps: list[Finding] = []
    found = judging.judge(run, perhaps=perhaps)
    cwd = story.get("cwd")
    return ReplayedRun(
        folder=folder,
        command=tuple(command) or run.command,
        cwd=cwd if isinstance(cwd, str) else "",
        run=run,
        findings=(*found, *perhaps),
    )


def runnable(what: ReplayedRun) -> ReplayedRun:
    """Return it if its command can be run again. Raises GputuneError where it cannot."""
    if is_kernel(what.command):
        raise GputuneError(
            f"`{what.folder}` was recorded in a notebook, which gputune cannot run again",
            hint=f"change the cell, run it under `%%gputune --out OTHER`, then `gputune compare {what.folder} OTHER`",
        )
    if any(MASK in word for word in what.command):
        raise GputuneError(
            "the command of this run had secrets in it, which were not recorded",
            hint=f"give it again: `gputune prove {what.folder} ID -- CMD`",
        )
    if not what.command or not Path(what.cwd or ".").is_dir():
        raise GputuneError(
            f"the run's folder `{clean(what.cwd)}` is not there any more",
            hint="run it again with `gputune watch` where it is now",
        )
    return replace(what, cwd=what.cwd or ".")
