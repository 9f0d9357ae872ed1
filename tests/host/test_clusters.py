"""A Ray cluster that cannot be used is one sentence; what its nodes have is read as Ray tells it."""

import importlib.util
import socket
import sys
from types import SimpleNamespace

import pytest

from gputune.host import clusters
from gputune.host.clusters import BadAddress, NoRay, RayNode


@pytest.mark.parametrize("address", ["", "here", "host:", "host:0", "host:99999", "a b:6379", "http://host:1"])
def test_what_is_no_address_is_refused_before_anything_is_imported(address: str) -> None:
    with pytest.raises(BadAddress, match="is no address"):
        clusters.connect(address)


def test_addresses_are_taken_as_ray_writes_them() -> None:
    for address in ("auto", "10.0.0.5:6379", "head.example:6379", "[::1]:6379", "ray://10.0.0.5:10001"):
        clusters.check(address)


def test_without_ray_the_extra_is_named() -> None:
    if importlib.util.find_spec("ray") is not None:
        pytest.skip("Ray is installed here")
    with pytest.raises(NoRay, match="Ray is not installed") as raised:
        clusters.connect("auto")
    assert "pip install 'gputune[ray]'" in raised.value.hint


def test_where_nobody_listens_that_is_said_at_once() -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: it is the user's own")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(NoRay, match="nobody answers there"):
            clusters.connect(f"127.0.0.1:{port}")


def told(name: str, *, alive: bool = True, id_: str = "", **resources: float) -> dict[str, object]:
    return {"NodeID": id_ or f"id-{name}", "Alive": alive, "NodeManagerHostname": name, "Resources": resources}


def test_nodes_with_devices_come_first_and_dead_ones_not_at_all() -> None:
    kind = {"accelerator_type:H100": 1.0}
    ray = SimpleNamespace(
        nodes=lambda: [told("a", CPU=64.0), told("b", CPU=8.0, GPU=2.0, **kind), told("c", alive=False, CPU=99.0)]
    )
    first, second = clusters.nodes(ray)
    assert first == RayNode(id="id-b", name="b", cpus=8.0, gpus=2.0, kind="H100")
    assert (second.name, second.gpus, second.kind) == ("a", 0.0, "")
    assert not first.is_like(second)


def test_nodes_of_one_name_are_told_apart() -> None:
    ray = SimpleNamespace(
        nodes=lambda: [told("m\x1b", id_="aaaaaaaa", CPU=1.0), told("m\x1b", id_="bbbbbbbb", CPU=1.0)]
    )
    assert [node.name for node in clusters.nodes(ray)] == ["m\\x1b-aaaaaa", "m\\x1b-bbbbbb"]


def test_what_is_missing_is_said_in_numbers() -> None:
    ray = SimpleNamespace(available_resources=lambda: {"CPU": 2.0}, cluster_resources=lambda: {"CPU": 8.0, "GPU": 1.0})
    assert clusters.missing(ray, {"CPU": 2.0}) == ""
    assert clusters.missing(ray, {"CPU": 4.0, "GPU": 1.0}) == "2 of 8 CPUs and 0 of 1 GPUs are free"


def test_a_python_that_is_not_on_a_node_is_the_one_that_runs_its_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert clusters.here(("python3", "train.py")) == (sys.executable, "train.py")
    assert clusters.here((sys.executable, "train.py")) == (sys.executable, "train.py")
    assert clusters.here(("bash", "train.sh")) == ("bash", "train.sh")
