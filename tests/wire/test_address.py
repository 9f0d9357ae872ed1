"""Where agents are, as people type it."""

from pathlib import Path

import pytest

from gputune.core.errors import BadUsage
from gputune.wire.address import PORT, Address, hostfile, parse, several, split


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("m8", Address("m8", "m8", PORT)),
        ("m9:7071", Address("m9:7071", "m9", 7071)),
        ("10.0.0.8", Address("10.0.0.8", "10.0.0.8", PORT)),
        ("[::1]:80", Address("[::1]:80", "::1", 80)),
        ("::1", Address("::1", "::1", PORT)),
        ("fast=m9.rack-2.example:1", Address("fast", "m9.rack-2.example", 1)),
        ("[fe80::1%eth0]:7071", Address("[fe80::1%eth0]:7071", "fe80::1%eth0", 7071)),
        ("m8=unix:/run/a.sock", Address("m8", path="/run/a.sock")),
        ("unix:/run/a.sock", Address("a", path="/run/a.sock")),
    ],
)
def test_reads_what_people_type(text: str, address: Address) -> None:
    assert parse(text) == address
    assert parse(f"x={address}") == Address("x", address.host, address.port, address.path)


@pytest.mark.parametrize(
    "text",
    [
        "", ":7070", "m8:", "m8:x", "m8:70000", "m8=-oProxyCommand=x", "a b", "m8/x", "unix:", "unix:a.sock", "m8:-1",
        "\x1b[2J", "unix:/" + "x" * 200, "x=", "ä", ":::", "[::1", "1:2:3", "fe80::1%-o", "fe80::1%",
    ],
)  # fmt: skip
def test_refuses_what_is_no_address(text: str) -> None:
    with pytest.raises(BadUsage) as refused:
        parse(text)
    assert "\x1b" not in str(refused.value)


def test_lists_are_split_and_each_name_counts_once() -> None:
    assert [a.name for a in several(["m8, m9:1", "m8", "m10,"])] == ["m8", "m9:1", "m10"]
    with pytest.raises(BadUsage, match="two nodes are called"):
        several(["a=m8,a=m9"])
    with pytest.raises(BadUsage, match="no node was named"):
        several([" , "])


def test_a_host_file_is_one_of_mpi_as_well(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# rack 1\nm8 slots=8\n\nm9:7071 # the odd one\n")
    assert [str(a) for a in hostfile(file)] == [f"m8:{PORT}", "m9:7071"]


def test_a_host_file_may_say_in_which_rack_a_node_stands(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("m8 slots=8 rack=r1\nm9:7071 rack=r2 # as m8\nm10,m11 rack=x\x1b\nm12 slots=8\nm8\n")
    racks = {a.name: a.rack for a in hostfile(file)}
    assert racks == {"m8": "r1", "m9:7071": "r2", "m10": r"x\x1b", "m11": r"x\x1b", "m12": ""}


def test_a_name_for_two_places_is_refused_in_a_host_file_too(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("a=m8 rack=r1\na=m9 rack=r1\n")
    with pytest.raises(BadUsage, match="two nodes are called"):
        hostfile(file)


@pytest.mark.parametrize("content", [b"", b"# nobody\n\n", b"\xff\xfe\x00", None])
def test_an_empty_or_unreadable_host_file_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "hosts"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadUsage, match=r"names no host|cannot be read"):
        hostfile(file)


def test_where_to_listen_may_go_without_a_port() -> None:
    assert split("0.0.0.0", 7070) == ("0.0.0.0", 7070)
    assert split(":7071", 7070) == ("", 7071)
    assert split("[::]:0", 7070) == ("::", 0)
