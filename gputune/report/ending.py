"""How a run ended, in words: the signal behind an exit status, and what such an end often means."""

import signal

from gputune.core.errors import BY_SIGNAL
from gputune.core.figures import duration, size
from gputune.core.hygiene import clean
from gputune.verdict.document import ErrorRow, Verdict

NAME, TEXT = 60, 200  # characters of a place, and of a message
OFTEN = {  # what a signal that nobody sent by hand stands for, as a rule
    "SIGKILL": "often the out-of-memory killer, or a batch system",
    "SIGBUS": "often a full /dev/shm, through which workers hand over batches",
    "SIGXCPU": "its limit of CPU time",
}


def status(code: int) -> str:
    """Return an exit status with the signal that it stands for: `exit status 137 (SIGKILL)`."""
    name = _signal(code)
    return f"exit status {code} ({name})" if name else f"exit status {code}"


def failed(verdict: Verdict) -> str:
    """Return what a command with an exit status did: it `failed with status 2`, or `was ended by SIGKILL`."""
    name = _signal(verdict.exit_code or 0)
    return f"was ended by {name}" if name else f"failed with status {verdict.exit_code}"


def error(verdict: Verdict) -> str:
    """Return the error that ended the command; nothing where none is known, or another sentence has it."""
    row = verdict.error
    told = [each.pid for each in verdict.out_of_memory if each.ended]
    told += [each.pid for each in verdict.failures if each.ended]
    if row is None or row.pid in told:
        return ""
    return f"ended by {clean(row.what, TEXT)}{_where(row)}{_growth(verdict)}"


def _where(row: ErrorRow) -> str:
    where = f", at {clean(row.where, NAME)}" if row.where else ""
    rank = f" on rank {row.rank}" if row.rank is not None else ""
    more = f"; {row.others} more process{'es' if row.others > 1 else ''} ended with an error" if row.others else ""
    return f"{where}{rank}{more}"


def _growth(verdict: Verdict) -> str:
    """Return what had grown before the host's memory ran out."""
    row = verdict.host_growth
    if row is None:
        return ""
    what = "the training process's own memory" if row.of == "training" else "the memory of each worker"
    grown = f"from {size(row.first_bytes)} to {size(row.last_bytes)}"
    pace = f", {size((row.last_bytes - row.first_bytes) / row.seconds * 60)} a minute" if row.seconds else ""
    return f"; {what} had grown {grown} in the {duration(row.seconds)} before{pace}"


def cause(verdict: Verdict) -> str:
    """Return what is known of an untimely end, or what it often is; nothing where neither is worth a line."""
    if verdict.oom_kills:
        count = "a process" if verdict.oom_kills == 1 else f"{verdict.oom_kills} processes"
        where = "this machine" if verdict.oom_kills_where == "machine" else "the run's control group"
        grown = "" if error(verdict) else _growth(verdict)
        return f"the kernel killed {count} of {where} for want of memory during the run{grown}"
    name = _signal(verdict.exit_code or 0)
    return f"{name} ({verdict.exit_code}): {OFTEN[name]}{_growth(verdict)}" if name in OFTEN else ""


def _signal(code: int) -> str:
    try:
        return signal.Signals(code - BY_SIGNAL).name
    except ValueError:
        return ""
