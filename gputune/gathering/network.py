"""The part of the gatherer that knows the network: the interface that sent most during the loop, and what it can."""

from typing import Protocol

from gputune.features import Network
from gputune.gathering.storage import Rate


class Host(Protocol):
    """What is asked of the host: paces over the loop, and what was said of interfaces."""

    rates: dict[tuple[str, str], Rate]
    links: dict[str, float]


def network(host: Host) -> Network | None:
    """Return the interface over which this machine sent most, None where none was seen."""
    sent = {name: rate.mean for (metric, name), rate in host.rates.items() if metric == "net.sent"}
    known = {name: pace for name, pace in sent.items() if pace is not None}
    if not known:
        return None
    busiest = max(known, key=lambda name: known[name])
    return Network(interface=busiest, sent=known[busiest], rate=host.links.get(busiest) or None)
