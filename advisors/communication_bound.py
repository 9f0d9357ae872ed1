"""The ranks have done their work, and the step waits for their gradients to be exchanged.

What it sees: the shortest time that any rank stands at the reduction of a step, which is communication alone, for
the last one to come waits for nobody; the bytes, the messages they went in, what ran hidden beside the backward
pass, and what a ring would take over the interface that they left by. The share is left out in which the ranks' threads
would queue for a CPU in any case, as they do in forward passes: that is no link's fault. Where strangers use the CPUs,
the quickest quarter of the rounds says what the exchange takes.

Why it matters: a ring of n ranks sends each gradient 2(n-1)/n times over the slowest link and waits for 2(n-1)
latencies a message. While it does, all devices idle. More ranks do not help then: each gets less to compute for the
same exchange.

What to do: exchange less often (gradient accumulation under `no_sync()`), less (`bf16_compress_hook`), in fewer
messages where latency counts (`bucket_cap_mb`, coalesced calls), over a faster link (NCCL over InfiniBand or NVLink
instead of TCP), or give each rank more to compute (a larger batch, fewer ranks). Where a ring over the link would take
much less than was measured, the link is not what the kernel says of it, or not the limit: measure it (`gputune doctor
--network A B`), look at who else uses it, at segments that were sent again and packets that were dropped, at
`GLOO_SOCKET_IFNAME` or `NCCL_SOCKET_IFNAME`, and at the CPUs that copy.

FSDP gathers its weights for every batch, whether gradients are accumulated or not: there a larger batch is advised, in
which the same exchange goes with more work, behind more of which it hides.

When it is wrong: when all ranks are held up by something that they share and that is not the link, such as a file
system that each of them writes to. On devices what is timed is how long the stream stands still, DDP's copies of
buckets into gradients included; what runs beside the backward pass is known of FSDP and of DDP's first steps
(docs/ranks.md). What a link can do is what the kernel says of it (`/sys/class/net/*/speed`): virtual ones say nothing,
a switch behind it may be slower.

Sources: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009 (the cost of a
ring); Li et al., "PyTorch Distributed: experiences on accelerating data parallel training", VLDB 2020 (buckets,
overlap, `no_sync`); `torch.distributed.algorithms.ddp_comm_hooks.default_hooks`, PyTorch documentation.
"""

from collections.abc import Iterator
from dataclasses import replace

from gputune.core.figures import TINY
from gputune.core.figures import size as bytes_of
from gputune.core.finding import Finding, Setting, Speedup
from gputune.core.hygiene import clean
from gputune.features import Features, Network
from gputune.model.rank_team import Team, team
from gputune.model.workload import CROWD

CHECKLIST = ("network wait",)

ALPHA = 50e-6  # s a hop of a message over TCP on one machine or in one rack; tenths of it on NVLink
LEAST = 0.10  # of the loop: below it no change to communication is worth its effort
SMALL = 0.05  # of the round that communication may keep after the advice
STEPS = (2, 4, 8)  # micro-batches between two exchanges that people type
HALF = 0.5  # bfloat16 instead of float32
BACK = (0.25, 0.5)  # of what ran hidden beside the backward pass: likely, and at most, what its CPU gives back then
CARRIED = 0.5  # of what a ring sends: an interface that sent less is not the one that it went over
FAR = 20.0  # times what a ring over the link takes: copies by one CPU make a tenth of the fastest links
RESENT = 0.001  # of TCP's segments: a link in order loses one in a million
SLOWEST = 1e8  # B/s: nobody trains over a slower link; where less was sent, it is the messages that take so long
SUSPECT = "suspect the network: "
MEASURE = "measure the link (gputune doctor --network A B, two machines' agents), and mend it before the script; or "
FEW = 2  # messages: fewer cannot be made of them


def advise(run: Features) -> Iterator[Finding]:
    ranks = team(run)
    if ranks is None:
        return
    exposed = exchange(ranks, disturbed=(run.machine.others or 0.0) >= CROWD)
    if exposed * ranks.together >= LEAST * ranks.seconds:
        yield _finding(run, ranks, exposed)


def exchange(ranks: Team, *, disturbed: bool = False) -> float:
    """Return the s of a round that the exchange holds all ranks up, other queues at the CPUs left out."""
    taken = min(ranks.communication, ranks.undisturbed) if disturbed else ranks.communication
    return taken * (1 - ranks.crowded)


