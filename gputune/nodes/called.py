"""What others may call this machine: its names, and the addresses that they reach it by."""

import os
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

import psutil

from gputune.wire import credentials

# What every machine calls itself: no name for others.
NOBODYS = ("localhost", "localhost.localdomain", "localhost6", "ip6-localhost")


def own_names() -> tuple[str, ...]:
    """Return its name, that with its domain, and its addresses, without those that only it can reach itself by."""
    names = [name for name in (os.uname().nodename, socket.getfqdn()) if credentials.is_name(name)]
    addresses = [each for each in _addresses() if not (each.is_loopback or each.is_link_local or each.is_unspecified)]
    found = [*(name for name in names if name not in NOBODYS), *map(str, addresses)]
    return tuple(dict.fromkeys(found)) or NOBODYS[:1]


def _addresses() -> list[IPv4Address | IPv6Address]:
    """Return the addresses of all interfaces, those of IPv4 first."""
    told = [each for interface in psutil.net_if_addrs().values() for each in interface]
    found = [each for family in (socket.AF_INET, socket.AF_INET6) for each in told if each.family == family]
    return [ip_address(each.address.partition("%")[0]) for each in found]
