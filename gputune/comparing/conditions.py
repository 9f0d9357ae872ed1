"""What differs between two sides beside the code, and what of it forbids a comparison.

Facts are read as far as a run tells them: what an older recording, or a `findings.json` alone, does not say, is not
known, and differs from nothing.
"""

from collections.abc import Callable, Iterable
from statistics import fmean

import msgspec

from gputune.comparing.facts import cpus, environment, facts
from gputune.comparing.sides import Side
from gputune.comparing.subject import Subject, crowded, neighbours
from gputune.core.hygiene import clean
from gputune.launch.folders import name_of
from gputune.report.words import percent

REMEDIES = {  # what forbids a comparison: what would make one
    "unit": "compare runs of one script: those of one side tell their batch sizes, those of the other do not",
    "script": "run the same script on both sides, or say `--anyway` if both do the same work",
    "device": "run both sides on the same kind and number of devices",
    "ranks": "run both sides with as many ranks, and have all of them heard",
    "CPUs": "give both sides as many CPUs",
    "tuned": "record a run without `--tune` and `--try`: its loader was switched while it ran",
}


class Differs(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not the same on both sides, as each has it. `forbids`: rates do not tell what the code does."""

    what: str
    a: str
    b: str
    forbids: bool


def conditions(a: Side, b: Side) -> list[Differs]:
    """Return what differs, first what forbids a comparison."""
    rows = [*_same_for_each(a, b), *_told(a, b), *_crowd(a, b)]
    return sorted(rows, key=lambda row: not row.forbids)


def _same_for_each(a: Side, b: Side) -> Iterable[Differs]:
    for what, of in _FORBIDDING.items():
        first, second = _values(a, of), _values(b, of)
        told = first and second  # what an older recording does not tell is no difference
        if (told and first != second) or len(first) > 1 or len(second) > 1:
            yield Differs(what=what, a=_joined(first), b=_joined(second), forbids=True)


def _values(side: Side, of: Callable[[Subject], str]) -> list[str]:
    return sorted({of(each) for each in side.subjects} - {""})


def _joined(values: Iterable[str]) -> str:
    return clean(" / ".join(values), 40) or "-"  # characters of a value


def _device(one: Subject) -> str:
    device = one.verdict.device
    return f"{device.count} x {device.name}" if device.name else "none"


def _ranks(one: Subject) -> str:
    heard, world = len(one.ranks), one.world
    return f"{heard} of {world}" if world > heard else f"{heard}"


def _cpus(one: Subject) -> str:
    allowed = one.verdict.cpu.allowed if one.verdict.cpu else cpus(one)
    return "" if allowed is None else f"{allowed:g}"


def _tuned(one: Subject) -> str:
    tuned = one.verdict.tuned
    return "switched while it ran" if tuned is not None and tuned.tries else "no"


_FORBIDDING: dict[str, Callable[[Subject], str]] = {
    "unit": lambda one: one.unit,
    "script": lambda one: name_of(tuple(one.verdict.command)),
    "device": _device,
    "ranks": _ranks,
    "CPUs": _cpus,
    "tuned": _tuned,
}


def _told(a: Side, b: Side) -> Iterable[Differs]:
    """Yield what the runs tell of their machines and versions, and of settings in their environment, where it differs.

    What only one side tells is no difference: the other may have been recorded by an older gputune.
    """
    for read in (facts, environment):
        first, second = ([read(each) for each in side.subjects] for side in (a, b))
        for name in dict.fromkeys(name for told in (*first, *second) for name in told):
            here, there = ({told[name] for told in side if told.get(name)} for side in (first, second))
            if here and there and (here != there or len(here) > 1):
                yield Differs(what=name, a=_joined(sorted(here)), b=_joined(sorted(there)), forbids=False)
    lone = [_only(first, second) for first, second in ((a, b), (b, a))]
    for what in sorted(lone[0] | lone[1]):
        yield Differs(what=what, a=_set(what in lone[0]), b=_set(what in lone[1]), forbids=False)


def _only(side: Side, other: Side) -> set[str]:
    """Return the variables that are set in all runs of a side and in none of the other, as far as both tell."""
    if not all(isinstance(each.about.get("environment"), dict) for each in (*side.subjects, *other.subjects)):
        return set()
    here = set.intersection(*({*environment(each)} for each in side.subjects))
    return here - set().union(*({*environment(each)} for each in other.subjects))


def _set(here: bool) -> str:  # noqa: FBT001 - one word for each of both
    return "set" if here else "-"


def _crowd(a: Side, b: Side) -> Iterable[Differs]:
    """Yield what strangers used of the CPUs and what was stolen, wherever that is worth a word on any side."""
    if any(crowded(each.verdict.cpu) and neighbours(each.verdict.cpu) for each in (*a.subjects, *b.subjects)):
        first, second = (_percents(neighbours(each.verdict.cpu) for each in side.subjects) for side in (a, b))
        if first != second:
            yield Differs(what="neighbours' share of the CPUs", a=first, b=second, forbids=False)
    first, second = (_percents(each.verdict.stolen or 0.0 for each in side.subjects) for side in (a, b))
    if first != second:
        yield Differs(what="stolen CPU time", a=first, b=second, forbids=False)


def _percents(shares: Iterable[float]) -> str:
    """Return shares as their mean, and from where to where they go if there are several."""
    found = list(shares)
    low, high = percent(min(found)), percent(max(found))
    return low if low == high else f"{percent(fmean(found))} ({low} to {high})"
