"""Which settings a real training may be served under, and whether any of them may pay.

Fewer than a sweep tries. Workers that persist keep a copy of the dataset over the epochs, and what the script tells its
own copy in between (`set_epoch`, another transform) would never reach them: persistence stays as the script has it.
"""

from collections.abc import Mapping

from gputune.core.finding import WAITING, WORTH_SAYING
from gputune.launch.values import TRYING
from gputune.report.words import percent
from gputune.sweep.profile import Profile
from gputune.sweep.settings import LoaderSetting
from gputune.tuning.draws import Draws

IDENTICAL = "identical"  # the mode in which nothing may be tried that changes what is computed
CAREFUL = (IDENTICAL, TRYING)


def healthy(profile: Profile) -> str:
    """Return that nothing needs to be tried, in words; nothing where something may pay."""
    waiting = profile.outlook.waiting
    return f"it waits for batches {percent(waiting)} of the time" if waiting < WAITING else ""


def candidates(profile: Profile, mode: str, draws: Draws) -> dict[LoaderSetting, float]:
    """Return the settings that may be tried, with the samples/s predicted of each; the script's own among them."""
    own = profile.script
    queues = bool(only_queues(profile, mode, draws))

    def may(wanted: LoaderSetting) -> bool:
        if wanted.persistent_workers != (own.persistent_workers and wanted.num_workers > 0):
            return False
        if queues and wanted.num_workers != own.num_workers:
            return False
        return wanted.pin_memory == own.pin_memory or not (queues or mode in CAREFUL)

    return {wanted: profile.rate(wanted) for wanted in profile.settings() if wanted == own or may(wanted)}


def only_queues(profile: Profile, mode: str, draws: Draws) -> str:
    """Return why nothing but `prefetch_factor` may change, in words; nothing where more may."""
    if profile.loader.iterable:
        return "its dataset is a stream: only its queue may change"
    if mode in CAREFUL and not draws.harmless:
        return f"only its queue may change: {draws.differs()}"
    return ""


def hopeless(profile: Profile, predicted: Mapping[LoaderSetting, float], mode: str, draws: Draws) -> str:
    """Return why nothing is worth trying although batches are waited for; nothing where something may pay."""
    if max(predicted.values()) >= WORTH_SAYING * profile.measured:
        return ""
    waiting, why = profile.outlook.waiting, only_queues(profile, mode, draws)
    found = f"it waits for batches {percent(waiting)} of the time, and no setting is predicted to bring 5%"
    return f"{found} ({why})" if why else found


def changes_workers(profile: Profile, predicted: Mapping[LoaderSetting, float]) -> bool:
    """Return whether samples may come to be made by other processes."""
    return any(wanted.num_workers != profile.script.num_workers for wanted in predicted)