def ring(size: float, ranks: int, messages: float, rate: float, alpha: float = ALPHA) -> float:
    """Return the s of an all-reduce of `size` B by a ring of `ranks` over links of `rate` B/s."""
    return sent(size, ranks) / rate + latency(ranks, messages, alpha)


def sent(size: float, ranks: int) -> float:
    """Return the B that an all-reduce of `size` B sends over each link of a ring."""
    return 2 * (ranks - 1) / ranks * size


def latency(ranks: int, messages: float, alpha: float = ALPHA) -> float:
    """Return the s of it that no faster link would save: 2(n-1) hops a message."""
    return 2 * (ranks - 1) * alpha * messages


def link(network: Network | None, ranks: Team) -> Network | None:
    """Return the interface that the exchange went over; None where it left no machine."""
    needed = sent(ranks.mean(lambda m: m.size), len(ranks.ranks)) / ranks.seconds
    if network is None or not needed or network.sent < CARRIED * needed:
        return None
    return network


def _finding(run: Features, ranks: Team, exposed: float) -> Finding:
    count = len(ranks.ranks)
    size, calls = ranks.mean(lambda m: m.size), ranks.mean(lambda m: m.calls)
    hidden = ranks.mean(lambda m: m.hidden)
    rate = sent(size, count) / max(TINY, exposed + hidden)  # with all that the messages wait for each other
    gathered = ranks.mean(lambda m: m.gathered) > HALF
    left = uncovered if gathered else lambda _ranks, exposed, _times: exposed
    every = next((n for n in STEPS if left(ranks, exposed, n) / n <= SMALL * ranks.seconds), STEPS[-1])
    gain = (enlarged if gathered else accumulated)(ranks, exposed, every, on_host=not run.devices)
    waits = min(exposed, latency(count, calls))  # of what is exposed, what latency alone explains
    stuck = max(waits, exposed - sent(size, count) / SLOWEST)  # and what no link explains
    halved = ranks.gain(list(map(max, ranks.owns)), ranks.communication - (exposed - stuck) * HALF)
    told, could = _of_link(link(run.network, ranks), size, count, calls, exposed + hidden)
    suspect, first = (SUSPECT, MEASURE) if "link_off" in could else ("", "")
    how = f"a batch {every} times as large" if gathered else f"the exchange every {every} batches"
    messages = calls if stuck > HALF * exposed else 0.0
    return Finding(
        id="communication-bound",
        says=(
            f"{suspect}{exposed / ranks.seconds:.0%} of each step all {count} ranks wait for the exchange of "
            f"{'weights and gradients' if gathered else 'gradients'}: "
            f"{bytes_of(size)} in {calls:.3g} messages at {bytes_of(rate)}/s, {exposed * 1e3:.3g} ms beside "
            f"{ranks.working * 1e3:.3g} ms of work{told}"
        ),
        do=first + (_of_sharded(every, halved.likely) if gathered else _rarer(every, halved.likely, messages)),
        share_lost=1 - 1 / max(1.0, gain.likely),
        speedup=gain,
        basis=f"the measured rounds, exchange and optimizer step once in {every}; a ring's cost for the alternatives",
        falsified_by=f"samples/s with {how} below x{gain.low:.2f} of this run's",
        effect="changes-learning",
        evidence={
            "share": exposed / ranks.seconds,
            "exchange_s": exposed,
            "hidden_s": hidden,
            "working_s": ranks.working,
            "displaced_s": ranks.displaced,
            "size_B": size,
            "messages": calls,
            "ranks": float(count),
            "rate_B_per_s": rate,
            "alpha_s": ALPHA,
            "latency_s": stuck,
            "accumulate": float(every),
            "bf16": halved.likely,
            **could,
        },
        change=_larger(ranks, every) if gathered else {"gradient_accumulation": every},
    )


def _larger(ranks: Team, times: int) -> dict[str, Setting]:
    """Return the setting of a batch so many times as large; {} where the ranks' batches are not known, or differ."""
    sizes = {loader.batch_size for rank in ranks.ranks for loader in rank.loaders if loader.training}
    size = sizes.pop() if len(sizes) == 1 else None
    return {"batch_size": size * times} if size else {}


def _of_sharded(times: int, halved: float) -> str:
    """Return what helps ranks that gather weights: to gather them for more work, or with half the bytes so much."""
    return (
        f"a batch {times} times as large, if the devices' memory has room; or keep weights from the forward to the "
        "backward pass (reshard_after_forward=False), exchange bfloat16 (MixedPrecision, "
        f"×{halved:.2g}), or shard over fewer ranks"
    )


