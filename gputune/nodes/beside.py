"""An agent beside a command: `gputune agent -- CMD`, as a job's launcher starts it once a rank.

The launcher's process becomes the command, so its status, its signals and its terminal are the command's own. The agent
is nobody's child, leaves with the command, and there is one of it a node: the first local rank starts it, and where a
launcher does not say which that is, the lock of the agent's folder decides.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import replace

from gputune.core.errors import GputuneError
from gputune.core.hygiene import clean
from gputune.launch import program
from gputune.launch.descriptors import close_others, null, say
from gputune.nodes.agent import AgentOptions, run
from gputune.wire import places

# Set by torchrun, Open MPI, MPICH and Intel MPI, Horovod, SLURM; the innermost launcher first. A PyTorchJob sets none:
# each of its pods has its own agent.
LOCAL_RANK = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "HOROVOD_LOCAL_RANK", "SLURM_LOCALID")


def is_first(environ: Mapping[str, str]) -> bool:
    """Return whether a launcher calls this process the first of its node, or says nothing of it."""
    told = next((environ[name] for name in LOCAL_RANK if name in environ), "0")
    return told.strip() in {"", "0"}


def beside(wishes: AgentOptions, command: tuple[str, ...]) -> int:
    """Start an agent if we are the first here, and become the command. Returns only where that was not possible."""
    try:
        program.find(command[0], os.environ.get("PATH", os.defpath))  # else an agent would say first that it serves
        if is_first(os.environ):
            start(replace(wishes, with_pid=os.getpid()))
        program.become(command, dict(os.environ))
    except program.NotStarted as refused:
        say(str(refused))
        return refused.status
    return program.OURS


def start(wishes: AgentOptions) -> None:
    """Start an agent that is not our child: a command that waits for all of its own must not meet a stranger."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if not os.fork():
            _agent(wishes)
    finally:
        os._exit(0)


def _agent(wishes: AgentOptions) -> None:
    """Be the agent. What fails is said once, on the command's stderr, before the agent lets go of that."""
    close_others(set())
    null(0)
    null(1)
    try:
        run(replace(wishes, hush=True))
    except places.Runs:
        return
    except GputuneError as error:
        say(f"gputune: no agent runs here: {clean(str(error.args[0]))}\n")
    except Exception as error:  # noqa: BLE001 - the command goes on without it
        say(f"gputune: no agent runs here ({clean(f'{type(error).__name__}: {error}')})\n")
