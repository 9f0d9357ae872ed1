"""Where tasks run: which cards, which CPUs, how many threads, and whether through MPS."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from gputune.core.errors import BadUsage, GputuneError
from gputune.core.hygiene import clean
from gputune.sharing import cpus, host
from gputune.sharing.cards import EXCLUSIVE, PROHIBITED, SharedDevice, SharedDevices
from gputune.sharing.mps import Mps, NoDaemon
from gputune.sharing.spec import Spec
from gputune.sharing.supervising import Tell
from gputune.sharing.tasks import Task

CARDS_S = 10.0  # s that the driver gets to tell of its cards, where they are needed before anything starts
EMPTIEST_S = 2.0  # s over which cards are compared
THREADS = "OMP_NUM_THREADS"
NO_MPS = "weights count under MPS only: here each gets the same part"
NO_CARD = "weights are parts of a card under MPS, and there is no card here: they count for nothing"


class NoSuchCard(BadUsage):
    """A card was named that is not there, or may not be used."""

    def __init__(self, wish: str, cards: SharedDevices) -> None:
        have = ", ".join(str(place) for place, _ in enumerate(cards.allowed())) or "none"
        super().__init__(f"there is no GPU `{clean(wish, 60)}` here", hint=f"those that may be used: {have}")


class NoCards(GputuneError):  # noqa: N818 - named for what happened
    """A card was to be chosen, and the driver tells of none."""

    def __init__(self, cards: SharedDevices) -> None:
        hint = "without `--gpu` the tasks run on what there is"
        super().__init__(f"no card can be chosen: {cards.why}", hint=hint)


class OneAtATime(BadUsage):
    """A card's compute mode lets one process use it, and more are to run."""

    def __init__(self, card: SharedDevice, procs: int) -> None:
        says = (
            f"{card.name} is in compute mode {card.mode_name}: one process at a time may use it, and {procs} are to run"
        )
        reset = f"`sudo nvidia-smi -i {card.device.index} -c DEFAULT` lets all use it"
        super().__init__(says, hint=f"`--mps on` takes them through one daemon, `--at-once 1` in turn; {reset}")


def seen_as(wish: str, card: SharedDevice) -> str:
    """Return what CUDA_VISIBLE_DEVICES is to be where a wish has led to this card."""
    return wish if wish.startswith("MIG-") else card.device.uuid


