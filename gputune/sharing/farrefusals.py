"""Why a packed run in a cluster is not begun, or not gone on with: what it decides by itself, what does not fit."""

import re

from gputune.core.errors import BadUsage, GputuneError
from gputune.core.hygiene import clean
from gputune.sharing.far import RemoteTask
from gputune.sharing.spec import Spec

OUTPUT = re.compile(r"its output is in `[^`]*`")


class NotWithRay(BadUsage):
    """Something was asked for that a cluster decides by itself."""

    def __init__(self, option: str, why: str) -> None:
        super().__init__(f"`{option}` does not go with `--ray`: {why}", hint=f"leave `{option}` out")


class ClusterTooSmall(BadUsage):
    """More processes were asked for than the cluster holds at once."""

    def __init__(self, says: str) -> None:
        super().__init__(says, hint="fewer; or `--queue`, with which the others wait their turn")


class NoNeed(BadUsage):
    """Nobody knows what one of them needs."""

    def __init__(self, why: str) -> None:
        super().__init__(f"what one process needs is not known: {why}", hint="say it, like `--memory 6GB`")


class FarCopyFailed(GputuneError):  # noqa: N818 - named for what happened
    """The copy that was to be measured has come to nothing: its launcher's own words, with the log as it lies here."""

    def __init__(self, far: RemoteTask) -> None:
        says, _, rest = far.said.partition("\n\nhint: ")
        errors = [line.removeprefix("error: ") for line in says.splitlines() if line.startswith("error: ")]
        why = errors[-1] if errors else far.why or "a copy that was to be measured has come to nothing"
        there = f"its output is in `{far.task.log}`"
        hint = OUTPUT.sub(lambda _: there, (rest.splitlines() or [""])[0])
        super().__init__(clean(why, 400), hint=clean(hint, 400) or there)
        self.status = far.status or GputuneError.status


def check(spec: Spec) -> None:
    """Raise NotWithRay for what a cluster decides by itself."""
    weighted = any(job.weights or job.weight != 1 for job in spec.jobs)
    for option, asked, why in (
        ("--gpu", bool(spec.gpus), "Ray chooses the cards"),
        ("--mps on", spec.mps == "on", "a daemon would have to run on each node"),
        ("--weights", weighted, "they are parts of a card under MPS"),
        ("--own-dirs", spec.own_dirs, "the folders would lie on other machines"),
    ):
        if asked:
            raise NotWithRay(option, why)
