"""The dry run: what would be started, where, and the memory's arithmetic. Nothing is started."""

import os
import shlex
from collections.abc import Sequence

import msgspec

from gputune.core.errors import BadUsage, GputuneError
from gputune.core.figures import size
from gputune.core.hygiene import clean, mask
from gputune.sharing import host
from gputune.sharing.cards import SharedDevice, SharedDevices
from gputune.sharing.fitting import Room
from gputune.sharing.known import check
from gputune.sharing.mps import Mps, NoDaemon, unfit
from gputune.sharing.placing import CARDS_S, EMPTIEST_S, NO_CARD, NO_MPS, NoCards, NoSuchCard, Places, seen_as
from gputune.sharing.spec import Mps as Wish
from gputune.sharing.spec import Spec, TaskSpec, total
from gputune.sharing.tasks import Task, tasks

WORD = 400  # characters of a command, or of its variables, that are shown
OWN = "GPUTUNE_SHARE"  # variables between us and our launcher


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """One process: its command and its variables, secrets masked."""

    index: int
    name: str
    command: list[str]
    environment: dict[str, str]
    log: str
    cwd: str
    cpus: list[int]


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """What there is of one memory, in B. `asked` is what all at once take of it, as given; null: nobody said."""

    name: str
    free: float
    total: float
    asked: float | None
    fits: bool | None


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `--dry-run --json`. `procs` is one of them where their number is to be found out (`auto`)."""

    schema_version: int = 1
    auto: bool
    procs: list[Planned]
    at_once: int
    memory: list[Memory]
    device: str  # what is known of the card, or why nothing is
    mps: str
    first: str  # what happens first


def rehearse(spec: Spec) -> tuple[Rehearsal, GputuneError | None]:
    """Return the plan, and what it would be refused with. Raises GputuneError for a card that cannot be chosen."""
    cards = SharedDevices()
    try:
        cards.wait(CARDS_S if spec.gpus else 3.0)  # s that the driver gets to tell of its cards
        chosen = _chosen(spec, cards)
        plan = _plan(spec, cards, chosen)
        return plan, _refused(spec, chosen) or _without_daemon(spec, cards, chosen, plan.at_once)
    finally:
        cards.close()


def _chosen(spec: Spec, cards: SharedDevices) -> list[SharedDevice]:
    """Return the cards that count: without a wish the first visible one. Raises NoCards and NoSuchCard."""
    if cards.state != "there":
        if spec.gpus:
            raise NoCards(cards)
        return []
    found = []
    for wish in spec.gpus:
        card = cards.emptiest(EMPTIEST_S) if wish == "auto" else cards.of(wish)
        if card is None:
            raise NoSuchCard(wish, cards)
        found.append(card)
    return found or cards.allowed()[:1]


def _plan(spec: Spec, cards: SharedDevices, chosen: Sequence[SharedDevice]) -> Rehearsal:
    found = tasks(spec, list(_named(spec, chosen)))
    at_once = _at_once(spec, found)
    places = Places(spec, cards, lambda _text: None)
    places.divide(at_once, tuple(os.environ))
    seats: list[Task] = []
    for task in found:
        taken = [other.cpus for other in seats[max(0, len(seats) - at_once + 1) :]]
        seats.append(places.seated(places.threaded(task), taken))
    return Rehearsal(
        auto=not total(spec.jobs, len(spec.gpus)),
        procs=[_planned(task) for task in seats],
        at_once=at_once,
        memory=[_host(spec, at_once), *(_device(spec, card) for card in chosen if card.used is not None)],
        device=_device_words(cards, chosen),
        mps=_mps(spec, chosen, at_once),
        first=_first(spec),
    )


def _named(spec: Spec, chosen: Sequence[SharedDevice]) -> dict[str, SharedDevice]:
    """Return the cards that were wished for, by what CUDA_VISIBLE_DEVICES would be."""
    return {seen_as(wish, card): card for wish, card in zip(spec.gpus, chosen, strict=False)}


def _at_once(spec: Spec, found: Sequence[Task]) -> int:
    return min(len(found), spec.at_once * max(1, len(spec.gpus)) or len(found))


def _planned(task: Task) -> Planned:
    told = {name: value for name, value in task.env.items() if not name.startswith(OWN)}
    pairs = (pair.partition("=") for pair in mask([f"{name}={value}" for name, value in told.items()]))
    return Planned(
        index=task.slot,
        name=task.name,
        command=list(mask(task.argv)),
        environment={name: value for name, _, value in pairs},
        log=task.log,
        cwd=task.cwd,
        cpus=sorted(task.cpus),
    )


def _all(jobs: Sequence[TaskSpec], needs: Sequence[int | None], at_once: int) -> float | None:
    """Return the B that the `at_once` largest tasks take together, by what was declared; None where nothing was."""
    each = [need or 0 for job, need in zip(jobs, needs, strict=True) for _ in range(max(1, job.count))]
    return float(sum(sorted(each, reverse=True)[:at_once])) if any(each) else None


def _memory(name: str, free: float, whole: float, asked: float | None) -> Memory:
    return Memory(name=name, free=free, total=whole, asked=asked, fits=None if asked is None else asked <= free)


def _host(spec: Spec, at_once: int) -> Memory:
    whole, left = host.memory()
    asked = _all(spec.jobs, [job.host_memory for job in spec.jobs], at_once)
    return _memory("host", left, whole, asked)


def _device(spec: Spec, card: SharedDevice) -> Memory:
    whole = card.room or card.total or 0.0
    most = spec.at_once or sum(max(1, job.count) for job in spec.jobs)
    asked = _all(spec.jobs, [job.memory for job in spec.jobs], most)
    return _memory(card.name, max(0.0, whole - (card.used or 0.0)), whole, asked)


def _device_words(cards: SharedDevices, chosen: Sequence[SharedDevice]) -> str:
    if not chosen:
        return f"none ({cards.why or 'CUDA_VISIBLE_DEVICES leaves none'})"
    modes = (f"{card.name}{f', compute mode {card.mode_name}' if card.mode_name else ''}" for card in chosen)
    parted = "; parted (MIG): what is free in an instance is not read" if any(c.device.mig for c in chosen) else ""
    return ", ".join(modes) + parted


def _mps(spec: Spec, chosen: Sequence[SharedDevice], at_once: int) -> str:
    """Return what would be said of MPS, and of weights where they would count for nothing."""
    if at_once < 2:
        return ""
    if not chosen:
        return NO_CARD if spec.weighted else ""
    wish: Wish = "off" if spec.mps == "off" else "auto"  # a daemon is looked for, and none is started
    each = -(-at_once // len(chosen))
    found = Mps(wish, each, chosen[0].capability, "")
    if spec.mps == "on" and not found.active:
        return unfit(each, chosen[0].capability) or "an MPS daemon would be started for this run"
    return f"{found.says}; {NO_MPS}" if spec.weighted and not found.active else found.says


def _without_daemon(spec: Spec, cards: SharedDevices, chosen: Sequence[SharedDevice], at_once: int) -> NoDaemon | None:
    """Return what the run would be refused with where a daemon was asked for, and can be known not to be had.

    One alone needs none, and it is one while a number is still to be found out.
    """
    if spec.mps != "on" or at_once < 2 or not total(spec.jobs, len(spec.gpus)):
        return None
    why = unfit(-(-at_once // len(chosen)), chosen[0].capability) if chosen else cards.why
    return NoDaemon(why) if why else None


def _first(spec: Spec) -> str:
    if spec.trial > 0 and len(spec.jobs) == 1 and total(spec.jobs, len(spec.gpus)) != 1:
        return f"the first one runs alone until it has made batches for {spec.trial:g} s; the others join if they fit"
    return "all start at once; nothing is measured of one alone"


def _refused(spec: Spec, chosen: Sequence[SharedDevice]) -> BadUsage | None:
    """Return what the run would be refused with, by what was said of it."""
    whole, left = host.memory()
    named = _named(spec, chosen)
    rooms = {name: _room(card, min(left, whole)) for name, card in named.items()}
    first = _room(chosen[0], min(left, whole)) if chosen else Room(host_free=min(left, whole))
    try:
        check(spec, tasks(spec, list(named)), lambda task: rooms.get(task.card, first))
    except BadUsage as refused:
        return refused
    return None


def _room(card: SharedDevice, left: float) -> Room:
    free = card.room - card.used if card.room and card.used is not None else None
    return Room(name=card.name, device=card.total, device_free=free, host_free=left)


def text(plan: Rehearsal) -> str:
    """Return the plan in words."""
    lines = []
    for one in plan.procs:
        variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in one.environment.items())
        lines += [
            f"{one.name}: {clean(variables, WORD)} {clean(shlex.join(one.command), WORD)}",
            f"  log {clean(one.log, WORD)}",
            *([f"  in {clean(one.cwd, WORD)}"] if one.cwd else []),
            *([f"  CPUs {','.join(map(str, one.cpus))}"] if one.cpus else []),
        ]
    if plan.auto:
        lines.append("how many: found out by trying, from one copy's memory, busy share and pace")
    elif plan.at_once < len(plan.procs):
        lines.append(f"{plan.at_once} of {len(plan.procs)} at a time")
    lines += [_line(memory) for memory in plan.memory]
    lines += [f"device: {plan.device}", *([f"MPS: {plan.mps}"] if plan.mps else []), plan.first]
    return "\n".join(lines)


def _line(memory: Memory) -> str:
    free = f"{memory.name} memory: {size(memory.free)} of {size(memory.total)} are free"
    if memory.asked is None:
        return free
    verdict = "that fits" if memory.fits else "that does not fit"
    return f"{free}; as given, all at once take {size(memory.asked)}: {verdict}"
