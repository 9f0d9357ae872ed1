"""`gputune agent` as it is typed: what it refuses, and what it makes. tests/nodes/ has what it does."""

import re
import socket
from ipaddress import ip_address
from pathlib import Path
from socket import AF_INET, AF_INET6, AF_PACKET
from types import SimpleNamespace

import pytest

from gputune.nodes import called
from gputune.wire import openssl
from tests.conftest import Run

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--mutual"], "`--mutual` goes with `--listen`"),
        (["--rotate"], "`--each-node` and `--rotate` go with `--init`"),
        (["--init", "--name", "a b"], "is neither the name nor the address"),
        (["--init", "--hosts", "m8"], "`--init` and `--hosts` do not go together"),
        (["--hosts", "m8", "--", "true"], "`--hosts` and a command do not go together"),
        (["--hosts", "-oProxyCommand=x"], "is no host for ssh"),
        (["--listen", "127.0.0.1:x"], "has no port"),
        (["--listen", "127.0.0.1:7070"], "cannot be read"),
        (["--socket", "x" * 200], "too long for a Unix socket"),
        (["--state", "/dev/null/x"], "cannot be made"),
        (["--relay", ","], "no node was named"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(gputune: Run, tmp_path: Path, words: list[str], says: str) -> None:
    home = {"HOME": str(tmp_path), "XDG_STATE_HOME": "", "XDG_CONFIG_HOME": "", "XDG_RUNTIME_DIR": str(tmp_path)}
    done = gputune("agent", *words, **home)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.startswith("error: ")
    assert "\n\nhint: " in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_init_makes_both_halves_and_says_where_they_go(gputune: Run, tmp_path: Path) -> None:
    done = gputune("agent", "--init", "--name", "m8", "--name", "10.0.0.8", "--credentials", str(tmp_path / "c"))
    assert done.returncode == 0
    for half in ("server", "client"):
        assert f"{tmp_path / 'c' / half}: copy it" in done.stderr
    assert "keep it" in done.stderr


@pytest.mark.parametrize("each", [(), ("--each-node",)])
def test_init_takes_the_host_s_own_name_and_addresses(gputune: Run, tmp_path: Path, each: tuple[str, ...]) -> None:
    own = called.own_names()
    done = gputune("agent", "--init", *each, "--credentials", str(tmp_path / "c"))
    assert done.returncode == 0
    assert done.stderr.startswith(f"for {', '.join(own)}: ")
    (made,) = tmp_path.rglob("server.pem")
    told = openssl.run("x509", "-noout", "-ext", "subjectAltName", "-in", made).rpartition("\n")[2].split(",")
    names = [
        (kind == "IP Address" and str(ip_address(name))) or name
        for kind, _, name in (x.strip().partition(":") for x in told)
    ]
    assert names == list(own)
    assert "127.0.0.1" not in names


FOUND = {
    "lo": [(AF_INET, "127.0.0.1"), (AF_INET6, "::1")],
    "eth0": [
        (AF_PACKET, "02:42:0a:00:00:08"),
        (AF_INET6, "fe80::1%eth0"),
        (AF_INET6, "2001:db8::8"),
        (AF_INET, "10.0.0.8"),
        (AF_INET, "169.254.1.1"),
    ],
}


def test_names_that_every_machine_has_are_nobody_s(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {name: [SimpleNamespace(family=f, address=a) for f, a in each] for name, each in FOUND.items()}
    monkeypatch.setattr("psutil.net_if_addrs", lambda: told)
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(nodename="m8"))
    for full, names in (("m8.lan", ("m8", "m8.lan")), ("localhost", ("m8",)), ("a_b", ("m8",))):
        monkeypatch.setattr("socket.getfqdn", lambda full=full: full)
        assert called.own_names() == (*names, "10.0.0.8", "2001:db8::8")
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(nodename="localhost"))
    monkeypatch.setattr("psutil.net_if_addrs", dict)
    assert called.own_names() == ("localhost",)


def test_a_port_in_use_is_told_with_another(gputune: Run, tmp_path: Path) -> None:
    gputune("agent", "--init", "--name", "127.0.0.1", "--credentials", str(tmp_path / "c"))
    (tmp_path / "s").mkdir(mode=0o700)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        own = ["--state", str(tmp_path / "state"), "--socket", str(tmp_path / "s" / "a.sock")]
        done = gputune("agent", "--listen", f"127.0.0.1:{port}", "--credentials", str(tmp_path / "c"), *own)
    assert done.returncode == 1
    assert f"port {port} of `127.0.0.1` is in use" in done.stderr


def test_there_is_no_switch_that_turns_tls_or_the_token_off(gputune: Run) -> None:
    said = gputune("agent", "--help").stdout
    options = set(re.findall(r"--[a-z-]+", said))
    assert not [name for name in options if re.search("insecure|no-|plain|disable|skip|allow", name)]


def test_the_manifest_runs_what_there_is(gputune: Run) -> None:
    yaml = pytest.importorskip("yaml", reason="reading the manifest needs PyYAML")
    job = yaml.safe_load((ROOT / "deploy" / "pytorchjob.yaml").read_text())
    replicas = job["spec"]["pytorchReplicaSpecs"]
    for role in ("Master", "Worker"):
        (container,) = replicas[role]["template"]["spec"]["containers"]
        known = gputune("agent", "--help").stdout
        assert container["command"][:2] == ["gputune", "agent"]
        assert all(word in known for word in container["command"] if word.startswith("--"))
        assert container["args"][:4] == ["--", "gputune", "watch", "--out"]
    assert replicas["Worker"]["replicas"] == 3
