"""How short a round of ranks on devices can become: by what their hosts have to do in it.

Rounds are told by the devices' clocks there, and what a host does beside them is none of these, until the devices are
waited for no more. Who waits for another rank may spin meanwhile, and that is no work. A late rank waits for nobody.
"""

from collections.abc import Collection

from gputune.core.events import STOPPING
from gputune.core.figures import mean
from gputune.features import Features, Process
from gputune.model.rank_team import Team, share

WAITS = ("loader.wait", "loader.start", "sync", "launch.wait", *STOPPING)


def least_round(run: Features, ranks: Team, late: Collection[int]) -> float:
    """Return the s that a late rank's host does other things in a round than waiting; none where hosts tell the time.

    At the least what the CPUs have to do for it and its workers, and as much for each other rank, if all of them are
    on this machine.
    """
    if not all(m.on_device for met in ranks.rounds for m in met):
        return 0.0
    machine = run.machine
    each = len(ranks.ranks) / machine.cpus if machine.ranks == len(ranks.ranks) else 0.0
    members = [ranks.ranks[member] for member in late]
    return min(max(1 - share(p, WAITS), each * _cores(p)) for p in members) * ranks.seconds


def _cores(process: Process) -> float:
    """Return the cores that a process and the workers of its loaders use."""
    loaders = [loader for loader in process.loaders if loader.num_workers and loader.fetches]
    made = sum(mean(f.cpu for f in loader.fetches) * loader.batches for loader in loaders)
    return (process.cpu or 0.0) + made / process.loop
