"""What would make batches cheaper where no setting of a loader does, and what each remedy would buy.

What a batch is made of is told by stacks (`Process.making`), how long it takes by the clock. Remedies are of the code,
so each is told with its gain, and the user chooses.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median

from gputune.core.figures import mean, size, wilson
from gputune.core.finding import ERROR, MOST_TIMES, WORTH_SAYING, Speedup
from gputune.features import SERVED, Loader
from gputune.model.batch_handoff import COPY_RATE, STACK_RATE, STACKED_S
from gputune.model.prediction import Outlook, in_proportion
from gputune.model.remade import PREPARED_S, lightened
from gputune.model.replay import Work
from gputune.model.storage import NOTABLE

ENOUGH = 30  # stacks in which a batch was made: a share of a half is known to within 0.18 by then (95 %)
PICKED_S = 0.00005  # s to pick the samples of a small batch out of one tensor, at one call
PASSES = 3  # over the bytes of a batch that transforms make of it at once: to another type, less a mean, by a spread
BRIEF = 0.0005  # s of the user's own code for one sample: up to here it may be calls on small arrays, not work
SMALL = 65536  # B of a sample: a call on so little takes about as long as one on nothing
MADE = 0.1  # of making a batch that is no indexing and collating: with less, its samples are tensors already
ROOM = 0.5  # of the memory that is free: what of it a data set may take for good
OWN, DECODE, TRANSFORM = (frozenset({kind}) for kind in ("own", "decode", "transform"))
GUIDED = TRANSFORM | {"index", "between", "collate"}  # what can be done for a whole batch as well


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change of the code that makes batches, and what it would buy."""

    name: str  # of the number in a finding's evidence
    do: str
    gain: Speedup


def told(outlook: Outlook) -> bool:
    """Return whether enough stacks show what making a batch is made of: of several loaders nobody knows of which."""
    makers = sum(loader.training and bool(loader.fetches) for loader in outlook.process.loaders)
    return outlook.process.making_stacks >= ENOUGH and makers == 1


def served(outlook: Outlook) -> float:
    """Return the share of making a batch that is calls to a Manager's process; 0 where that is not surely much."""
    share = sum(doing.share for doing in outlook.process.making if doing.kind == SERVED)
    # so much of making a batch: from here on calls to another process are a cause by themselves
    much = told(outlook) and wilson(share, outlook.process.making_stacks)[0] >= NOTABLE
    return share if much else 0.0


def shares(outlook: Outlook) -> dict[str, float]:
    """Return the shares of making a batch by what is done, most first: collating by the clock, the rest by stacks."""
    making = sum(f.wall for f in outlook.loader.fetches)
    collating = sum(f.collate for f in outlook.loader.fetches) / making if making else 0.0
    others = [doing for doing in outlook.process.making if doing.kind != "collate"]
    whole = sum(doing.share for doing in others)
    found: dict[str, float] = {"collate": collating}
    for doing in others:
        name = doing.where or doing.what
        found[name] = found.get(name, 0.0) + doing.share / whole * (1 - collating)
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def remedies(outlook: Outlook) -> list[Remedy]:
    """Return those that are worth their words, best first.

    Where too few stacks tell what a batch is made of, as in a run of a few seconds, only the one that spares all of it.
    """
    if told(outlook):
        found = [*_kept(outlook), *_at_once(outlook), *_decoded(outlook)]
    else:
        found = [*_kept(outlook, unseen=True)] if outlook.process.making_stacks < ENOUGH else []
    found = [remedy for remedy in found if remedy.gain.likely >= WORTH_SAYING]
    return sorted(found, key=lambda remedy: -remedy.gain.likely)[:3]  # remedies in a sentence


def _kept(outlook: Outlook, *, unseen: bool = False) -> Iterator[Remedy]:
    """Make all samples once and keep them: where they fit, are no tensors yet, and none is known to be drawn anew.

    Whether they are tensors already is not known of a making that was `unseen`: then whole batches of these are meant.
    """
    loader, free = outlook.loader, outlook.run.machine.memory_free
    whole = _data_set(loader)
    if whole is None or free is None or whole > ROOM * free / outlook.run.machine.ranks:
        return
    kinds = _of_kinds(outlook, OWN | DECODE | TRANSFORM)
    if loader.draws or loader.random or not (loader.collate == "default_collate" if unseen else kinds >= MADE):
        return
    batches = ", and index whole batches of it" if unseen else ""
    yield Remedy(
        "kept",
        f"keep all samples, if none is random, as one tensor of {size(whole)} for later passes{batches}",
        _with(outlook, saved=1.0, takes=_picking(loader)),
    )


def _data_set(loader: Loader) -> float | None:
    """Return the B that all samples take as the training gets them; None of a stream, or where that is not known."""
    if loader.iterable or not loader.samples_in_dataset or not loader.batch_bytes or not loader.batch_size:
        return None
    return loader.batch_bytes / loader.batch_size * loader.samples_in_dataset


