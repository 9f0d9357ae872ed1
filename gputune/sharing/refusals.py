"""Why a packed run is not gone on with: what does not fit, a task that does not take its flags, a copy that fails."""

import re

from gputune.errors import BadUsage, GputuneError
from gputune.sharing.member import Member, tail
from gputune.sharing.pack import last_line

USAGE = 2  # status of argparse and its like
REFUSES = re.compile(rb"unrecogni[sz]ed|not recogni[sz]ed|unknown|unexpected|invalid|no such", re.IGNORECASE)


class DoesNotFit(BadUsage):
    """More copies were asked for than fit."""

    def __init__(self, says: str, fits: int) -> None:
        hint = f"`--procs {fits}` fits; with `--queue` the others wait their turn" if fits else "not even one fits"
        super().__init__(says, hint=hint)


class NoFlags(BadUsage):
    """The task does not know the flags that it was given."""

    def __init__(self, member: Member) -> None:
        super().__init__(
            f"the task does not take the flags that tell it its number: {last_line(member)}",
            hint=f"`--no-index-args` leaves them out (the variables stay); its output is in `{member.task.log}`",
        )


class TrialFailed(GputuneError):  # noqa: N818 - named for what happened
    """A copy that was to be measured has failed."""

    def __init__(self, member: Member) -> None:
        said = last_line(member)
        super().__init__(
            f"a copy that was to be measured left with status {member.code}{f': {said}' if said else ''}",
            hint=f"its output is in `{member.task.log}`; `--procs N` starts a number of your own",
        )


def refuses(member: Member, *flags: str) -> bool:
    """Return whether a task that has failed says in its last words that it does not know one of these flags.

    Parsers of arguments leave with 2; those that leave with something else say so in a line that names the flag.
    """
    said = tail(member.task.log)
    names = [name for flag in flags if (name := flag.lstrip("-").encode()) in said]
    lines = said.splitlines()
    told = any(name in line and REFUSES.search(line) for name in names for line in lines)
    return bool(names) and (told or member.code == USAGE)
