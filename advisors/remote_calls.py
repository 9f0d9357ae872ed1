"""The training waits for calls to another process (`torch.distributed.rpc`): a parameter server's pulls and pushes.

What it sees: the time that the training thread stands in `rpc_sync`, `RRef.to_here` and in `wait()` of asynchronous
calls, and the line that calls. What the other process does in it, the transfer, and its queue of other callers are not
told apart.

Why it matters: a call and its answer cross the network once each, and one server steps for all its trainers in turn;
the trainer's device idles until the answer has come.

What to do: accumulate gradients over several batches before they are sent; call without waiting (`rpc_async`) and wait
a batch later, which hides as much as a batch takes; spread the parameters over more servers; or reduce gradients among
the trainers (`DistributedDataParallel`), where no server is in the way.

When it is wrong: when the call does work that the trainer would have to do itself otherwise (a model in parts on
several machines, an environment that is stepped there). Then rarer calls are none to have.

Sources: "Implementing Batch RPC Processing Using Asynchronous Executions" and "Getting Started with Distributed RPC
Framework", PyTorch tutorials; Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014.
"""

from collections.abc import Iterator
from dataclasses import replace

from gputune.core.finding import Finding
from gputune.features import Features, Process
from gputune.model import pauses

CHECKLIST = ("network wait",)

CALLS = frozenset({"torch.distributed.rpc.rpc_sync", "RRef.to_here", "Future.wait"})
MOST = 0.5  # of the communication: with less, it is another cause that is to be named
WORDS = pauses.Words(
    id="remote-calls",
    span="collective",
    one="waiting for a remote call",
    verb="call",
    change="gradient_accumulation",
    least=0.10,  # of the loop: as for any other exchange, below it no change is worth its effort
    affordable=0.05,  # of the loop that exchange may keep after the advice
)


def advise(run: Features) -> Iterator[Finding]:
    callers = tuple(filter(_calls, run.processes))
    finding = pauses.advise_pause(replace(run, processes=callers), WORDS) if callers else None
    if finding is not None:
        every = finding.change[WORDS.change]
        yield replace(
            finding,
            do=(
                f"send gradients every {every} batches (accumulate them in between); or call without waiting "
                "(`rpc_async`) and wait a batch later, spread the parameters over more servers, or reduce gradients "
                "among the trainers (`DistributedDataParallel`)"
            ),
            effect="changes-learning",
            because="",
        )


def _calls(process: Process) -> bool:
    met = [place for place in process.places if place.span == WORDS.span]
    return sum(p.seconds for p in met if p.what in CALLS) > MOST * sum(p.seconds for p in met)
