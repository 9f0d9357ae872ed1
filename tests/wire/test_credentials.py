"""Certificates and tokens: made once, private, and refused where they are not."""

import shutil
import ssl
import stat
from pathlib import Path

import pytest

from gputune.core.errors import BadUsage, GputuneError
from gputune.wire import credentials


def test_both_halves_are_there_and_private(made: Path) -> None:
    for file in made.rglob("*"):
        assert stat.S_IMODE(file.stat().st_mode) == (0o700 if file.is_dir() else 0o600), file
    server, client = (credentials.read(made, side) for side in (credentials.SERVER, credentials.CLIENT))
    assert server.token == client.token
    assert len(server.token) >= 40
    assert server.authority == client.authority
    assert server.key != client.key
    assert not list(made.rglob(".*"))


def test_a_half_that_was_copied_is_read_alike(made: Path) -> None:
    assert credentials.read(made / "client", "client") == credentials.read(made, "client")


@pytest.mark.parametrize("content", [b"", b"no certificate", b"cut", b"\xff\xfe\x00"])
def test_a_damaged_authority_of_our_own_is_said_with_its_file(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    own = Path(shutil.copytree(made, tmp_path / "own"))
    file = own / "client" / "ca.pem"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if content == b"cut" else content)
    monkeypatch.setattr(credentials, "home", lambda: own)
    for asked in (lambda: credentials.read(own, "client"), lambda: credentials.wanted(None)):
        with pytest.raises(BadUsage, match=r"client/ca\.pem` is damaged") as refused:
            asked()
        assert "--init" in str(refused.value.hint)


def test_the_authority_may_have_words_around_it(made: Path, tmp_path: Path) -> None:
    own = Path(shutil.copytree(made, tmp_path / "own"))
    file = own / "client" / "ca.pem"
    file.write_bytes("# unsere Behörde\n".encode() + file.read_bytes())
    assert credentials.read(own, "client").authority.startswith(b"#")


def test_the_certificate_is_for_the_names_that_were_given(tmp_path: Path) -> None:
    credentials.make(tmp_path, ["m8", "10.0.0.8", "::1"])
    found = ssl._ssl._test_decode_cert(str(tmp_path / "server" / "server.pem"))  # type: ignore[attr-defined]
    assert set(found["subjectAltName"]) == {
        ("DNS", "m8"),
        ("IP Address", "10.0.0.8"),
        ("IP Address", "0:0:0:0:0:0:0:1"),
    }


def test_a_name_can_be_added_later(tmp_path: Path) -> None:
    credentials.make(tmp_path, ["m8"])
    before = credentials.read(tmp_path, "client")
    credentials.make(tmp_path, ["m8", "m9"])
    after = credentials.read(tmp_path, "server")
    assert after.authority == before.authority
    assert after.token == before.token


@pytest.mark.parametrize("name", ["", "a b", "x,DNS:evil", "x\nsubjectAltName=DNS:evil", "$ENV::HOME", "-x", "a" * 300])
def test_what_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadUsage):
        credentials.make(tmp_path, [name])
    assert not list(tmp_path.iterdir())


def test_no_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="no name"):
        credentials.make(tmp_path, [])


def test_without_openssl_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GputuneError, match="`openssl` is not installed"):
        credentials.make(tmp_path / "new", ["m8"])


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    credentials.make(tmp_path, ["m8"])
    (tmp_path / "server" / "server.key").chmod(0o640)
    with pytest.raises(BadUsage, match="may be read by others"):
        credentials.read(tmp_path, "server")


@pytest.mark.parametrize("side", [credentials.SERVER, credentials.CLIENT])
def test_a_token_that_others_may_read_is_refused_on_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    credentials.make(tmp_path, ["m8"])
    token = tmp_path / side / "token"
    token.chmod(0o644)
    monkeypatch.setattr(credentials, "home", lambda: tmp_path)
    asked = [lambda: credentials.read(tmp_path, side)]
    asked += [lambda: credentials.wanted(None)] if side == credentials.CLIENT else []
    for ask in asked:
        with pytest.raises(BadUsage, match=r"token` may be read by others") as refused:
            ask()
        assert refused.value.hint == f"chmod 600 {token}"
    token.chmod(0o600)
    assert credentials.read(tmp_path, side).token


