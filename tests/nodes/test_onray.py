"""Agents on a Ray cluster: one a live node, new ones met, dead ones marked. On a real cluster if Ray is installed."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

import psutil
import pytest

from gputune.host.clusters import NoRay
from gputune.nodes import onray

Wait = Callable[[Callable[[], object]], None]


class Pretended:
    """As much of Ray as is used: nodes come and go, and each actor says where its agent is."""

    def __init__(self) -> None:
        self.alive: list[str] = []
        self.refuse: set[str] = set()
        self.killed: list[str] = []
        self.moved: dict[str, str] = {}  # where an agent is that was started anew
        strategy = SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node_id, soft: (node_id, soft))
        self.util = SimpleNamespace(scheduling_strategies=strategy)
        self.pinned: list[tuple[str, bool]] = []

    def nodes(self) -> list[dict[str, object]]:
        return [
            {
                "NodeID": id_,
                "Alive": id_ in self.alive,
                "NodeManagerAddress": "127.0.0.1",
                "NodeManagerHostname": "host",
            }
            for id_ in ("a1", "b2", "c3")
        ]

    def remote(self, _kind: object) -> Any:
        return SimpleNamespace(options=self._options)

    def _options(self, **options: Any) -> Any:
        self.pinned.append(options["scheduling_strategy"])
        id_ = options["scheduling_strategy"][0]
        where = SimpleNamespace(remote=lambda: id_)
        end = SimpleNamespace(remote=lambda: id_)
        return SimpleNamespace(remote=lambda _files, _listen: SimpleNamespace(where=where, end=end, id=id_))

    def wait(self, refs: list[str], **_: object) -> tuple[list[str], list[str]]:
        return refs, []

    def get(self, ref: str) -> str:
        if ref in self.refuse:
            raise RuntimeError("the agent did not start\x1b[2J")
        return self.moved.get(ref, f"127.0.0.1:{ord(ref[0])}")

    def kill(self, actor: Any) -> None:
        self.killed.append(actor.id)


def test_members_join_fall_silent_and_die(tmp_path: Path, eventually: Wait) -> None:
    ray, told = Pretended(), list[str]()
    ray.alive = ["a1", "b2"]
    ray.refuse = {"b2"}
    cluster = onray.ClusterAgents(ray, tmp_path, told.append)
    cluster.look()
    cluster.look()
    assert [m.state for m in cluster.members.values()] == ["up", "failed"]
    eventually(lambda: cluster.look() or cluster.members["a1"].state == "silent")  # nobody listens at that address
    assert "node host does not answer" in told
    assert ray.pinned == [("a1", False), ("b2", False)]
    ray.alive = ["b2", "c3"]
    cluster.look()
    cluster.look()
    assert {m.id: m.state for m in cluster.members.values()} == {"a1": "dead", "b2": "failed", "c3": ANY}
    assert "node host is dead" in told
    assert any("no agent on node host-b2" in text for text in told)
    assert not any("\x1b" in text for text in told)
    names = [line.partition("=")[0] for line in cluster.hosts().splitlines()]
    assert len(set(names)) == len(names)
    cluster.close()
    assert set(ray.killed) == {"b2", "c3"}


def test_an_agent_that_ray_has_started_anew_is_found_again(tmp_path: Path, eventually: Wait) -> None:
    ray, told = Pretended(), list[str]()
    ray.alive = ["a1"]
    cluster = onray.ClusterAgents(ray, tmp_path, told.append)
    eventually(lambda: cluster.look() or cluster.members["a1"].state == "silent")
    ray.moved = {"a1": "127.0.0.1:98"}
    eventually(lambda: cluster.look() or cluster.hosts() == "host=127.0.0.1:98\n")
    assert "node host is at 127.0.0.1:98 now" in told
    cluster.close()


def test_the_host_file_is_whole_at_any_time(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    onray._write(file, "m8=127.0.0.1:1\n")
    before = file.stat().st_mtime_ns, file.stat().st_ino
    onray._write(file, "m8=127.0.0.1:1\n")
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == before
    onray._write(file, "m8=127.0.0.1:2\n")
    assert file.read_text() == "m8=127.0.0.1:2\n"
    assert list(tmp_path.iterdir()) == [file]


def test_without_ray_that_is_said() -> None:
    if importlib.util.find_spec("ray") is not None:
        pytest.skip("Ray is installed here")
    with pytest.raises(NoRay, match="Ray is not installed"):
        onray.connect("auto")


@pytest.mark.slow
def test_a_real_cluster_of_three_nodes_one_of_which_dies(tmp_path: Path, eventually: Wait) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: it is the user's own")
    from ray.cluster_utils import Cluster

    from gputune.wire import credentials
    from gputune.wire.address import several
    from gputune.wire.client import AgentClient

    real = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    others = [real.add_node(num_cpus=1) for _ in range(2)]
    ray = onray.connect(real.address)
    try:
        told: list[str] = []
        cluster = onray.ClusterAgents(ray, tmp_path / "c", told.append)
        eventually(lambda: cluster.look() or [m.state for m in cluster.members.values()] == ["up"] * 3)
        known = credentials.read(tmp_path / "c", credentials.CLIENT)
        for address in several(cluster.hosts().splitlines()):
            far = AgentClient(address, known)
            assert far.hello().runs[0] == "machine"
            far.close()
        raylet = psutil.Process(others[0].all_processes["raylet"][0].process.pid)
        for process in (raylet, *raylet.children(recursive=True)):  # as if the node lost its power
            process.kill()
        gone = {"silent", "dead"}  # within 5 s, as docs/agents.md says; Ray itself takes longer
        eventually(lambda: cluster.look() or gone & {m.state for m in cluster.members.values()})
        eventually(lambda: cluster.look() or "dead" in {m.state for m in cluster.members.values()})
        added = real.add_node(num_cpus=1)
        eventually(lambda: cluster.look() or [m.state for m in cluster.members.values()].count("up") == 3)
        assert added is not None
        cluster.close()
    finally:
        ray.shutdown()
        real.shutdown()
