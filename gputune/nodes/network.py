"""The link between two agents, and the exchanges of runs held against it: `gputune doctor --network A B`.

An exchange is what the ranks of a run send each other in a step: known of a recorded run from all of its rounds, of the
runs that the two agents show from the evidence of `communication-bound`, where they have that finding.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from gputune.advisors.communication_bound import ring
from gputune.core.errors import BadUsage
from gputune.core.figures import size
from gputune.core.hygiene import clean
from gputune.feeds.rows import RunRow, Update, harmless
from gputune.model.rank_team import team
from gputune.report.rejudging import relive
from gputune.wire.address import Address
from gputune.wire.client import AgentClient, AgentFailed
from gputune.wire.credentials import Credentials
from gputune.wire.messages import LinkRate, Since

SECONDS = 2.0  # each way: a link's pace varies by some per cent from one second to the next
ALIKE = 2.0  # times: gloo and NCCL over TCP use half of a link or more; who takes longer is held up by something else
FINDING = "communication-bound"

Told = Literal["link", "slower", "faster", "unknown"]


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """What a run's ranks send each other in a step: B in so many messages, and the s that it took them."""

    run: str
    ranks: int
    size: float
    messages: float
    took: float


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """An exchange beside the s that a ring over the measured link needs for it.

    `told`: it is the link that they wait for; they are slower or faster than it; or its pace is not known well enough.
    """

    exchange: Exchange
    needs: float
    told: Told
    says: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints. `notes` are sentences on runs that could not be compared, and why."""

    schema_version: int = 1
    source: str
    target: str
    link: LinkRate
    exchanges: list[Compared] = []
    notes: list[str] = []


def between(
    source: Address, target: Address, known: Credentials | None, runs: Sequence[Path], seconds: float = SECONDS
) -> Report:
    """Have `source` measure its link to `target`, and compare the exchanges of `runs` and of what both of them show.

    Raises AgentFailed where no link was measured, BadUsage where none can be, NotARun and its like for `runs`.
    """
    if target.path:
        says = f"`{target.name}` is reached through a Unix socket, which leads there from here alone"
        raise BadUsage(says, hint=f"name it as {source.name} knows it: `--network {source.name} {target.name}:7070`")
    if source == target:
        raise BadUsage(f"`{source.name}` was named twice", hint="a link has two ends: `--network m8 m9`")
    found = [_recorded(folder) for folder in runs]  # what was typed wrong is said before anything is measured
    far = AgentClient(source, known)
    try:
        link = far.link(str(target), seconds)
    finally:
        far.close()
    shown = [] if runs else [_shown(address, known) for address in (source, target)]
    exchanges = {each.run: each for each, _ in [*found, *(pair for pairs in shown for pair in pairs)] if each}
    return Report(
        source=source.name,
        target=target.name,
        link=link,
        exchanges=[compared(each, link) for each in exchanges.values()],
        notes=[note for _, note in [*found, *(pair for pairs in shown for pair in pairs)] if note],
    )


def compared(one: Exchange, link: LinkRate) -> Compared:
    """Return an exchange beside what the link needs for it: a ring goes both ways, at the pace of the slower one."""
    needs = ring(one.size, one.ranks, one.messages, min(link.sent, link.received), link.answer / 2)
    told = _told(one.took / needs, at_least=link.sent_at_least or link.received_at_least)
    messages = f"{one.messages:.3g} message{'' if one.messages == 1 else 's'}"
    says = (
        f"{one.ranks} ranks exchange {size(one.size)} in {messages}, which takes them {one.took * 1e3:.3g} ms a step; "
        f"over this link it needs {needs * 1e3:.3g} ms{_words(told, one.took / needs)}"
    )
    return Compared(exchange=one, needs=needs, told=told, says=says)


def _told(ratio: float, *, at_least: bool) -> Told:
    if ratio > ALIKE:
        return "slower"
    if at_least:
        return "unknown"
    return "faster" if ratio < 1 / ALIKE else "link"


def _words(told: Told, ratio: float) -> str:
    return {
        "link": ": it is the link that they wait for",
        "slower": f", {ratio:.2g} times less: it is not the link that holds them up",
        "faster": ": they do not go over it, or it was in use while it was measured",
        "unknown": " or less: it carries more than could be measured, and whether they wait for it is not known",
    }[told]


Found = tuple[Exchange | None, str]


def _recorded(folder: Path) -> Found:
    """Return what the ranks of a recorded run exchange, or why that is not known."""
    name = clean(folder.resolve().name)
    features, _ = relive(folder)
    ranks = team(features)
    if ranks is None:
        return None, f"{name}: no ranks of one job were recorded there that all met each other often enough"
    if len({process.host for process in ranks.ranks}) < 2:
        return None, f"{name}: its ranks are all on one machine, and exchange nothing over this link"
    return Exchange(
        run=name,
        ranks=len(ranks.ranks),
        size=ranks.mean(lambda m: m.size),
        messages=ranks.mean(lambda m: m.calls),
        took=ranks.communication + ranks.mean(lambda m: m.hidden),
    ), ""


def _shown(address: Address, known: Credentials | None) -> list[Found]:
    """Return what the runs exchange that an agent shows, where they wait for it."""
    far = AgentClient(address, known)
    try:
        update = harmless(msgspec.json.decode(far.news(Since()).update, type=Update))
    except AgentFailed as failed:
        return [(None, f"{address.name}: its runs are not known here ({failed.why})")]
    except msgspec.DecodeError:
        return [(None, f"{address.name}: its runs are not understood")]
    finally:
        far.close()
    return [(each, "") for run in update.runs for each in _of(run)]


def _of(run: RunRow) -> Iterator[Exchange]:
    verdict = run.verdict
    if verdict is None or len({process.host for process in verdict.processes}) < 2:
        return
    apart = [
        process.apart_s for process in verdict.processes if process.apart_s is not None
    ]  # the last waits for nobody
    for finding in verdict.findings:
        told = finding.evidence
        if apart and finding.id == FINDING and {"ranks", "size_B", "messages"} <= told.keys():
            yield Exchange(
                run=clean(run.id.partition("/")[2] or run.id),
                ranks=int(told["ranks"]),
                size=told["size_B"],
                messages=told["messages"],
                took=min(apart) + told.get("hidden_s", 0.0),
            )
