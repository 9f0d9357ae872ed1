"""What is said of a training that was only looked at from outside: how sure its ledger is, and how to learn more."""

import math

from gputune.core.hygiene import PHRASE, clean
from gputune.gathering.sampled import LEAST_LOOKS
from gputune.report.words import percent
from gputune.verdict.document import Attached, Verdict


def sentence(verdict: Verdict) -> str:
    """Return how many stacks the ledger rests on, and how far its largest shares may be off."""
    if verdict.attached is None or not verdict.ledger:
        return ""
    times = "look" if verdict.attached.looks == 1 else "looks"
    of = f"from {verdict.attached.stacks:,} stacks in {verdict.attached.looks} {times}"
    rows = [row for row in verdict.ledger[:3] if row.margin is not None]  # of the ledger, with their margins
    if not rows:
        return f"{of}, too few to say how sure that is: {_longer(verdict, verdict.attached)}"
    shares = ", ".join(f"{row.span} {percent(row.share)} ± {max(1, round((row.margin or 0) * 100))}" for row in rows)
    return f"{of}: {shares} (95%){_step(verdict.attached)}{_place(verdict)}"


def _step(attached: Attached) -> str:
    """Return what the step is made of, where that is more than one thing."""
    # A part of the step is worth a word from 0.02 of all stacks on
    parts = [f"{clean(row.part, PHRASE)} {percent(row.share)}" for row in attached.step if row.share >= 0.02]
    return f"; of the step {', '.join(parts)}" if len(parts) > 1 else ""


def _longer(verdict: Verdict, attached: Attached) -> str:
    """Return for how long to look, at the pace of these looks; each process needs its own."""
    many = sum(not p.seen for p in verdict.processes)
    seconds = math.ceil(verdict.wall_s * LEAST_LOOKS * many / attached.looks)
    each = " at each process" if many > 1 else ""
    return f"that takes {LEAST_LOOKS} looks{each}, at this rate `--for {seconds}s`"


def _place(verdict: Verdict) -> str:
    """Return the line of the user's code that was met most."""
    top = verdict.frames[0] if verdict.frames else None
    return f"; most at {clean(top.where, PHRASE)} in {clean(top.function, PHRASE)}, {percent(top.share)}" if top else ""


NEXT = "next: start it with `gputune watch -- CMD` to learn the cause and what a change would bring"
