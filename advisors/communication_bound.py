"""The ranks have done their work, and the step waits for their gradients to be exchanged.

What it sees: the shortest time that any rank stands at the reduction of a step, which is communication alone, for
the last one to come waits for nobody; the bytes, the messages they went in, and what ran hidden beside the backward
pass. Of it the share is left out in which the ranks' threads stood in a queue for a CPU: that is no link's fault.

Why it matters: a ring of n ranks sends each gradient 2(n-1)/n times over the slowest link and waits for 2(n-1)
latencies a message. While it does, all devices idle. More ranks do not help then: each gets less to compute for the
same exchange.

What to do: exchange less often (gradient accumulation under `no_sync()`), less (`bf16_compress_hook`), in fewer
messages where latency counts (`bucket_cap_mb`, coalesced calls), over a faster link (NCCL over InfiniBand or NVLink
instead of TCP), or give each rank more to compute (a larger batch, fewer ranks).

When it is wrong: when all ranks are held up by something that they share and that is not the link, such as a file
system that each of them writes to; on devices only DistributedDataParallel's own clocks are known.

Sources: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009 (the cost of a
ring); Li et al., "PyTorch Distributed: experiences on accelerating data parallel training", VLDB 2020 (buckets,
overlap, `no_sync`); `torch.distributed.algorithms.ddp_comm_hooks.default_hooks`, PyTorch documentation.
"""

from collections.abc import Iterator
from dataclasses import replace

from gputune.features import Features
from gputune.finding import Finding, Speedup
from gputune.team import Team, team

CHECKLIST = ("network wait",)

ALPHA = 50e-6  # s a hop of a message over TCP on one machine or in one rack; tenths of it on NVLink
LEAST = 0.10  # of the round: below it no change to communication is worth its effort
SMALL = 0.05  # of the round that communication may keep after the advice
STEPS = (2, 4, 8)  # micro-batches between two exchanges that people type
HALF = 0.5  # bfloat16 instead of float32
OWN_WIDENS = 0.5  # of what ran hidden beside the backward pass: how much of it a CPU gives back when it stays away


def advise(run: Features) -> Iterator[Finding]:
    ranks = team(run)
    if ranks is not None and exchange(ranks) >= LEAST * ranks.seconds:
        yield _finding(ranks)


def exchange(ranks: Team) -> float:
    """Return the mean s of a round that the exchange holds all ranks up, queues at the CPUs left out."""
    own = ranks.mean(lambda m: m.own)
    return ranks.communication * (1 - min(1.0, ranks.mean(lambda m: m.queued) / own if own else 0.0))


def ring(size: float, ranks: int, messages: float, rate: float, alpha: float = ALPHA) -> float:
    """Return the s of an all-reduce of `size` B by a ring of `ranks` over links of `rate` B/s."""
    return 2 * (ranks - 1) / ranks * size / rate + latency(ranks, messages, alpha)


def latency(ranks: int, messages: float, alpha: float = ALPHA) -> float:
    """Return the s of it that no faster link would save: 2(n-1) hops a message."""
    return 2 * (ranks - 1) * alpha * messages


def _finding(ranks: Team) -> Finding:
    count = len(ranks.ranks)
    size, calls = ranks.mean(lambda m: m.size), ranks.mean(lambda m: m.calls)
    exposed = exchange(ranks)
    hidden = ranks.mean(lambda m: m.hidden)
    waits = min(exposed, latency(count, calls))  # of what is exposed, what latency alone explains
    rate = 2 * (count - 1) / count * size / max(1e-9, exposed + hidden - waits)
    every = next((n for n in STEPS if exposed / n <= SMALL * ranks.seconds), STEPS[-1])
    gain = accumulated(ranks, every)
    halved = ranks.gain(max, ranks.communication - (exposed - waits) * HALF)
    link = f"{size / 1e6:.3g} MB in {calls:.3g} messages at {rate / 1e6:.3g} MB/s"
    return Finding(
        id="communication-bound",
        says=(
            f"{exposed / ranks.seconds:.0%} of each step all {count} ranks wait for the exchange of gradients: "
            f"{link}, {exposed * 1e3:.3g} ms beside {ranks.working * 1e3:.3g} ms of work"
        ),
        do=(
            f"exchange every {every} batches (gradient accumulation under no_sync()); or send bfloat16 "
            f"(bf16_compress_hook, ×{halved.likely:.2g}), in larger buckets, or with fewer ranks"
        ),
        share_lost=1 - 1 / max(1.0, gain.likely),
        speedup=gain,
        basis=f"the measured rounds, exchange and optimizer step once in {every}; a ring's cost for the alternatives",
        falsified_by=f"samples/s with the exchange every {every} batches below x{gain.low:.2f} of this run's",
        effect="changes-learning",
        evidence={
            "share": exposed / ranks.seconds,
            "exchange_s": exposed,
            "hidden_s": hidden,
            "working_s": ranks.working,
            "size_B": size,
            "messages": calls,
            "ranks": float(count),
            "rate_B_per_s": rate,
            "alpha_s": ALPHA,
            "latency_s": waits,
            "ring_s": ring(size, count, calls, rate),
            "accumulate": float(every),
            "bf16": halved.likely,
        },
        change={"gradient_accumulation": every},
    )


def accumulated(ranks: Team, every: int) -> Speedup:
    """Return what it buys to exchange and step only once in `every` batches.

    The transfer that ran beside the backward pass took CPU and memory bandwidth from it: that may come back, too.
    """
    spared = (1 - 1 / every) * min(ranks.mean(lambda m: m.update), ranks.working)
    gain = ranks.gain(lambda own: max(own) - spared, ranks.communication - exchange(ranks) * (1 - 1 / every))
    back = OWN_WIDENS * min(ranks.mean(lambda m: m.hidden), HALF * ranks.working) * (1 - 1 / every)
    return replace(gain, high=gain.high * (1 + back / max(1e-9, ranks.working - spared)))