def _rarer(every: int, halved: float, messages: float) -> str:
    """Return what helps ranks that reduce gradients: half the bytes, or fewer messages where these take the time."""
    rarer = f"exchange every {every} batches (gradient accumulation under no_sync()); or "
    if messages > FEW:
        return f"{rarer}in fewer messages: all gradients as one tensor, larger buckets (bucket_cap_mb)"
    if messages:
        return f"{rarer}with more work between two of them (a larger batch), or with fewer ranks"
    return f"{rarer}send bfloat16 (bf16_compress_hook, ×{halved:.2g}), in larger buckets, or with fewer ranks"


def _of_link(over: Network | None, size: float, ranks: int, calls: float, took: float) -> tuple[str, dict[str, float]]:
    """Return what a ring over the link would take, and what the link did, in words and as evidence.

    `link_off`, how many times as long the exchange took, is there where that is too much to be the link as it is told.
    """
    if over is None:
        return "", {}
    name, could = clean(over.interface), {"link_most_B_per_s": over.most} if over.most else {}
    carried = f"{name} carried {bytes_of(over.most)}/s at the most"
    if over.rate is None:
        return f"; {carried}{_signs(over)}" if over.most else "", could
    least = ring(size, ranks, calls, over.rate)
    could |= {"link_B_per_s": over.rate, "link_ring_s": least}
    said = f"; a ring over {name} ({bytes_of(over.rate)}/s) takes {least * 1e3:.3g} ms"
    if took < FAR * least:
        return said + _signs(over), could
    return f"{said}, but {carried}{_signs(over)}", {**could, "link_off": took / least}


def _signs(over: Network) -> str:
    """Return what the kernel says against an interface, as a clause."""
    signs = [f"{over.resent:.1%} of TCP's segments were sent again"] if (over.resent or 0.0) >= RESENT else []
    signs += [f"it dropped {over.dropped:.3g} packets a second"] if over.dropped >= 1 else []
    signs += [f"its MTU is {over.mtu} B"] if signs and over.mtu else []
    return f", {', '.join(signs)}" if signs else ""


def accumulated(ranks: Team, exposed: float, every: int, *, on_host: bool = True) -> Speedup:
    """Return what it buys to exchange and step only once in `every` batches.

    At the least, what is the exchange's own for sure, and what is done with the gradients, where that is known: what a
    host takes to launch it is not what its device does. Likely all that ranks stand there. On the host it takes CPUs
    from the ranks, too: they queue less without it, begin no round cold, and get back some of the caches and the memory
    bandwidth that it had beside their backward passes: nobody knows how much.
    """
    less = 1 - 1 / every
    displaced = ranks.displaced
    update = min(ranks.mean(lambda m: m.update), ranks.working)
    hidden = max(0.0, min(ranks.mean(lambda m: m.hidden), HALF * ranks.working) - displaced)

    def gain(saved: float, back: float, done: float = update) -> Speedup:
        spared = less * (done + displaced + back)
        works = [max(0.0, max(own) - spared) for own in ranks.owns]
        return ranks.gain(works, ranks.communication - saved * less)

    likely = gain(ranks.communication, BACK[0] * hidden if on_host else 0.0)
    most = gain(ranks.communication, BACK[1] * hidden)
    least = gain(exposed, 0.0, update if on_host else 0.0)
    return replace(likely, low=least.low, high=most.high, steady=least.steady)


def uncovered(ranks: Team, exposed: float, times: int) -> float:
    """Return the s of an exchange that stay exposed in rounds of so many times the work, which hides more of it."""
    return max(0.0, exposed - (times - 1) * min(ranks.mean(lambda m: m.hidden), ranks.working))


def enlarged(ranks: Team, exposed: float, times: int, *, on_host: bool = True) -> Speedup:
    """Return what a batch so many times as large buys, in samples/s, where each needs one exchange, however large.

    At the least the work is as many times as long and hides no more of the exchange than it does now; likely it hides
    as many times as much. At the most the device is busy in the larger step whenever its host was late in the smaller
    ones: it works as in the quickest quarter of the rounds.
    """
    least = accumulated(ranks, exposed, times, on_host=on_host)
    works = [max(own) for own in ranks.owns]
    quick = sorted(works)[len(works) // 4]
    likely = ranks.gain(works, uncovered(ranks, ranks.communication, times) / times)
    most = ranks.gain([min(work, quick) for work in works], 0.0)
    return replace(
        likely,
        low=min(least.low, likely.low),
        high=max(likely.high, min(most.likely, float(times))),
        steady=min(least.sure, likely.sure),
    )
