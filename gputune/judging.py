"""Every advisor, each alone, over one run: what they found, best gain first."""

from collections.abc import Callable, Iterable, Iterator
from typing import cast

from gputune.features import Features
from gputune.finding import Finding
from gputune.rooms import load, names

WORTH_SAYING = 1.05  # predicted samples/s: below five percent, noise and effort eat the gain
LOADING = frozenset(
    {"few-workers", "oversubscribed-workers", "heavy-preprocessing", "low-prefetch"}
)  # they explain the same seconds, the loader's waits: only the best one speaks

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
        return [f for f in advise(run) if f.speedup.likely >= WORTH_SAYING]
    except Exception as error:  # noqa: BLE001 - a broken advisor must not silence the others
        if failed is not None:
            failed[name.replace("_", "-")] = f"{type(error).__name__}: {error}"
        return []


def _apart(found: Iterable[Finding]) -> Iterator[Finding]:
    """Leave out findings that claim the same seconds as a better one."""
    taken = False
    for finding in found:
        if finding.id in LOADING:
            if taken:
                continue
            taken = True
        yield finding
