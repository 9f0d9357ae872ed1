"""How much of a training's time may go into trying what holding something back does: what `watch --perturb` says."""

import os

USUAL, MOST = 0.003, 0.03  # of the time: without a word, and whatever is said
AHEAD = 50_000_000  # ns that may be spent in advance, or
SELDOM = 20_000_000_000  # ns between those


def share():
    """Return that share; 0 where it may not be done at all, as in a trial, whose times are compared."""
    if os.environ.get("GPUTUNE_TRIAL"):
        return 0.0
    try:
        return min(MOST, max(0.0, float(os.environ.get("GPUTUNE_GUEST_PERTURB") or USUAL)))
    except ValueError:
        return USUAL


def odds(number):
    """Return how much longer than usual the pause after the `number`th time is: no rhythm, for one may be theirs."""
    return 0.5 + (number * 2654435761 & 0xFFFF) / 0x10000


def heard():
    """Return whether anybody still listens; asked before something is held back, which is seldom."""
    return os.path.isdir(os.environ.get("GPUTUNE_RINGS", ""))


class Purse:
    """What experiments of one kind may cost of the training's time, and have cost so far: ns. The one account of it.

    Each kind has its own, for what one kind costs another does not: a device, or workers, that set the pace hide what
    the thread is late by, and a thread that sets it hides theirs. Whoever spends from it says what it cost in truth.
    """

    def __init__(self, share):
        self.share = share
        self.began = self.spent = 0

    def begin(self, t):
        """Learn that the loop is under way at `t`: its share grows from the first such moment on."""
        self.began = self.began or t

    def left(self, t, ahead=None):
        """Return how many ns may be spent at `t`, so many of them in advance; None: AHEAD of the usual share."""
        self.begin(t)
        ahead = AHEAD * self.share / USUAL if ahead is None else ahead
        return self.share * (t - self.began) + ahead - self.spent if self.share else 0

    def may(self, t, cost, ahead=None):
        """Return whether so many may be."""
        return bool(self.share) and cost <= self.left(t, ahead)

    def spend(self, cost):
        """Spend so many ns."""
        self.spent += cost


class Spending(Purse):
    """That of holding the device back, which may make up for a hold: then it has cost nothing."""

    def __init__(self, share):
        super().__init__(share)
        self.latest = 0
        self.owed = 0  # of the latest hold, while the device may still make up for it
        self.behind = 0  # that the device was behind the host at the end of the latest step before it

    def may_hold(self, t, cost, done, usual):
        """Return whether a hold may be made at `t`, after so many that were made likewise; `usual`: a step's ns."""
        # 1.5 steps, where that is more: each part of one may be held once, on which a short run rests
        ahead = max(AHEAD, 1.5 * usual) * self.share / USUAL
        # 8 holds of each part that are made as soon as they may; later ones seldom
        return self.may(t, cost, ahead) and (done < 8 or t - self.latest >= SELDOM)

    def hold(self, cost):
        """Spend so many ns on a hold, which the device may make up for."""
        self.spend(cost)
        self.owed = cost

    def made_up(self, step, behind, usual):
        """Take back what the latest hold cost, once the device is no further behind than before, if nobody waited.

        Behind a full queue it never is, and the host has stood in launches meanwhile: there it is steps behind.
        """
        if any(len(step.joins) > part for part in step.held):  # the host waited for what was held
            self.owed = 0
        if self.owed and step.start.t >= self.latest:
            if step.joins:
                self.owed = 0
            elif behind <= min(self.behind + self.owed // 10, usual // 2):
                self.spent -= self.owed
                self.owed = 0
        elif not step.held:
            self.behind = behind
