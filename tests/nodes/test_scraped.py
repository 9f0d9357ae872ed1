"""An agent that is scraped: over HTTP, by whoever calls this machine by a name of its own."""

import http.client
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
from prometheus_client.parser import text_string_to_metric_families as parse

from gputune.core.errors import BadUsage
from gputune.nodes.desk import Hangs
from gputune.nodes.scraped import MetricsPortTaken, Scraped

NOBODY: Callable[[], Any] = lambda: ([], [])  # noqa: E731 - rows of nothing


def asked(address: str, path: str = "/metrics", **headers: str) -> tuple[int, str]:
    """Return status and body of an answer."""
    to = urlsplit(address)
    connection = http.client.HTTPConnection(str(to.hostname), to.port, timeout=60)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    status, body = answer.status, answer.read().decode()
    connection.close()
    return status, body


@pytest.fixture
def scraped() -> Any:
    made = Scraped(":0", ("m8",))
    made.open(NOBODY)
    yield made
    made.close()


def test_an_agent_tells_its_machine(agents: Callable[..., Any]) -> None:
    agent = agents("m8", "--metrics", "127.0.0.1:0")
    status, body = asked(agent.told["metrics"])
    assert status == 200
    found = {s.name: s for family in parse(body) for s in family.samples}
    assert found["gputune_node_memory_total_bytes"].labels == {"Hostname": "m8"}
    assert found["gputune_node_memory_total_bytes"].value > 1e6
    assert agent.end() == 0


def test_a_training_that_runs_there_is_told_with_its_job(
    agents: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., None]
) -> None:
    job = f"77{os.getpid()}"  # other runs of this user may be there as well, and two of one name are told apart by more
    name = f"run-{job}"
    monkeypatch.setenv("SLURM_JOB_ID", job)
    agent = agents("m8", "--metrics", "127.0.0.1:0")
    code = "import sys; sys.stdin.read()"
    watch = subprocess.Popen(
        [sys.executable, "-m", "gputune", "watch", "--quiet", "--out", name, "--", sys.executable, "-c", code],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    here = {"run": f"m8/{name}", "Hostname": "m8", "hpc_job": job, "name": "-c"}

    def there() -> bool:
        _, body = asked(agent.told["metrics"])
        found = [s.labels for family in parse(body) for s in family.samples if s.name == "gputune_run_info"]
        return any(here.items() <= {**labels, "name": "-c"}.items() for labels in found)

    try:
        eventually(there)
    finally:
        assert watch.stdin is not None
        watch.stdin.close()
        status = watch.wait(60)
    assert status == 0


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1", "[::1]:9", "10.1.2.3:7071", "m8", "m8.:80"])
def test_by_an_address_or_a_name_of_its_own_it_answers(scraped: Scraped, host: str) -> None:
    assert asked(scraped.address, Host=host)[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7071", "localhost.evil.example", "", "127.0.0.1.evil.example"]
)
def test_by_another_name_it_does_not(scraped: Scraped, host: str) -> None:
    status, body = asked(scraped.address, Host=host)
    assert (status, "gputune_" in body) == (403, False)


def test_there_is_nothing_else_there(scraped: Scraped) -> None:
    assert asked(scraped.address, "/")[0] == 404
    assert asked(scraped.address, "/metrics/../run.json")[0] == 404


def test_a_port_in_use_is_said(scraped: Scraped, tmp_path: Path) -> None:
    port = urlsplit(scraped.address).port
    with pytest.raises(MetricsPortTaken, match=f"port {port} of `127.0.0.1` is in use"):
        Scraped(f"127.0.0.1:{port}")
    tmp_path.chmod(0o700)
    words = ["--metrics", f"127.0.0.1:{port}", "--state", "state", "--socket", "a.sock"]
    done = subprocess.run(
        [sys.executable, "-m", "gputune", "agent", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        1,
        "hint: `--metrics :0` takes a free one, and says which",
    )


@pytest.mark.parametrize("wished", ["127.0.0.1:port", "192.0.2.1:0", "no.such.host.example.:1"])
def test_what_is_no_address_is_said(wished: str) -> None:
    with pytest.raises(BadUsage, match="`--metrics") as refused:
        Scraped(wished)
    assert refused.value.hint == "`--metrics 127.0.0.1:7071` is this machine's own address"


def test_a_reader_that_hangs_is_no_answer() -> None:
    def rows() -> Any:
        raise Hangs(20.0)

    made = Scraped(":0")
    made.open(rows)
    assert asked(made.address) == (503, "the agent has read nothing for 20 s: its reader hangs\n")
    made.close()


def test_nonsense_and_silence_end_nothing(scraped: Scraped) -> None:
    port = int(urlsplit(scraped.address).port or 0)
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(4)]
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        peer.recv(1000)
    assert asked(scraped.address)[0] == 200
    for peer in silent:
        peer.close()


@pytest.mark.parametrize("other", [("--hosts", "m9"), ("--init",)])
def test_it_is_for_an_agent_of_this_machine(tmp_path: Path, other: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gputune", "agent", "--metrics", *other],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, "is for an agent of this machine" in done.stderr) == (2, True)
