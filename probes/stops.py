"""When the training stood still because somebody stopped it: Ctrl-Z, a batch system, a frozen container."""

from gputune.core.sample import Note, Reading, Target, Ticks, now
from gputune.core.units import NS
from gputune.host.procfs import PAGE, OpenProcFile, stat_of

METRICS = ()
PERIOD = 0.2  # s; a stop is known to begin and to end half of that sharply
LATER = 1.0  # s; a stop is made by a person or a batch system, and lasts; what else is due comes once a second, too
STOPPED = b"T"  # by a signal; `t` is stopped by a debugger, which our own py-spy is
FROZEN = (
    2 * NS
)  # ns; if we were not run for so long, and the training has used nothing meanwhile, all of us stood still


class _Process:
    """One process, held by its open `stat`."""

    def __init__(self, target: Target, pid: int) -> None:
        self.pid = pid
        self.stopped = False
        self._used = -1
        self._stat = OpenProcFile(f"{target.proc}/{pid}/stat", PAGE)

    def look(self, before: int, t: int) -> list[Reading]:
        """Return what has changed between the look `before` and now, both ns. Raises OSError if it has ended."""
        stat = stat_of(self._stat.read())
        if stat is None:
            raise ProcessLookupError(self.pid)
        used, last = stat.own, self._used
        self._used = used
        stopped = stat.state == STOPPED
        if stopped != self.stopped:
            self.stopped = stopped
            return [self._note("stopped" if stopped else "continued", (before + t) // 2)]
        if not stopped and last == used and t - before >= FROZEN:
            return [self._note("stopped", before), self._note("continued", t)]
        return []

    def ended(self, t: int) -> list[Reading]:
        """Return the end of its last stop, if it was killed in it."""
        return [self._note("continued", t)] if self.stopped else []

    def close(self) -> None:
        """Let go of its file."""
        self._stat.close()

    def _note(self, what: str, t: int) -> Note:
        return Note(-1, {"n": what, "pid": self.pid, "t": t})


def attach(target: Target) -> Ticks:
    """Read the state of each training process, before there is one the command's own. Source: proc_pid_stat(5)."""
    known: dict[int, _Process] = {}
    before = now()
    try:
        while True:
            roles = target.pids()
            wanted = [pid for pid, role in roles.items() if role == "main"] or [target.root_pid]
            for pid in wanted:
                if pid not in known:
                    _meet(known, target, pid)
            t = now()
            found: list[Reading] = []
            for process in list(known.values()):
                try:
                    looked = process.look(before, t) if process.pid in wanted else None
                except OSError:
                    looked = None
                if looked is None:
                    looked = process.ended(t)
                    known.pop(process.pid).close()
                found += looked
            before = t
            yield found
    finally:
        for process in known.values():
            process.close()


def _meet(known: dict[int, _Process], target: Target, pid: int) -> None:
    try:
        known[pid] = _Process(target, pid)
    except OSError:  # not there yet, or not any more
        return
