"""Whether a start that failed did so by the settings of its loader, or would have failed with any.

A script that fails in the middle fails there under its own settings as well, unless these were to blame: that is tried.
"""

from gputune.experiment.starting import Fault
from gputune.sweep.apart import Broken
from gputune.sweep.profile import Profile
from gputune.sweep.starter import Starter

LONGEST_S = 60.0  # s that going back to where it failed may take under the script's own settings
BEYOND = 2  # batches beyond the one at which it failed


def known(starter: Starter, log: str, fault: Fault) -> None:
    """Raise Broken where its last words name what only Python finds in a trial."""
    because = starter.missed(log) if fault.cause.own_error else ""
    if because:
        raise Broken(f"`{starter.script.name}` breaks in a trial: {fault.why}; {because}", log)


def needed(profile: Profile, batches: int) -> float:
    """Return the s that so many batches take under the script's own settings."""
    return (batches + BEYOND) * profile.batch * profile.ranks / max(1e-9, profile.measured)


def proved(starter: Starter, batches: int, why: str, log: str) -> Broken:
    """Return the error that it has failed with its own settings as well, by the batch at which it had failed."""
    name = starter.script.name
    return Broken(f"`{name}` fails with its own settings as well, before its batch {batches + BEYOND}: {why}", log)
