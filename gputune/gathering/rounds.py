"""How often a process's loop comes round: by its optimizers' steps, or by backward passes where nobody makes steps."""

from collections import Counter

from gputune.core.units import NS

TOGETHER = 8  # optimizers at the most that are taken to step in the same rounds
WITHOUT_STEP = 8  # backward passes without any optimizer's step: more do not gather their gradients for one


class Rounds:
    """Counts them. `by_batches`: the training asks a loader for batches, whose number counts the rounds then."""

    def __init__(self) -> None:
        self.by_batches = False
        self.steps = 0  # of all optimizers
        self.last = 0  # ns, of a step
        self.beats: list[float] = []  # s between the first steps
        self._come = 0  # batches
        self._passes = 0  # backward passes before any batch and any step
        self._by_optimizer: Counter[int] = Counter()

    def step(self, at: int, optimizer: int) -> None:
        """Take the end of the step of an optimizer (its number) at `at` (ns)."""
        # 32 steps whose distances are kept, the first ones: then their number says enough
        if self.steps and len(self.beats) < 32:
            self.beats.append((at - self.last) / NS)
        self.last = at
        self.steps += 1
        if optimizer in self._by_optimizer or len(self._by_optimizer) <= TOGETHER:
            self._by_optimizer[optimizer] += 1

    def came(self, *, ends: bool) -> int:
        """Take a batch, or that a pass over them `ends`; return how many steps are over by then."""
        over = self._come
        self._come += not ends
        return over

    def backward(self) -> bool:
        """Take a backward pass; return whether it is what repeats, where nobody makes steps or asks for batches."""
        if not self.steps and not self.by_batches:
            self._passes += 1
        return self.by_passes

    @property
    def by_passes(self) -> bool:
        """Return whether its loop is told by backward passes alone: somebody updates the weights by hand."""
        return self._passes > WITHOUT_STEP and not self.steps and not self.by_batches

    @property
    def count(self) -> int:
        """Return how many optimizer steps there were; without a DataLoader, how many rounds: each may step several.

        An actor and its critic step in turn; who makes an optimizer for each round makes many.
        """
        if self.by_passes:
            return self._passes - WITHOUT_STEP
        if self.by_batches or len(self._by_optimizer) > TOGETHER:
            return self.steps
        return max(self._by_optimizer.values(), default=0)
