"""The recorder: reads the machine and the guests while the command runs, and says what was found once it has ended.

It may be killed at any time without the command noticing; the supervisor then forks its next life, which goes on with
the recording. It prints nothing before the command has ended, and nothing at all once the supervisor is gone.
Each part (a probe, the recording, the judging, the printing) fails alone, and is named once.

 life       readings to the gatherer and the recording     end        how it learns that the command has ended
 kept       the recording, isolated                        outcome    features to findings, files and words
"""

import os
import resource

from gputune.launch import folders
from gputune.launch.descriptors import null, say
from gputune.launch.link import PipeEnd, Started, StartFailed
from gputune.launch.run import WatchedRun
from gputune.watching.recorder.end import End

FILES = 1 << 16  # open at most: five for each process of the tree, which a shell's limit of 1024 has no room for


def record(link: PipeEnd, run: WatchedRun, *, resumed: bool = False) -> int:
    """Record a run; return the status of this process, 0: nothing that fails here ever fails the run.

    With `resumed` an earlier life of the recorder was killed, and what it kept is read back first.
    """
    lock = folders.hold(run.rings) if run.rings else -1
    started = link.receive()
    if not isinstance(started, Started):
        if isinstance(started, StartFailed) and run.folder:  # nothing ran: leave nothing behind
            folders.remove_empty(run.folder)
        if run.rings:
            folders.remove_rings(run.rings)
        return 0
    _open_many()
    if run.all_devices:
        os.environ["GPUTUNE_ALL_DEVICES"] = "1"  # read by the NVML probe
    if run.json != "-":  # the command's stdout ends with the command
        null(1)
    end = End(link, started.pid)
    try:
        from gputune.watching.recorder.life import Life  # noqa: PLC0415 - whatever is broken in there is said after the run

        Life(run, started, end, resumed=resumed).live()
    except Exception as error:  # noqa: BLE001 - not while the command runs, and not with a traceback
        end.wait()
        if not end.alone:
            from gputune.core.hygiene import clean  # noqa: PLC0415 - where there is something to say

            say(f"gputune: the run was not recorded ({clean(f'{type(error).__name__}: {error}')})\n")
    end.spoken()
    _end_family(run, end)
    if run.rings:
        folders.remove_rings(run.rings)
    if lock >= 0:
        os.close(lock)
    return 0


def _end_family(run: WatchedRun, end: End) -> None:
    """End what a run has left behind if all are gone that would have seen to it."""
    if run.family and end.alone and run.rings:
        from gputune.launch import family  # noqa: PLC0415 - rare

        family.end_marked(f"GPUTUNE_RINGS={run.rings}")


def _open_many() -> None:
    """Raise our own limit of open files as far as allowed; the command keeps the limit it was started with."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
