"""The number of copies that does most, by trying: from the predicted one up while each more pays in full, else down."""


class Climb:
    """Rates of so many copies together, in any unit; that of one alone is known before."""

    def __init__(self, alone: float, most: int) -> None:
        self._rates = {1: alone}
        self._most = most

    def following(self, copies: int, rate: float) -> int | None:
        """Learn what so many do together; return how many are to be tried next, None when enough is known."""
        self._rates[copies] = rate
        alone = self._rates[1]
        # 0.92 of N times one alone: nothing is full yet, so one more is tried
        if rate >= 0.92 * copies * alone and copies + 1 <= self._most and copies + 1 not in self._rates:
            return copies + 1
        # 0.97 of it: one fewer may do as much
        if rate < 0.97 * copies * alone and copies - 1 not in self._rates and copies > 2:
            return copies - 1
        return None

    @property
    def tried(self) -> bool:
        """Return whether any number but one was measured."""
        return len(self._rates) > 1

    def best(self) -> tuple[int, float]:
        """Return the fewest copies that do about as much as any, and what they do."""
        most = max(self._rates.values())
        # 0.98 of the best that was measured: the fewest copies that reach it are taken
        copies = min(n for n, rate in self._rates.items() if rate >= 0.98 * most)
        return copies, self._rates[copies]


class Halving(Climb):
    """Several copies with fewer threads each against one that has all: half as many, as long as that does more."""

    def following(self, copies: int, rate: float) -> int | None:
        """Learn what so many do together; return how many are to be tried next, None when enough is known."""
        more = self._rates.get(2 * copies, 0.0)
        self._rates[copies] = rate
        return copies // 2 if rate > more and copies // 2 > 1 else None