def _at_once(outlook: Outlook) -> Iterator[Remedy]:
    """Index, transform and collate whole batches: what is left is a few passes over their bytes.

    The user's own code goes with it where it can be calls on small arrays: not for sure, so the low end is without.
    """
    loader = outlook.loader
    if loader.iterable:
        return
    own = _of_kinds(outlook, OWN) if _is_of_calls(outlook) else 0.0
    guided, transforms = _of_kinds(outlook, GUIDED), own + _of_kinds(outlook, TRANSFORM) > 0
    passes = PASSES * (loader.batch_bytes or 0) / STACK_RATE if transforms else 0.0
    likely, most = (picking + passes for picking in _picking(loader))
    takes = (likely, most)
    where = " (or on the device)" if transforms and not outlook.process.on_host else ""
    what = f"index and transform whole batches{where}" if transforms else "index whole batches"
    gain = _with(outlook, saved=guided + own, takes=takes).down_to(_with(outlook, saved=guided, takes=takes))
    yield Remedy("at_once", f"{what} in `__getitems__`", gain)


def _is_of_calls(outlook: Outlook) -> bool:
    """Return whether the user's own code may be no more than calls of torch or numpy on small samples."""
    samples = max(1.0, mean(f.samples for f in outlook.loader.fetches))
    small = outlook.loader.batch_bytes is not None and outlook.loader.batch_bytes / samples <= SMALL
    return small and _of_kinds(outlook, OWN) * outlook.making_cpu / samples <= BRIEF


def _decoded(outlook: Outlook) -> Iterator[Remedy]:
    """Decode once and keep what comes out, before anything that is random."""
    share = _of_kinds(outlook, DECODE)
    if share > 0:
        takes = PREPARED_S * (outlook.loader.batch_size or 1)
        gain = _with(outlook, saved=share, takes=(takes, takes))
        yield Remedy("decoded", "cache what is decoded", gain)


def _of_kinds(outlook: Outlook, kinds: frozenset[str]) -> float:
    """Return the share of making a batch that is of these kinds."""
    by_name = shares(outlook)
    collating, others = by_name["collate"], [d for d in outlook.process.making if d.kind != "collate"]
    whole = sum(doing.share for doing in others)
    inside = sum(doing.share for doing in others if doing.kind in kinds) / whole if whole else 0.0
    return inside * (1 - collating) + (collating if "collate" in kinds else 0.0)


def _picking(loader: Loader) -> tuple[float, float]:
    """Return the s that picking the samples of a batch out of one tensor takes, likely and at the most."""
    size = loader.batch_bytes or 0
    return PICKED_S + size / COPY_RATE, STACKED_S + size / STACK_RATE


def _with(outlook: Outlook, *, saved: float, takes: tuple[float, float]) -> Speedup:
    """Return what it would buy if a share of making each batch went, and so many s of CPU time came instead.

    Likely and at the most so many. Without workers, and of one process alone, a step then follows the last one at once.
    """
    found, least = (lightened(outlook, replace(outlook.job, fetches=_made(outlook, saved, each))) for each in takes)
    found = found.down_to(least)
    if outlook.now.workers or outlook.job.mates:
        return found
    usual, quick = undisturbed(outlook)
    likely, most = (_in_turn(outlook, saved, takes[0], (usual, then)) for then in (usual, quick))
    return replace(found, likely=max(found.likely, likely), high=max(found.high, likely, most * (1 + ERROR)))


def _made(outlook: Outlook, saved: float, takes: float) -> tuple[Work, ...]:
    """Return the making of each batch without a `saved` share of it, but for so many s of CPU time."""
    left, works = 1 - saved, outlook.job.fetches
    return tuple(replace(w, cpu=min(w.cpu, w.cpu * left + takes), blocked=w.blocked * left) for w in works)


def undisturbed(outlook: Outlook) -> tuple[float, float]:
    """Return the s of a step that others do not hold up, and of the quickest: as quick may be one that begins warm.

    What others hold up comes by the clock, and not by the step: shorter rounds lose as large a share to it, and not as
    much each. It is no more than what they use of the CPUs, for each thread of the step, and none of a usual step.
    """
    steps = sorted(outlook.loader.steps)
    width = max((step.width for step in outlook.job.steps), default=1.0)
    held = (outlook.run.machine.others or 0.0) / outlook.run.machine.ranks * width * outlook.per_batch
    usual = max(min(outlook.stepping, median(steps)), outlook.stepping - held)
    return usual, min(usual, steps[len(steps) // 20])  # a twentieth of them: single ones are the clock's own


def _in_turn(outlook: Outlook, saved: float, takes: float, steps: tuple[float, float]) -> float:
    """Return how many times as fast a loop is whose rounds make a batch and have a step, as it is now and would be."""
    making = outlook.making + outlook.picking
    now, then = (step + outlook.pinning for step in steps)
    left = max(outlook.job.floor, then + min(making, making * (1 - saved) + takes))
    return min(MOST_TIMES, in_proportion(outlook.whole, now + making, left, between=outlook.between))
