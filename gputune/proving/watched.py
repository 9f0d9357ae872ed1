"""`gputune watch --prove ID`: the watch as ever, and then the proof of what it found."""

import sys
from pathlib import Path

from gputune.core.errors import TOO_LOW
from gputune.core.isolation import own_python
from gputune.experiment.living import end_with_us
from gputune.launch import folders, signals
from gputune.launch.relay import relay
from gputune.proving.asked import BEST, NoSuchFinding, NothingToProve, asked, runnable
from gputune.proving.changing import Effort, prove
from gputune.proving.proof import keep, words
from gputune.recording import lean
from gputune.verdict.advised import advisor, parted

OPTION = "--prove"


def askable(finding: str) -> None:
    """Refuse, before anything runs, what no advisor is named. Raises NoSuchAdvisor."""
    identity, _place = parted(finding)
    if identity != BEST:
        advisor(identity)


def watch_then_prove(arguments: list[str], out: str | None, command: tuple[str, ...], finding: str) -> int:
    """Run `gputune` with these arguments (without `--prove`), then prove `finding` of that run; return the status.

    A command that fails leaves its own status, and nothing is proved then; a run without the finding has nothing to
    prove, and leaves 0. Raises GputuneError where the run cannot be kept (before anything has started), and what
    `prove` raises.
    """
    folder = Path(folders.needed(out, command, "nothing could be proved"))
    watch = [arguments[0], *([] if out else ["--out", str(folder)]), *_without_prove(arguments[1:])]
    code = relay([*own_python("from gputune.__main__ import main; main()"), *watch])
    if code < 0:
        signals.die_of(-code)
        return 128 - code  # only where the kernel refuses
    if code:
        _say("the command failed, so nothing was proved")
        return code
    lean()
    end_with_us()
    what = runnable(asked(folder, command))
    try:
        chosen = what.finding(finding)
    except (NothingToProve, NoSuchFinding) as nothing:
        _say(str(nothing.args[0]))
        return 0
    proof = prove(what, chosen, Effort(tell=_say))
    keep(proof)
    sys.stderr.write(words(proof) + "\n")
    return 0 if proof.held else TOO_LOW


def _without_prove(arguments: list[str]) -> list[str]:
    """Return the arguments without the option: the first word of that name is it, for it stands before the command."""
    at = next(n for n, word in enumerate(arguments) if word == OPTION or word.startswith(f"{OPTION}="))
    return [*arguments[:at], *arguments[at + (2 if arguments[at] == OPTION else 1) :]]


def _say(text: str) -> None:
    sys.stderr.write(f"gputune: {text}\n")
