"""What others may call this machine: its names, and the addresses that they reach it by."""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import pairwise
from pathlib import Path

from gputune.wire import credentials

# What every machine calls itself: no name for others.
NOBODYS = ("localhost", "localhost.localdomain", "localhost6", "ip6-localhost")


def own_names(net: Path = Path("/proc/net")) -> tuple[str, ...]:
    """Return its name, that with its domain, and its addresses, without those that only it can reach itself by."""
    names = [name for name in (os.uname().nodename, socket.getfqdn()) if credentials.is_name(name)]
    addresses = [each for each in (*_fourth(net), *_sixth(net)) if not _is_nobodys(each)]
    found = [*(name for name in names if name not in NOBODYS), *map(str, addresses)]
    return tuple(dict.fromkeys(found)) or NOBODYS[:1]


def _is_nobodys(address: IPv4Address | IPv6Address) -> bool:
    return address.is_loopback or address.is_link_local or address.is_unspecified


def _fourth(net: Path) -> Iterator[IPv4Address | IPv6Address]:
    """Yield the addresses that the routes of IPv4 hold for local: `|-- 10.0.0.8`, then `/32 host LOCAL`."""
    for line, below in pairwise(_lines(net / "fib_trie")):
        if below.strip() == "/32 host LOCAL":
            with suppress(ValueError):
                yield ip_address(line.rpartition(" ")[2])


def _sixth(net: Path) -> Iterator[IPv4Address | IPv6Address]:
    """Yield those of IPv6, which are 32 digits at the beginning of a line."""
    for line in _lines(net / "if_inet6"):
        with suppress(ValueError):
            yield ip_address(bytes.fromhex(line.partition(" ")[0]))


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:  # no IPv6
        return []
