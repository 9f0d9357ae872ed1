"""Where tasks run: which cards, which CPUs, how many threads, and whether through MPS."""

from collections.abc import Sequence
from dataclasses import replace

from gputune.errors import BadUsage, GputuneError
from gputune.hygiene import clean
from gputune.sharing import cpus, host
from gputune.sharing.cards import Card, Cards
from gputune.sharing.crew import Tell
from gputune.sharing.mps import Mps, NoDaemon
from gputune.sharing.spec import Spec
from gputune.sharing.tasks import Task

CARDS_S = 10.0  # s that the driver gets to tell of its cards, where they are needed before anything starts
EMPTIEST_S = 2.0  # s over which cards are compared
THREADS = "OMP_NUM_THREADS"


class NoSuchCard(BadUsage):
    """A card was named that is not there, or may not be used."""

    def __init__(self, wish: str, cards: Cards) -> None:
        have = ", ".join(str(place) for place, _ in enumerate(cards.allowed())) or "none"
        super().__init__(f"there is no GPU `{clean(wish, 60)}` here", hint=f"those that may be used: {have}")


class Places:
    """The cards that were chosen, and what each task is told of its place."""

    def __init__(self, spec: Spec, cards: Cards, note: Tell) -> None:
        self.card: Card | None = None  # whose time and memory count; of several, the first
        self.names: tuple[str, ...] = ()  # values of CUDA_VISIBLE_DEVICES; none: left to the environment
        self.mps: Mps | None = None
        self._spec = spec
        self._cards = cards
        self._note = note
        self._before: dict[int, float] = {}  # B in use on a device before we came
        self._named: dict[str, Card] = {}

    def baseline(self, card: Card) -> float | None:
        """Return the B that were in use on a device before we came, None where the driver told of it too late."""
        return self._before.get(card.device.index)

    def card_of(self, task: Task) -> Card | None:
        """Return the device that a task is to use, None where none is known."""
        return self._named.get(task.card, self.card)

    @property
    def told(self) -> bool:
        """Return whether the driver has told of its cards, or never will."""
        return self._cards.state != "starting"

    def choose(self, *, needed: bool) -> None:
        """Choose the cards that were wished for; wait for the driver if they are `needed`. Raises GputuneError."""
        wishes = self._spec.gpus
        weighted = len({job.weight for job in self._spec.jobs}) > 1 or any(job.weights for job in self._spec.jobs)
        if wishes or needed or weighted or self._spec.mps == "on":
            self._cards.wait(CARDS_S)
        if wishes and self._cards.state != "there":
            hint = "without `--gpu` the tasks run on what there is"
            raise GputuneError(f"no card can be chosen: {self._cards.why}", hint=hint)
        chosen = [self._chosen(wish) for wish in wishes]
        pairs = zip(wishes, chosen, strict=True)
        self._named = {wish if wish.startswith("MIG-") else card.device.uuid: card for wish, card in pairs}
        self.names = tuple(self._named)
        self.meet(chosen)

    def _chosen(self, wish: str) -> Card:
        card = self._cards.emptiest(EMPTIEST_S) if wish == "auto" else self._cards.of(wish)
        if card is None:
            raise NoSuchCard(wish, self._cards)
        if wish == "auto":
            self._note(f"{card.name} is the emptiest")
        return card

    def meet(self, chosen: Sequence[Card] = ()) -> None:
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

    def placed(self, found: Sequence[Task], at_once: int, environ: Sequence[str]) -> list[Task]:
        """Return tasks with their CPUs, their threads and the way to MPS, for so many at once. Raises NoDaemon."""
        split = self._spec.cpus == "split" and at_once > 1
        sets = cpus.sets(host.nodes(), at_once) if split else []
        threads = cpus.threads(host.cores(), at_once)
        self.open(at_once)
        weights = [task.weight for task in found]
        placed = []
        for place, task in enumerate(found):
            env = dict(task.env)
            if split and THREADS not in environ:
                env.setdefault(THREADS, str(threads))
            if self.mps is not None:
                env |= self.mps.environment(task.weight, weights, task.job.memory)
            own = sets[place % len(sets)] if sets else frozenset[int]()
            placed.append(replace(task, env=env, cpus=own))
        return placed

    def open(self, procs: int) -> None:
        """Find the MPS daemon, once it is known that several are to run, and on which card. Raises NoDaemon."""
        if self.mps is not None or procs < 2:
            return
        if self.card is None:
            if self._spec.mps == "on":
                raise NoDaemon(self._cards.why)
            return
        self.mps = Mps(self._spec.mps, procs, self.card.capability, self._spec.folder or self._spec.logs)
        if self._spec.mps != "off":
            self._note(self.mps.says)

    def close(self) -> None:
        """Give back what was started for this run."""
        if self.mps is not None:
            self.mps.stop()