@pytest.mark.parametrize("token", ["", "short", "with a space in it, and long", "ä" * 20, "x" * 20 + "\x00"])
def test_a_token_that_is_none_is_refused(tmp_path: Path, token: str) -> None:
    credentials.make(tmp_path, ["m8"])
    (tmp_path / "client" / "token").write_text(token)
    with pytest.raises(credentials.NoCredentials, match="holds no token"):
        credentials.read(tmp_path, "client")


def test_missing_ones_are_told_with_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(credentials.NoCredentials) as refused:
        credentials.read(tmp_path, "server")
    assert "gputune agent --init" in refused.value.hint


def test_a_certificate_that_is_none_is_refused(tmp_path: Path) -> None:
    credentials.make(tmp_path, ["m8"])
    (tmp_path / "server" / "server.pem").write_text("no certificate")
    with pytest.raises(credentials.NoCredentials, match="cannot be used"):
        credentials.context(tmp_path / "server", mutual=False)


def names_in(certificate: Path) -> set[str]:
    found = ssl._ssl._test_decode_cert(str(certificate))  # type: ignore[attr-defined]
    return {name for _, name in found["subjectAltName"]}


def test_each_node_may_have_a_key_of_its_own(tmp_path: Path) -> None:
    credentials.make(tmp_path, ["m8,10.0.0.8", "m9"], each=True)
    m8, m9 = (credentials.read(tmp_path / "nodes" / name, "server") for name in ("m8", "m9"))
    client = credentials.read(tmp_path, "client")
    assert m8.key != m9.key
    assert {m8.token, m9.token, m8.authority, m9.authority} == {client.token, client.authority}
    assert names_in(m8.folder / "server.pem") == {"m8", "10.0.0.8"}
    assert names_in(m9.folder / "server.pem") == {"m9"}
    assert not (tmp_path / "server").exists()
    assert all(not stat.S_IMODE(path.stat().st_mode) & 0o077 for path in tmp_path.rglob("*"))


def test_a_new_token_and_the_one_before_are_taken_by_nodes_until_the_next(tmp_path: Path) -> None:
    credentials.make(tmp_path, ["m8", "::1"])
    credentials.make(tmp_path, ["m9,10.0.0.9"], each=True)
    sides = (tmp_path / "server", tmp_path / "nodes" / "m9")
    before = credentials.read(tmp_path, "client")
    first = [credentials.read(side, "server") for side in sides]
    credentials.make(tmp_path, [], rotate=True)
    after = credentials.read(tmp_path, "client")
    second = [credentials.read(side, "server") for side in sides]
    assert before.token != after.token
    assert [each.accepted for each in second] == [(after.token, before.token)] * 2
    assert after.former == "" != after.key != before.key
    assert all(one.key != other.key for one, other in zip(first, second, strict=True))
    assert names_in(sides[0] / "server.pem") == {"m8", "0:0:0:0:0:0:0:1"}
    assert names_in(sides[1] / "server.pem") == {"m9", "10.0.0.9"}
    assert after.authority == before.authority
    credentials.make(tmp_path, ["m7"], each=True)
    assert credentials.read(tmp_path / "nodes" / "m7", "server").accepted == second[0].accepted
    credentials.make(tmp_path, [], rotate=True)
    third = credentials.read(sides[0], "server").accepted
    assert third[1:] == (after.token,)
    assert before.token not in third


def test_what_is_one_of_the_tokens_is_known() -> None:
    assert credentials.is_one_of(b"other", ["token", "other"])
    assert not credentials.is_one_of(b"", ["token", "other"])
    assert not credentials.is_one_of(b"token", [])


def test_nothing_that_is_there_cannot_be_rotated(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="no name"):
        credentials.make(tmp_path, [], rotate=True)
