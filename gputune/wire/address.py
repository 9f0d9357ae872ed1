"""Where an agent is: `m9:7070`, `m9`, `[::1]:7070`, or `unix:PATH`; and lists of them, `NAME=ADDRESS` among them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address
from pathlib import Path

from gputune.core.errors import BadUsage
from gputune.core.hygiene import clean

PORT = 7070  # where a screen looks, and an agent listens, when only a host is named
UNIX = "unix:"
RACK = "rack="  # in a line of a host file
LONGEST_SOCKET = 100  # bytes that the path of a Unix socket may have; the kernel takes 107
MOST_NODES = 10_000  # nodes in one list
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.\-]{0,251}[A-Za-z0-9_])?\.?")
HINT = "like `m9`, `m9:7070` or `unix:/run/user/1000/gputune/agent.sock`"


@dataclass(frozen=True, slots=True)
class Address:
    """One agent: `host` and `port`, or the `path` of its Unix socket. `name` is what it is called on the screen.

    Unless somebody has `named` it here, that is only until it has said itself what it is called. `rack` is where it
    stands, as a host file says: for nodes that do not say so themselves.
    """

    name: str
    host: str = ""
    port: int = 0
    path: str = ""
    rack: str = ""
    named: bool = field(default=True, compare=False)

    def __str__(self) -> str:
        if self.path:
            return f"{UNIX}{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(text: str) -> Address:
    """Return the address of `[NAME=]ADDRESS`. Raises BadUsage."""
    name, sign, where = text.strip().partition("=")
    if not sign:
        name, where = "", name
    if where.startswith(UNIX):
        path = where.removeprefix(UNIX)
        if not path.startswith("/") or len(path.encode(errors="surrogateescape")) > LONGEST_SOCKET:
            says = f"`{clean(where)}` is not the path of a Unix socket: absolute, of at most {LONGEST_SOCKET} bytes"
            raise BadUsage(says, hint=HINT)
        return Address(clean(name or Path(path).stem), path=path, named=bool(name))
    host, port = split(where, PORT)
    if not host:
        raise BadUsage(f"`{clean(text)}` names no host", hint=HINT)
    return Address(clean(name or (host if port == PORT else where)), host, port, named=bool(name))


def split(text: str, port: int) -> tuple[str, int]:
    """Return host and port of `HOST[:PORT]`, where `port` is what goes without saying. Raises BadUsage."""
    host, colon, number = text.rpartition(":")
    if not colon or text.endswith("]") or (text.count(":") > 1 and not host.endswith("]")):
        host, number = text, str(port)
    if host and not (_HOST.fullmatch(host) or _is_ipv6(host)):
        raise BadUsage(f"`{clean(text)}` is not the name or address of a host", hint=HINT)
    if not number.isascii() or not number.isdigit() or not 0 <= int(number) <= 65535:
        raise BadUsage(f"`{clean(text)}` has no port between 0 and 65535 after its colon", hint=HINT)
    return host.strip("[]"), int(number)


def _is_ipv6(host: str) -> bool:
    """Return whether it is an IPv6 address, in brackets or not."""
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    plain, zoned, zone = bare.partition("%")
    try:
        IPv6Address(plain)
    except ValueError:
        return False
    return not zoned or _HOST.fullmatch(zone) is not None


def several(texts: Iterable[str]) -> list[Address]:
    """Return the addresses of comma-separated lists, each name once. Raises BadUsage, also where there are none."""
    return _distinct(parse(word) for word in _words(texts))


def _distinct(addresses: Iterable[Address]) -> list[Address]:
    """Return each once; where a name comes again, it is the same place. Raises BadUsage."""
    found: dict[str, Address] = {}
    for address in addresses:
        before = found.setdefault(address.name, address)
        if str(before) != str(address):
            says = f"two nodes are called `{address.name}`: {before} and {address}"
            raise BadUsage(says, hint="give one of them another name: `m9b=m9:7071`")
    if not found:
        raise BadUsage("no node was named", hint="like `--nodes m8,m9:7070`")
    if len(found) > MOST_NODES:
        raise BadUsage(f"{len(found)} nodes are more than {MOST_NODES}", hint="see docs/scale.md")
    return list(found.values())


def addresses(nodes: Iterable[str], file: Path | None) -> list[Address]:
    """Return the addresses that were typed, or those of a host file. Raises BadUsage, also where both were given."""
    if file is None:
        return several(nodes)
    if list(nodes):
        raise BadUsage("nodes were given twice: by name, and in a host file", hint="give them in one of the ways")
    return hostfile(file)


def hostfile(file: Path) -> list[Address]:
    """Return the addresses in a file: one a line, what follows `#` is left out. Raises BadUsage.

    Of an MPI host file (`m8 slots=8`) the first word of each line counts, and `rack=NAME` among the others.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "it is no text"
        raise BadUsage(
            f"`{clean(str(file))}` cannot be read: {why}", hint="a host file has one address a line"
        ) from None
    words = [each for line in lines if (each := line.partition("#")[0].split())]
    if not words:
        raise BadUsage(f"`{clean(str(file))}` names no host", hint="a host file has one address a line, like `m9:7070`")
    return _distinct(replace(parse(word), rack=_rack(each)) for each in words for word in _words(each[:1]))


def _rack(words: list[str]) -> str:
    return next((clean(word.removeprefix(RACK)) for word in words[1:] if word.startswith(RACK)), "")


def _words(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from (word for word in text.split(",") if word.strip())
