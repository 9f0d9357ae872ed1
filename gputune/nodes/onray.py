"""Agents on the nodes of a Ray cluster: `gputune agent --ray ADDRESS`.

One actor is pinned to each live node and takes no resource there; it starts an agent as a process of its own, which
listens with TLS and a token. Nodes that join get one, nodes that die are told of. Certificates are made here, for each
node's address, and go to the actor through Ray: whoever may talk to a Ray cluster may run anything on it anyway.
"""

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gputune.core.errors import GputuneError
from gputune.core.hygiene import clean
from gputune.core.isolation import own_python
from gputune.host.clusters import connect
from gputune.launch.descriptors import say
from gputune.nodes.agent import signals
from gputune.wire import credentials
from gputune.wire.address import parse
from gputune.wire.client import AgentClient

LOOK_S = 1.0  # s between looks at which nodes live, and whether their agents answer
GENTLE = 5.0  # s that the agents have to end


@dataclass(slots=True)
class ClusterNode:
    """One node of the cluster. `state`: starting, up, silent (no answer of its agent), dead (Ray says so), failed."""

    id: str
    name: str
    address: str = ""
    state: str = "starting"
    actor: Any = None
    asked: Any = None
    far: AgentClient | None = None
    ping: Future[bool] | None = None
    again: Any = None  # asked once more where its agent is: Ray may have started it anew


