"""What the network interfaces of this machine received and sent, for anyone, and what they can carry."""

import contextlib
from collections.abc import Iterable
from pathlib import Path

from gputune.core.sample import NOBODY, Metric, Note, Reading, Sample, Target, Ticks, Unavailable, now
from gputune.host.procfs import OpenProcFile, read_text

PERIOD = 1.0  # s
RECEIVED = Metric("net.received", "B", "Bytes received since the interface came up, by anyone.", "counter", "interface")
SENT = Metric("net.sent", "B", "Bytes sent since the interface came up, by anyone.", "counter", "interface")
DROPPED = Metric("net.dropped", "1", "Packets dropped or garbled, either way.", "counter", "interface")
SEGMENTS = Metric("net.segments", "1", "TCP segments sent since boot, by anyone, over all interfaces.", "counter")
RESENT = Metric("net.resent", "1", "Those of them that were sent again: nobody had said that they came.", "counter")
METRICS = (RECEIVED, SENT, DROPPED, SEGMENTS, RESENT)

MOST_INTERFACES = 16  # interfaces; a container host has hundreds, and the recording a column for each
BEFORE = b" \n"  # what stands before an interface's name
LOST = (2, 3, 10, 11)  # columns of an interface's row: errors and drops, received and sent
MEGABIT, GIGABIT = 1e6 / 8, 1e9 / 8  # B/s: the units of `speed` and of `rate` in /sys


def attach(target: Target) -> Ticks:
    """Read `/proc/net/dev` and the ports of InfiniBand, whose RDMA traffic no interface counts.

    Interfaces with a device behind them; in a container, where none has, all but the loopback that ever carried
    anything. The network namespace is gputune's own.
    """
    try:
        file = OpenProcFile(target.proc / "net" / "dev")
    except OSError as reason:
        raise Unavailable(f"`{target.proc / 'net/dev'}` cannot be read: {reason.strerror}") from reason
    snmp = _opened(target.proc / "net" / "snmp")
    try:
        marks = {name: f"{name}:".encode() for name in _interfaces(target.sys, file.read())}
        ports = sorted((target.sys / "class" / "infiniband").glob("*/ports/*/counters"))[:MOST_INTERFACES]
        if not marks and not ports:
            raise Unavailable("no network interface but the loopback is visible here")
        readings = [*_links(target.sys, marks), *_port_links(ports)]
        while True:
            readings += _tick(file.read(), marks)
            readings += _segments(snmp.read()) if snmp is not None else []
            for port in ports:
                readings += _port(port)
            yield readings
            readings = []
    finally:
        file.close()
        if snmp is not None:
            snmp.close()


def _opened(path: Path) -> OpenProcFile | None:
    """Return a file of /proc that stays open, None where it cannot be read."""
    try:
        return OpenProcFile(path)
    except OSError:
        return None


def _rows(data: bytes) -> list[tuple[str, int, int]]:
    """Return (interface, bytes received, bytes sent) of each line but the two of the heading."""
    rows = []
    for line in data.split(b"\n")[2:]:
        name, colon, numbers = line.rpartition(b":")
        if colon:
            words = numbers.split(None, 9)
            rows.append((name.strip().decode(), int(words[0]), int(words[8])))
    return rows


def _interfaces(sys: Path, data: bytes) -> list[str]:
    seen = [(name, received + sent) for name, received, sent in _rows(data) if name != "lo"]
    real = [name for name, _ in seen if (sys / "class" / "net" / name / "device").exists()]
    return (real or [name for name, carried in seen if carried])[:MOST_INTERFACES]


def _tick(data: bytes, marks: dict[str, bytes]) -> list[Reading]:
    """Return the samples of one reading; of many rows a few are wanted, so the others stay text."""
    t = now()
    readings: list[Reading] = []
    for name, mark in marks.items():
        at = data.find(mark)
        while at > 0 and data[at - 1] not in BEFORE:  # `veth0:` ends like `eth0:`
            at = data.find(mark, at + 1)
        # 400 B; of a row: sixteen numbers of 20 digits, and a name
        words = data[at + len(mark) : at + 400].split(None, 12) if at >= 0 else []
        if len(words) > 11:
            lost = sum(int(words[place]) for place in LOST)
            readings += [Sample(RECEIVED, t, int(words[0]), name), Sample(SENT, t, int(words[8]), name)]
            readings.append(Sample(DROPPED, t, lost, name))
    return readings


def _segments(snmp: bytes) -> list[Reading]:
    """Return what TCP sent and sent again, by the two lines of /proc/net/snmp that name and count it."""
    lines = [line.split() for line in snmp.splitlines() if line.startswith(b"Tcp:")]
    if len(lines) < 2:
        return []
    told, t = dict(zip(*lines, strict=False)), now()
    names = ((SEGMENTS, b"OutSegs"), (RESENT, b"RetransSegs"))
    return [Sample(metric, t, int(told[name])) for metric, name in names if told.get(name, b"").isdigit()]


def _port(counters: Path) -> list[Reading]:
    """Return the traffic of one InfiniBand port, `mlx5_0/ports/1/counters`."""
    name = _name(counters)
    readings: list[Reading] = []
    for metric, file in ((RECEIVED, "port_rcv_data"), (SENT, "port_xmit_data")):
        text = (read_text(counters / file) or "").strip()
        if text.isdigit():
            readings.append(Sample(metric, now(), int(text) * 4, name))  # InfiniBand counts data in units of four bytes
    return readings


def _links(sys: Path, names: Iterable[str]) -> list[Reading]:
    """Return what interfaces can carry each way, said once, where the kernel knows it: virtual ones say -1 or nothing.

    Source: the kernel's Documentation/ABI/testing/sysfs-class-net, `speed` in Mbit/s.
    """
    told = {name: read_text(sys / "class" / "net" / name / "speed") for name in names}
    speeds = {name: float(text) for name, text in told.items() if text and text.strip().isdigit()}
    largest = {name: (read_text(sys / "class" / "net" / name / "mtu") or "").strip() for name in told}
    return [
        *(_link(name, speed * MEGABIT) for name, speed in speeds.items() if speed > 0),
        *(Note(NOBODY, {"n": "mtu", "interface": name, "mtu": int(m)}) for name, m in largest.items() if m.isdigit()),
    ]


def _port_links(ports: Iterable[Path]) -> list[Reading]:
    """Return the same of InfiniBand ports, whose `rate` reads `100 Gb/sec (4X EDR)`."""
    found: list[Reading] = []
    for counters in ports:
        number = (read_text(counters.parent / "rate") or "").partition(" ")[0]
        with contextlib.suppress(ValueError):
            found.append(_link(_name(counters), float(number) * GIGABIT))
    return found


def _link(name: str, rate: float) -> Note:
    return Note(NOBODY, {"n": "link", "interface": name, "rate": rate})


def _name(counters: Path) -> str:
    return f"{counters.parts[-4]}:{counters.parts[-2]}"
