"""The plateau on which more workers bring nothing: where the model has it begin, and whether that is true.

A model that leaves out what a batch costs on its way sees the plateau begin too early. So one setting with plenty of
everything is measured as well; where it is faster, the plateau begins somewhere on the way there. And its batches come
without jitter, so queues that cost next to nothing are long from the beginning.
"""

from collections.abc import Iterable, Mapping

from gputune.sweep.choosing import TIE, SettingStats
from gputune.sweep.profile import Profile
from gputune.sweep.settings import LoaderSetting
from gputune.sweep.visiting import SHORT_S, seconds

TIMES, MORE = 2, 1  # times the workers that are believed to be enough, and more


def beyond(
    profile: Profile,
    all_stats: Mapping[LoaderSetting, SettingStats],
    among: Iterable[LoaderSetting],
    here: LoaderSetting,
) -> LoaderSetting | None:
    """Return the setting to hold against `here`, which is believed to have enough; None where nothing can be faster.

    Its queue holds no more batches than a visit times: one that lasts longer is not seen to run dry in a visit.
    """
    measured, most = all_stats.get(here), profile.most(here)
    if most is not None and measured is not None and measured.rate >= most * (1 - TIE):
        return None
    return ample(here, among, SHORT_S / seconds(profile, here))


def deeper(profile: Profile, among: Iterable[LoaderSetting], here: LoaderSetting) -> LoaderSetting:
    """Return `here` with the longest queue that costs next to nothing: it evens out jitter, which the model lacks.

    It holds no more batches than a visit times, as above.
    """
    longest = SHORT_S / seconds(profile, here)
    found = [
        s
        for s in _like(here, among)
        if s.num_workers == here.num_workers and s.queue <= longest and profile.limits.trifling(s)
    ]
    return max(found, key=lambda s: s.queue, default=here) if here.num_workers else here


def ample(here: LoaderSetting, among: Iterable[LoaderSetting], queue: float) -> LoaderSetting | None:
    """Return the setting with most workers up to about twice those of `here`, and a queue of up to `queue` batches.

    None where `here` is it. Nothing that there is no room for is `among` them.
    """
    most = max(2, TIMES * here.num_workers + MORE)  # workers that are plenty beside none
    longest = max(here.queue, queue)
    found = max(
        (s for s in _like(here, among) if here.num_workers <= s.num_workers <= most),
        key=lambda s: (s.num_workers, s.queue if s.queue <= longest else -s.queue),
        default=here,
    )
    more = found.num_workers > here.num_workers or found.queue > here.queue
    return found if more else None


def between(low: LoaderSetting, high: LoaderSetting, among: Iterable[LoaderSetting]) -> list[LoaderSetting]:
    """Return the settings on the way from one to an ample one, the cheapest first: longer queues, then more workers.

    On this way the rate does not fall, as far as more of either does no harm.
    """
    found = [
        s
        for s in _like(high, among)
        if (s.num_workers == low.num_workers and low.queue < s.queue and _prefetch(s) <= _prefetch(high))
        or (low.num_workers < s.num_workers < high.num_workers and _prefetch(s) == _prefetch(high))
    ]
    return sorted((s for s in found if s != high), key=lambda s: (s.num_workers, s.queue))


def _prefetch(wanted: LoaderSetting) -> int:
    return wanted.prefetch_factor or 0


def _like(here: LoaderSetting, among: Iterable[LoaderSetting]) -> list[LoaderSetting]:
    """Return the settings with workers that differ from `here` in workers and queues alone; all beside no workers."""
    return [
        s
        for s in among
        if s.num_workers
        and s.pin_memory == here.pin_memory
        and (s.persistent_workers == here.persistent_workers or not here.num_workers)
    ]
