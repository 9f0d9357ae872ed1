"""Why a packed run is not gone on with: what does not fit, a task that does not take its flags, a copy that fails."""

import re

from gputune.core.errors import BadUsage, GputuneError
from gputune.core.hygiene import clean
from gputune.launch.output import tail
from gputune.sharing.member import LOG_END_B, Member
from gputune.sharing.pack import WORDS, last_line

# What parsers of arguments call an option that they do not know. A value that is not good, or a `keyword argument` of
# a Python call, is none: such a task has taken the flag.
REFUSES = (
    rb"(?:(?:unrecogni[sz]ed|unknown|unexpected|no such|illegal|invalid|bad)"
    rb" (?:(?!keyword)[\w-]+ ){0,2}(?:option|argument|arg|flag|parameter|switch)s?\b"
    rb"|not recogni[sz]ed|not defined|not used by|could not consume arg)"
)
GOES_ON = re.compile(rb"ignor|warn", re.IGNORECASE)  # a task that minds its flags no more than that ended otherwise


class DoesNotFit(BadUsage):
    """More copies were asked for than fit."""

    def __init__(self, says: str, fits: int) -> None:
        hint = f"`--procs {fits}` fits; with `--queue` the others wait their turn" if fits else "not even one fits"
        super().__init__(says, hint=hint)


class NoFlags(BadUsage):
    """The task does not know the flags that it was given."""

    def __init__(self, member: Member, said: str) -> None:
        super().__init__(
            f"the task does not take the flags that tell it its number: {said}",
            hint=f"`--no-index-args` leaves them out (the variables stay); its output is in `{member.task.log}`",
        )


class CopyFailed(GputuneError):  # noqa: N818 - named for what happened
    """A copy that was to be measured has failed."""

    def __init__(self, member: Member) -> None:
        said = last_line(member)
        super().__init__(
            f"a copy that was to be measured left with status {member.code}{f': {said}' if said else ''}",
            hint=f"its output is in `{member.task.log}`; `--procs N` starts a number of your own",
        )


def refusing(member: Member, *flags: str) -> str:
    """Return the line in which a task that has failed says that it does not know one of these flags, nothing without.

    Its status says nothing, and neither does the flag alone: a usage text, a path or what it was called with may name
    it, and then the failure is the task's own.
    """
    told = [_naming(flag) for flag in flags]
    lines = [line for line in tail(member.task.log, LOG_END_B).splitlines() if not GOES_ON.search(line)]
    line = next((line for line in lines if any(pattern.search(line) for pattern in told)), b"")
    return clean(line.decode("utf-8", "replace").strip(), WORDS)


def _naming(flag: str) -> "re.Pattern[bytes]":
    """Return what finds a line that refuses a flag: it is there as it was given, or named right after those words.

    Some parsers write `-` for `_`, and some leave the dashes in front out.
    """
    dashes, name = flag[: -len(flag.lstrip("-"))].encode(), flag.lstrip("-").encode()
    loose = b"[-_]".join(re.escape(part) for part in re.split(rb"[-_]", name)) + rb"(?![\w-])"
    whole = rb"(?<![\w-])" + dashes + loose
    either = b"|".join((REFUSES + rb"\W*" + loose, REFUSES + b".*" + whole, whole + b".*" + REFUSES))
    return re.compile(either, re.IGNORECASE)
