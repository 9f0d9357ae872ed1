"""The network probe."""

import pytest

from gputune.core.sample import Note, Unavailable
from gputune.probes import network

CALM = {"net.dropped[eth0]": 0}
HEAD = "Inter-|   Receive  |  Transmit\n face |bytes packets\n"


def interfaces(machine, **carried: int) -> None:
    """Interfaces that received that many bytes, and sent twice as many."""
    rows = "".join(f"  {name}: {n} 1 0 0 0 0 0 0 {2 * n} 1 0 0 0 0 0 0\n" for name, n in carried.items())
    machine.write("proc/net/dev", HEAD + rows)


def test_an_interface_with_a_device_hides_the_virtual_ones(machine, values) -> None:
    interfaces(machine, lo=7, eth0=100, docker0=50)
    (machine.sys / "class/net/eth0/device").mkdir(parents=True)
    assert values(next(network.attach(machine.target()))) == {**CALM, "net.received[eth0]": 100, "net.sent[eth0]": 200}


def test_in_a_container_whatever_carried_something_counts(machine, values) -> None:
    interfaces(machine, lo=7, eth0=100, tunl0=0)
    assert values(next(network.attach(machine.target()))) == {**CALM, "net.received[eth0]": 100, "net.sent[eth0]": 200}


def test_a_name_that_ends_like_another_is_another(machine, values) -> None:
    interfaces(machine, veth0=7, eth0=100)
    (machine.sys / "class/net/eth0/device").mkdir(parents=True)
    assert values(next(network.attach(machine.target()))) == {**CALM, "net.received[eth0]": 100, "net.sent[eth0]": 200}


def test_infiniband_is_counted_in_bytes(machine, values) -> None:
    interfaces(machine, lo=7)
    machine.write("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "10\n")
    machine.write("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "5\n")
    assert values(next(network.attach(machine.target()))) == {"net.received[mlx5_0:1]": 40, "net.sent[mlx5_0:1]": 20}


def test_nothing_but_the_loopback_is_said(machine) -> None:
    interfaces(machine, lo=7)
    with pytest.raises(Unavailable, match="loopback"):
        next(network.attach(machine.target()))


def links(readings) -> dict[str, float]:
    return {reading.fields["interface"]: reading.fields["rate"] for reading in readings if isinstance(reading, Note)}


def test_what_a_link_can_carry_is_said_once(machine) -> None:
    interfaces(machine, lo=7, eth0=100, eth1=100)
    machine.write("sys/class/net/eth0/speed", "10000\n")
    machine.write("sys/class/net/eth1/speed", "-1\n")  # nobody is at its other end
    machine.write("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "10\n")
    machine.write("sys/class/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n")
    ticks = network.attach(machine.target())
    assert links(next(ticks)) == {"eth0": 1.25e9, "mlx5_0:1": 12.5e9}
    assert links(next(ticks)) == {}


def test_what_was_dropped_and_sent_again_is_counted(machine, values) -> None:
    machine.write("proc/net/dev", HEAD + " eth0: 9 1 1 2 0 0 0 0 9 1 3 4 0 0 0 0\n")
    machine.write("proc/net/snmp", "Ip: Forwarding\nIp: 1\nTcp: RtoMin OutSegs RetransSegs\nTcp: 200 5000 25\n")
    told = values(next(network.attach(machine.target())))
    assert (told["net.dropped[eth0]"], told["net.segments"], told["net.resent"]) == (10, 5000, 25)


def test_the_largest_packet_is_said_once(machine) -> None:
    interfaces(machine, lo=7, eth0=100)
    machine.write("sys/class/net/eth0/mtu", "9000\n")
    ticks = network.attach(machine.target())
    assert [r.fields for r in next(ticks) if isinstance(r, Note)] == [{"n": "mtu", "interface": "eth0", "mtu": 9000}]
    assert not [r for r in next(ticks) if isinstance(r, Note)]
