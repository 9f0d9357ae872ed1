"""Every advisor, each alone, over one run: what they found, best gain first."""

from collections.abc import Callable, Iterable, Iterator
from typing import cast

from gputune.features import Features
from gputune.finding import Finding
from gputune.rooms import identity, load, names

WORTH_SAYING = 1.05  # predicted samples/s at the low end: below five percent, noise and effort eat the gain
CLOSE = 1.1  # findings that explain the same seconds about as well: the cheaper change speaks
# They explain the same seconds, those before a batch is there, so only one of them speaks. The cheapest comes first.
LOADING = ("low-prefetch", "worker-restart", "oversubscribed-workers", "few-workers", "heavy-preprocessing")

Advise = Callable[[Features], Iterable[Finding]]


def judge(run: Features, failed: dict[str, str] | None = None) -> list[Finding]:
    """Return the findings of a run, highest likely speed-up first. A healthy run has none.

    An advisor that raises is left out and named in `failed` (id to reason): it takes no other with it.
    """
    found: list[Finding] = []
    for name in names("gputune.advisors"):
        found.extend(_ask(name, run, failed))
    found.sort(key=lambda f: -f.speedup.likely)
    return list(_apart(found))


def _ask(name: str, run: Features, failed: dict[str, str] | None) -> list[Finding]:
    try:
        advise = cast("Advise", load("gputune.advisors", name).advise)
        return [f for f in advise(run) if f.risk or f.offer or f.speedup.low >= WORTH_SAYING]
    except Exception as error:  # noqa: BLE001 - a broken advisor must not silence the others
        if failed is not None:
            failed[identity(name)] = f"{type(error).__name__}: {error}"
        return []


def _apart(found: Iterable[Finding]) -> Iterator[Finding]:
    """Leave out findings that claim the same seconds as a better one, or say the same of another rank."""
    found = list(found)
    rivals = [f for f in found if f.id in LOADING]
    best = max((f.speedup.likely for f in rivals), default=1.0)
    close = [f for f in rivals if f.speedup.likely * CLOSE >= best]
    chosen = min(close, key=lambda f: LOADING.index(f.id), default=None)
    said: set[tuple[str, str]] = set()
    for finding in found:
        same = (finding.id, finding.where or finding.says)  # what has no place in the code is about a device
        if (finding.id in LOADING and finding is not chosen) or same in said:
            continue
        said.add(same)
        yield finding