class Hosted:
    """The actor: it holds one agent on its node, in a worker of Ray."""

    def __init__(self, files: dict[str, bytes], listen: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gputune-ray-")
        base = Path(self._folder.name)
        for name, data in files.items():
            with open(os.open(base / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123 - a descriptor
                file.write(data)
        words = [
            "--listen",
            listen,
            "--credentials",
            str(base),
            "--state",
            str(base / "state"),
            "--until-eof",
            "--quiet",
        ]
        words += ["--socket", str(base / "s" / "agent.sock"), "--announce", str(base / "announced")]
        self._agent = subprocess.Popen(
            [*own_python("from gputune.__main__ import main; main()"), "agent", *words], stdin=subprocess.PIPE
        )

    def where(self) -> str:
        """Return the address that the agent listens at; raise RuntimeError where it does not."""
        announced = Path(self._folder.name) / "announced"
        until = time.monotonic() + 20.0  # s for an agent to say where it listens
        while time.monotonic() < until and self._agent.poll() is None:
            if announced.exists():
                return str(json.loads(announced.read_text())["listen"])
            time.sleep(0.05)
        raise RuntimeError("the agent did not start")

    def end(self) -> None:
        """End the agent."""
        if self._agent.stdin is not None:
            self._agent.stdin.close()
        try:
            self._agent.wait(GENTLE)
        except subprocess.TimeoutExpired:
            self._agent.kill()
        self._folder.cleanup()


class ClusterAgents:
    """The agents of one cluster. `told` hears a sentence for each change."""

    def __init__(self, ray: Any, folder: Path, told: Callable[[str], None]) -> None:
        self._ray = ray
        self._folder = folder
        self._told = told
        self._pings = ThreadPoolExecutor(16, thread_name_prefix="gputune-ray")  # actors asked at once
        self.members: dict[str, ClusterNode] = {}
        credentials.make(folder, ["localhost"])
        self._known = credentials.read(folder, credentials.CLIENT)

    def look(self) -> None:
        """Meet nodes that have joined, mark those that have died, and hear of agents that have started."""
        alive = {}
        for node in self._ray.nodes():
            if node.get("Alive"):
                alive[str(node["NodeID"])] = node
        for id_, node in alive.items():
            if id_ not in self.members:
                self.members[id_] = self._join(id_, node)
        for member in self.members.values():
            if member.id not in alive and member.state != "dead":
                member.state, member.actor, member.asked, member.far = "dead", None, None, None
                self._told(f"node {member.name} is dead")
            elif member.asked is not None:
                self._hear(member)
            elif member.far is not None:
                self._ping(member, member.far)

    def _join(self, id_: str, node: dict[str, Any]) -> ClusterNode:
        name = clean(str(node.get("NodeManagerHostname") or id_[:8]), 64)
        host = str(node["NodeManagerAddress"])
        if any(other.name == name for other in self.members.values()):
            name = f"{name}-{id_[:6]}"
        pinned = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node_id=id_, soft=False)
        actor = self._ray.remote(Hosted).options(num_cpus=0, num_gpus=0, max_restarts=-1, scheduling_strategy=pinned)
        credentials.make(self._folder, [host])
        server = self._folder / credentials.SERVER
        files = {file.name: file.read_bytes() for file in server.iterdir() if not file.name.startswith(".")}
        listen = f"[{host}]:0" if ":" in host else f"{host}:0"
        handle = actor.remote(files, listen)
        return ClusterNode(id_, name, actor=handle, asked=handle.where.remote())

    def _hear(self, member: ClusterNode) -> None:
        done, _ = self._ray.wait([member.asked], timeout=0)
        if not done:
            return
        try:
            member.address, member.state = str(self._ray.get(member.asked)), "up"
            member.far = AgentClient(parse(f"{member.name}={member.address}"), self._known)
            self._told(f"node {member.name} is at {member.address}")
        except Exception as error:  # noqa: BLE001 - Ray's errors are many, and each means that there is no agent
            member.state = "failed"
            self._told(f"no agent on node {member.name}: {clean(str(error).strip().splitlines()[-1])}")
        member.asked = None

    def _ping(self, member: ClusterNode, far: AgentClient) -> None:
        """See whether its agent answers: Ray takes a quarter of a minute to notice that a node was killed."""
        if member.ping is not None and member.ping.done():
            state = "up" if member.ping.result() else "silent"
            if state != member.state:
                member.state = state
                self._told(f"node {member.name} {'answers again' if state == 'up' else 'does not answer'}")
            member.ping = None
            if state == "silent":
                self._find(member)
        if member.ping is None:
            member.ping = self._pings.submit(_answers, far)

    def _find(self, member: ClusterNode) -> None:
        """Learn where the agent of a node is now: another one answers at another port once Ray has started it anew."""
        if member.again is None:
            member.again = member.actor.where.remote()
        done, _ = self._ray.wait([member.again], timeout=0)
        if not done:
            return
        asked, member.again = member.again, None
        with suppress(Exception):  # it is not there: the node is dying, or will be asked again
            address = str(self._ray.get(asked))
            if address != member.address:
                member.address, member.far = address, AgentClient(parse(f"{member.name}={address}"), self._known)
                self._told(f"node {member.name} is at {address} now")

    def hosts(self) -> str:
        """Return the addresses of the agents as a host file."""
        return "".join(f"{m.name}={m.address}\n" for m in self.members.values() if m.address)

    def close(self) -> None:
        """End all agents that can be reached."""
        self._pings.shutdown(wait=True, cancel_futures=True)
        ending = [m.actor.end.remote() for m in self.members.values() if m.actor is not None and m.state != "dead"]
        with suppress(Exception):
            self._ray.wait(ending, num_returns=len(ending), timeout=2 * GENTLE)
        for member in self.members.values():
            if member.actor is not None:
                with suppress(Exception):
                    self._ray.kill(member.actor)


def _answers(far: AgentClient) -> bool:
    try:
        far.hello()
    except GputuneError:
        return False
    return True


def run(address: str) -> int:
    """Keep an agent on every live node of the cluster at `address` until a signal comes. Raises NoRay."""
    ray = connect(address)
    with tempfile.TemporaryDirectory(prefix="gputune-ray-") as folder:
        base = Path(folder)
        cluster = ClusterAgents(ray, base, _say)
        file = base / "hosts"
        _say(f"to look at them: gputune tui --hostfile {file} --credentials {base / credentials.CLIENT}")
        try:
            with signals() as wakeup:
                while True:
                    cluster.look()
                    _write(file, cluster.hosts())
                    if select.select([wakeup], [], [], LOOK_S)[0]:
                        return 0
        finally:
            cluster.close()
            ray.shutdown()


def _write(file: Path, hosts: str) -> None:
    """Put a new host file in the place of the old one, for screens that read it again when it has changed."""
    if not file.exists() or file.read_text() != hosts:
        new = file.with_name(".hosts.new")
        new.write_text(hosts)
        new.rename(file)


def _say(text: str) -> None:
    say(f"gputune: {text}\n")