class Places:
    """The cards that were chosen, and what each task is told of its place."""

    def __init__(self, spec: Spec, cards: SharedDevices, note: Tell) -> None:
        self.card: SharedDevice | None = None  # the first of them
        self.names: tuple[str, ...] = ()  # values of CUDA_VISIBLE_DEVICES; none: left to the environment
        self.mps: Mps | None = None
        self._spec = spec
        self._cards = cards
        self._note = note
        self._before: dict[int, float] = {}  # B in use on a device before we came
        self._named: dict[str, SharedDevice] = {}
        self._sets: list[frozenset[int]] = []  # of CPUs, one for each that runs at a time
        self._threads = 0  # for each; 0: as they are
        self._said: set[str] = set()  # what is said once

    def baseline(self, card: SharedDevice) -> float | None:
        """Return the B that were in use on a device before we came, None where the driver told of it too late."""
        return self._before.get(card.device.index)

    def card_of(self, task: Task) -> SharedDevice | None:
        """Return the device that a task is to use, None where none is known."""
        return self._named.get(task.card, self.card)

    @property
    def told(self) -> bool:
        """Return whether the driver has told of its cards, or never will."""
        return self._cards.state != "starting"

    @property
    def is_without_card(self) -> bool:
        """Return whether it is known that there is no card."""
        return self._cards.hidden or self._cards.state == "none" or (self.told and self.card is None)

    def choose(self, *, needed: bool) -> None:
        """Choose the cards that were wished for; wait for the driver if they are `needed`. Raises GputuneError."""
        wishes = self._spec.gpus
        if wishes or needed or self._spec.weighted or self._spec.mps == "on":
            self._cards.wait(CARDS_S)
        if wishes and self._cards.state != "there":
            raise NoCards(self._cards)
        chosen = [self._chosen(wish) for wish in wishes]
        pairs = zip(wishes, chosen, strict=True)
        self._named = {seen_as(wish, card): card for wish, card in pairs}
        self.names = tuple(self._named)
        self.meet(chosen)
        if needed and self.card is not None and self.card.device.mig:
            self._note(
                f"{self.card.name} is parted (MIG): what is free in an instance is not read, so nothing is refused"
            )

    def _chosen(self, wish: str) -> SharedDevice:
        card = self._cards.emptiest(EMPTIEST_S) if wish == "auto" else self._cards.of(wish)
        if card is None:
            raise NoSuchCard(wish, self._cards)
        if wish == "auto":
            self._note(f"{card.name} is the emptiest")
        return card

    def meet(self, chosen: Sequence[SharedDevice] = ()) -> None:
        """Learn which cards count, as soon as the driver has told of any."""
        found = chosen or self._cards.allowed()[:1]
        if found:
            self.card = found[0]
            self._cards.choose(tuple(dict.fromkeys(card.device.index for card in found)))

    def remember(self) -> None:
        """Learn what is in use as long as nothing of ours runs."""
        for card in (self.card, *self._named.values()):
            if card is not None and card.used is not None:
                self._before[card.device.index] = card.used
                card.most_used = card.used

    def placed(self, found: Sequence[Task], at_once: int, environ: Collection[str]) -> list[Task]:
        """Return tasks with their threads and the way to MPS, for so many at once. Raises GputuneError."""
        self.divide(at_once, environ)
        self.open(at_once)
        weights = [task.weight for task in found]
        placed = []
        for task in found:
            env = {} if self.mps is None else self.mps.environment(task.weight, weights, task.job.memory)
            placed.append(self.threaded(replace(task, env={**task.env, **env})))
        return placed

    def splits(self, environ: Collection[str]) -> bool:
        """Return whether several at once get a part of the threads each, and there is nothing but CPUs to share."""
        return self._spec.cpus == "split" and THREADS not in environ and self.is_without_card

    def divide(self, at_once: int, environ: Collection[str]) -> None:
        """Divide the CPUs among so many at once."""
        split = self._spec.cpus == "split" and at_once > 1
        self._sets = cpus.sets(host.nodes(), at_once) if split else []
        self._threads = cpus.threads(host.cores(), at_once) if split and THREADS not in environ else 0

    def threaded(self, task: Task) -> Task:
        """Return a task with its part of the threads, unless it was told another number."""
        if not self._threads or THREADS in task.job.env:
            return task
        return replace(task, env={**task.env, THREADS: str(self._threads)})

    def seated(self, task: Task, taken: Sequence[frozenset[int]]) -> Task:
        """Return a task with CPUs of its own: the set that overlaps least with those that are `taken`."""
        if not self._sets:
            return task
        return replace(task, cpus=min(self._sets, key=lambda own: sum(len(own & other) for other in taken)))

    def open(self, procs: int, *, sure: bool = False) -> None:
        """Find the MPS daemon, once it is known that so many are to run at once, and on which card.

        Raises NoDaemon; OneAtATime where the card's compute mode does not take them and they are `sure` to use it.
        """
        card = self.card
        if card is not None and card.mode in PROHIBITED:
            self._once(f"{card.name} is in compute mode {card.mode_name}: no process may use it")
        if procs < 2 or (self.mps is not None and not sure):
            return
        if card is None:
            if self._spec.mps == "on":
                raise NoDaemon(self._cards.why)
            if self._spec.weighted and self.is_without_card:
                self._once(NO_CARD)
            return
        if not card.told:
            return
        each = -(-procs // max(1, len(self.names)))
        self._join(card, each)
        if each > 1 and card.mode in EXCLUSIVE and not (self.mps and self.mps.active):
            if sure:
                raise OneAtATime(card, each)
            self._note(f"{card.name} is in compute mode {card.mode_name}: one process at a time may use it")

    def _once(self, text: str) -> None:
        """Say something that stays true, once."""
        if text not in self._said:
            self._said.add(text)
            self._note(text)

    def _join(self, card: SharedDevice, each: int) -> None:
        """Find the daemon, or start one, and say so."""
        if self.mps is not None:
            return
        place = self._spec.folder or self._spec.logs
        self.mps = Mps(self._spec.mps, each, card.capability, place, cards=self.names)
        if self._spec.mps != "off":
            self._note(self._sentence(self.mps, card))
        if self._spec.weighted and not self.mps.active:
            self._once(NO_MPS)

    @staticmethod
    def _sentence(mps: Mps, card: SharedDevice) -> str:
        """Return what is said of MPS, with what the card's compute mode means for it."""
        if not mps.active or card.mode is None:
            return mps.says
        alone = "nobody gets past it" if card.mode in EXCLUSIVE else "a process could go past it, which is looked for"
        return f"{mps.says}; compute mode {card.mode_name}: {alone}"

    def close(self) -> None:
        """Give back what was started for this run."""
        if self.mps is not None:
            self.mps.stop()
