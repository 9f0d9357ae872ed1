"""A Ray cluster of the user's own: how it is met, what its nodes have, and in a sentence why it cannot be used.

Ray is imported here alone, by name, and only when somebody asks for a cluster: it is the user's, of their version, and
an extra (`gputune[ray]`). It has no types that we could use without it, so handles of it are `Any`.
"""

import importlib
import re
import shutil
import signal
import socket
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gputune.core.errors import BadUsage, GputuneError
from gputune.core.hygiene import clean

OURS = frozenset({"auto", "local"})  # addresses that Ray finds out by itself
CLIENT = "ray://"
PLACE = re.compile(r"(?:ray://)?(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):(?P<port>\d{1,5})(?:/.*)?")
LESS = 1e-6  # of a resource: what is less is none
INSTALL = "`pip install 'gputune[ray]'`, of the version that the cluster runs"
LOOK = "`ray status` on one of its nodes says its address; where it wants a token, `export RAY_AUTH_MODE=token`"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class NoRay(GputuneError):  # noqa: N818 - named for what happened
    """There is no Ray here, or no cluster at that address."""

    def __init__(self, why: str, hint: str = LOOK) -> None:
        super().__init__(why, hint=hint)


class BadAddress(BadUsage):
    """What was typed is no address of a cluster."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"`--ray {clean(address, 80)}` is no address of a Ray cluster",
            hint="like `--ray auto` on one of its nodes, `--ray 10.0.0.5:6379`, or `--ray ray://10.0.0.5:10001`",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """One live node: what Ray was told that it has. `kind` is the type of its accelerators, "" where it has none."""

    id: str
    name: str
    cpus: float = 0.0
    gpus: float = 0.0
    kind: str = ""

    def is_like(self, other: "RayNode") -> bool:
        """Return whether a time that was measured on one says something of the other."""
        return (self.cpus, self.gpus, self.kind) == (other.cpus, other.gpus, other.kind)


def connect(address: str) -> Any:
    """Return Ray, connected to the cluster at `address` (`auto`: the one that this machine belongs to).

    Raises BadAddress or NoRay.
    """
    check(address)
    try:
        ray = importlib.import_module("ray")
        importlib.import_module("ray.util.placement_group")
        importlib.import_module("ray.util.scheduling_strategies")
    except ImportError:
        raise NoRay("Ray is not installed in this environment", INSTALL) from None
    _reach(address)
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", namespace="gputune")
    except Exception as error:  # noqa: BLE001 - Ray raises what it likes
        raise NoRay(f"no Ray cluster at `{clean(address)}`: {first_line(error)}") from None
    finally:
        for number, handler in before.items():  # they are ours: Ray's would leave with another status
            signal.signal(number, handler)
    return ray


def check(address: str) -> None:
    """Raise BadAddress unless it is one."""
    match = PLACE.fullmatch(address)
    if address not in OURS and (match is None or not 0 < int(match["port"]) < 1 << 16):
        raise BadAddress(address)


def _reach(address: str) -> None:
    """Raise NoRay where nobody listens at an address."""
    match = PLACE.fullmatch(address)
    if match is None:
        return
    try:
        # 5.0 s for somebody to answer at the address: Ray itself would look for a minute
        socket.create_connection((match["host"].strip("[]"), int(match["port"])), 5.0).close()
    except OSError as error:
        why = error.strerror or str(error)
        raise NoRay(f"no Ray cluster at `{clean(address)}`: nobody answers there ({clean(why)})") from None


def first_line(error: BaseException) -> str:
    """Return an error of Ray's in one line: where one of ours is in it, that one."""
    cause = getattr(error, "cause", None)
    lines = str(cause if isinstance(cause, BaseException) else error).strip().splitlines()
    kind = type(cause if isinstance(cause, BaseException) else error).__name__
    return clean(lines[-1 if kind == "RayTaskError" else 0], 300) if lines else kind


def nodes(ray: Any) -> list[RayNode]:
    """Return the live nodes, those with most devices first, then those with most CPUs; each with a name of its own."""
    found = [_node(told) for told in ray.nodes() if told.get("Alive")]
    names = Counter(node.name for node in found)
    named = [replace(node, name=f"{node.name}-{node.id[:6]}") if names[node.name] > 1 else node for node in found]
    return sorted(named, key=lambda node: (-node.gpus, -node.cpus, node.name))


def _node(told: Mapping[str, Any]) -> RayNode:
    has: Mapping[str, float] = told.get("Resources") or {}
    kinds = sorted(name.partition(":")[2] for name in has if name.startswith("accelerator_type:"))
    return RayNode(
        id=str(told["NodeID"]),
        name=clean(str(told.get("NodeManagerHostname") or told["NodeID"]), 64),
        cpus=float(has.get("CPU", 0.0)),
        gpus=float(has.get("GPU", 0.0)),
        kind=",".join(kinds),
    )


def pinned(ray: Any, node: RayNode) -> Any:
    """Return the strategy that has something run on this node and on no other."""
    return ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node_id=node.id, soft=False)


def missing(ray: Any, wanted: Mapping[str, float]) -> str:
    """Return what is not free at present, in words; nothing where all of it is."""
    free, whole = ray.available_resources(), ray.cluster_resources()
    short = [name for name, amount in wanted.items() if amount > float(free.get(name, 0.0)) + LESS]
    words = [f"{float(free.get(name, 0.0)):g} of {float(whole.get(name, 0.0)):g} {name}s" for name in short]
    return f"{' and '.join(words)} are free" if words else ""


def here(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command with the Python that runs Ray on this node where its own is not to be found."""
    if Path(argv[0]).name.startswith("python") and shutil.which(argv[0]) is None:
        return (sys.executable, *argv[1:])
    return argv
