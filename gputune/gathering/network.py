"""The part of the gatherer that knows the network: the interface that sent most during the loop, and what it can."""

from gputune.features import Network
from gputune.gathering.host import HostMeans


def network(host: HostMeans) -> Network | None:
    """Return the interface over which this machine sent most, None where none was seen."""
    sent = {name: rate.mean for (metric, name), rate in host.rates.items() if metric == "net.sent"}
    known = {name: pace for name, pace in sent.items() if pace is not None}
    if not known:
        return None
    busiest = max(known, key=lambda name: known[name])
    segments, resent = (_pace(host, name) for name in ("net.segments", "net.resent"))
    return Network(
        interface=busiest,
        sent=known[busiest],
        rate=host.links.get(busiest) or None,
        most=host.rates["net.sent", busiest].best,
        resent=resent / segments if segments and resent is not None else None,
        dropped=_pace(host, "net.dropped", busiest) or 0.0,
        mtu=host.largest.get(busiest, 0),
    )


def _pace(host: HostMeans, metric: str, instance: str = "") -> float | None:
    rate = host.rates.get((metric, instance))
    return rate.mean if rate is not None else None
